"""`lcpo completion bash`: a script for the shell, so that Tab completes commands and options.

All words are written into the script: to ask `lcpo` at every Tab would take seconds.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterable
from typing import Annotated

import tyro

from lcpo.cli import flags
from lcpo.values import refuse

SCRIPT = """\
# Completion of `lcpo`, of the version that wrote it: lcpo completion {shell} > FILE
_lcpo() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" words="" head=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words={commands}
    else
        case "$command $before" in
{values}
        *) case "$command" in
{options}
            esac;;
        esac
    fi
    case "$before $word" in
        --agents\\ *,*) head="${{word%,*}},";;
    esac
    COMPREPLY=($(compgen -P "$head" -W "$words" -- "${{word#"$head"}}"))
}}
complete -o default -F _lcpo lcpo
"""
"""Where it finds nothing, the shell's own completion takes over: files."""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion(arguments: list[str]) -> None:
    """Print a script that makes Tab complete commands, options and names in a shell."""
    options = flags.parse(
        "completion",
        "A script for the shell. Once: lcpo completion bash > ~/.lcpo-completion; then, in your "
        "~/.bashrc: source ~/.lcpo-completion",
        arguments,
        [("shell", Annotated[str, tyro.conf.Positional], "bash or zsh.", tyro.MISSING)],
    )
    if options.shell not in ("bash", "zsh"):
        refuse("shell", options.shell, "bash or zsh")
    print((ZSH if options.shell == "zsh" else "") + script(options.shell), end="")


def script(shell: str) -> str:
    """The script; zsh runs bash's, too."""
    from lcpo.agents import AGENTS
    from lcpo.cli.main import COMMANDS
    from lcpo.contexts import TRACES
    from lcpo.core.ood import DETECTORS
    from lcpo.envs import ENVS
    from lcpo.study.paper import STUDIES

    values = {
        "*\\ --agent": AGENTS, "*\\ --agents": [*AGENTS, "all"], "*\\ --env": ENVS,
        "*\\ --trace": TRACES, "*\\ --detector": DETECTORS,
        "reproduce\\ reproduce": [*STUDIES, "--list"], "check-env\\ check-env": ENVS,
        "completion\\ completion": ("bash", "zsh"),
    }  # fmt: skip
    options = {name: _options(name, command) for name, command in COMMANDS.items()}
    return SCRIPT.format(
        shell=shell,
        commands=_words([*COMMANDS, "--help", "--version"]),
        values="\n".join(f"        {at}) words={_words(found)};;" for at, found in values.items()),
        options="\n".join(f"            {name}) words={_words(found)};;"
                          for name, found in options.items()),
    )  # fmt: skip


def _words(names: Iterable[str]) -> str:
    return shlex.quote(" ".join(names))


def _options(name: str, command: Callable[[list[str]], int | None]) -> list[str]:
    """The options that the help of a command shows."""
    first = {"reproduce": ["windy"], "check-env": ["pendulum"]}.get(name, [])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        command([*first, "--help"])
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", shown.getvalue())))

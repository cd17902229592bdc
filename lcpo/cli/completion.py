"""`lcpo completion bash`: a script for the shell, so that Tab completes commands and options.

The script holds all words: asking `lcpo` at every Tab would take seconds.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable

from lcpo.cli import flags
from lcpo.cli.checks import known_names
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
    """Print the script; zsh runs bash's."""
    from lcpo.cli.main import COMMANDS

    shells = ("bash", "zsh")
    place = flags.Option("shell", str, "bash or zsh.", is_positional=True)
    shell = flags.parse("completion", arguments, [place], ABOUT).shell
    if shell not in shells:
        refuse("shell", shell, "bash or zsh")
    known = known_names()
    values = {
        "*\\ --agent": known["agents"], "*\\ --agents": [*known["agents"], "all"],
        "*\\ --env": known["envs"],
        "*\\ --trace": [name for name in known["traces"] if ":" not in name],  # no families
        "*\\ --detector": known["detectors"],
        "reproduce\\ reproduce": [*known["experiments"], "--list"],
        "check-env\\ check-env": known["envs"], "completion\\ completion": shells,
    }  # fmt: skip
    options = {name: _options(name, command) for name, command in COMMANDS.items()}
    script = SCRIPT.format(
        shell=shell,
        commands=_words([*COMMANDS, "--help", "--version"]),
        values="\n".join(f"        {at}) words={_words(found)};;" for at, found in values.items()),
        options="\n".join(f"            {name}) words={_words(found)};;"
                          for name, found in options.items()),
    )  # fmt: skip
    print((ZSH if shell == "zsh" else "") + script, end="")


ABOUT = (
    "Print a script for the shell. Run once: lcpo completion bash > ~/.lcpo-completion; then add "
    "to your ~/.bashrc: source ~/.lcpo-completion"
)


def _words(names: Iterable[str]) -> str:
    return shlex.quote(" ".join(names))


def _options(name: str, command: Callable[[list[str]], int | None]) -> list[str]:
    """The flags of a command."""
    first = {"reproduce": ["windy"], "check-env": ["pendulum"]}.get(name, [])
    try:
        command([*first, "--help"])
    except flags.Help as asked:
        named = [option for option in asked.options if not option.is_positional]
        return sorted({"--help", *(flag for option in named for flag in option.flags)})
    raise AssertionError(f"{name} --help shows no options")

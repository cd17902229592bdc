"""`lcpo completion bash`: a script for the shell, so that Tab completes commands and options.

The script contains all words: calling `lcpo` at every Tab would take seconds. Where it finds
nothing, the shell's own completion takes over: files.
"""

from __future__ import annotations

import importlib.resources
import shlex
from collections.abc import Callable, Iterable

from lcpo.cli import flags
from lcpo.cli.checks import known_names
from lcpo.values import refuse

ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion(arguments: list[str]) -> None:
    """Print the script; zsh uses the one for bash."""
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
    parts = {
        "SHELL": shell,
        "COMMANDS": _words([*COMMANDS, "--help", "--version"]),
        "VALUES": "\n".join(f"        {at}) words={_words(x)};;" for at, x in values.items()),
        "OPTIONS": "\n".join(
            f"            {name}) words={_words(x)};;" for name, x in options.items()
        ),
    }
    script = (importlib.resources.files("lcpo.cli") / "completion.bash").read_text("utf-8")
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
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

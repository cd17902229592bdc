"""The command `suggest`: an agent and settings to start with."""

from __future__ import annotations

import json

from lcpo import config as configs
from lcpo.cli import flags, show
from lcpo.cli.flags import Option
from lcpo.cli.runs import trace_of
from lcpo.run.plan.job import find_env
from lcpo.study.advice import start


def suggest(arguments: list[str]) -> None:
    """An agent and settings to start with for a number of steps, and why."""
    env = flags.peek(arguments, "env", "")
    default_env = configs.make(find_env(env), {}) if env else None
    options = flags.parse(
        "suggest",
        arguments,
        [
            Option("env", str, "Environment: a name, gym:ID, or package.module:Class."),
            Option("steps", int, "Interactions that you can afford per run, such as 5e4."),
            Option("trace", str | None, "Name or file; default: the environment's.", None),
            Option("columns", str | None, "Columns of a file, names or numbers from 1.", None),
            Option("repeat", bool, "Repeat a trace that has fewer rows than steps.", False),
            Option("hold", bool, "Hold the last row of a trace with fewer than steps.", False),
            Option("scale", float | None, "Factor on the trace; default: as in training.", None),
            Option("json", bool, "Print one JSON document.", False),
            *(flags.config_fields(default_env, "env.") if env else []),
        ],
    )
    found = start.start(
        options.env,
        options.steps,
        trace=trace_of(options, options.trace),
        scale=options.scale,
        env_overrides=flags.config_changes(options, default_env, "env."),
    )
    if options.json:
        print(json.dumps(found.to_json()))
        return
    _show(found)


def _show(found: start.Start) -> None:
    (agent, settings), reasons = found.suggestion.first, found.suggestion.reasons
    show.line(found.about)
    show.line()
    show.line(agent, "start with", "green")
    for name, value in settings.items():
        show.line(f"  {name} = {value}")
    show.line()
    show.line("why:")
    for reason in reasons:
        show.line(f"- {reason}")
    for command, what in ((found.train, "train it:"), (found.compare, "compare it:")):
        show.line()
        show.line(what)
        show.line(f"  {command}")
    for note in found.notes:
        show.note(note)

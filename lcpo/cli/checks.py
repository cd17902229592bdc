"""The commands `list`, `check-env` and `bench`."""

from __future__ import annotations

import importlib.resources
import json
from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lcpo.cli import HELP, flags, show
from lcpo.cli.flags import Option
from lcpo.errors import InputError
from lcpo.values import whole


def known_names() -> dict[str, dict[str, str]]:
    """Help by kind and name. From a file: the registries import JAX, which takes a second.

    `python tests/support/names.py` rewrites the file; a test compares it with the registries.
    """
    return json.loads((importlib.resources.files("lcpo.cli") / "names.json").read_text("utf-8"))


def list_names(arguments: list[str]) -> None:
    """List what can be named on a command line."""
    options = flags.parse("list", arguments, [Option("json", bool, "Print JSON.", False)])
    known = known_names()
    if options.json:
        print(json.dumps({kind: list(names) for kind, names in known.items()}))
        return
    for kind, names in known.items():
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, help in names.items():
            table.add_row(Text(f"  {name}"), Text(help))
        Console().print(table)


def check_env(arguments: list[str]) -> int:
    """Examine an environment; the exit code is 1 if it has a problem."""
    from lcpo import config as configs
    from lcpo import contexts
    from lcpo.run.plan.job import find_env
    from lcpo.study.advice.examine import examine

    if arguments[:1] in (["-h"], ["--help"]):
        print(CHECK_ENV.format(", ".join(known_names()["envs"])))
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise InputError("give the name of an environment first: package.module:Class, or gym:ID")
    name, *rest = arguments
    default = configs.make(find_env(name), {})
    fields = [
        Option(
            "trace", str | None, "Contexts to play with: a name or a file; default: noise.", None
        ),
        *flags.config_fields(default, "env."),
    ]
    options = flags.parse(f"check-env {name}", rest, fields, HELP["check-env"])
    env = configs.make(type(default), flags.config_changes(options, default, "env."))
    trace = None if options.trace is None else contexts.TraceRef.parse(options.trace)
    colours, found = {"ok": "green", "note": "yellow", "problem": "red"}, Counter()
    for level, text in examine(env, name, trace):
        found[level] += 1
        show.line(text, f"{level:<7}", colours[level])
    problems, notes = found["problem"], found["note"]
    mind = f"; see the {notes} note(s) above" if notes else ""
    print(f"{problems} problem(s)" if problems else f"{name} is ready to use{mind}")
    return flags.RUN_FAILED if problems else 0


CHECK_ENV = """\
usage: lcpo check-env NAME [options]      (lcpo check-env NAME --help: all its options)

Plays with an environment as `lcpo train` would, and reports what is wrong with it: shapes, types,
values that are not finite, broken rules. The exit code is 1 where there is a problem. A table shows
what each entry of an observation is, with the names of a trace's channels if you pass --trace.

NAME is
  package.module:Class   your own (docs/add_an_environment.md): a Gymnasium or an lcpo environment
  gym:ID                 an environment registered with Gymnasium, such as gym:CartPole-v1
  {}

Its fields are options, as in  lcpo check-env pendulum --env.num-bins 5"""


def bench(arguments: list[str]) -> None:
    """Microseconds per interaction on one core; interactions per second on all."""
    from lcpo.bench import bench as measure

    options = flags.parse(
        "bench",
        arguments,
        [
            Option("json", bool, "Print one JSON object.", False),
            Option("gpu_runs", int, "Runs at once, if there is a GPU.", 96),
        ],
    )
    runs = whole("--gpu-runs", options.gpu_runs, 1, 1_000_000)
    result = measure(runs, lambda text: show.line(text, stderr=True))
    if options.json:
        print(json.dumps(result))
        return
    table = Table(box=None, show_header=False)
    table.add_row("A2C, one core", f"{result['a2c_us']:.1f} us per interaction")
    table.add_row("LCPO, constraint active, one core", f"{result['lcpo_us']:.1f} us")
    table.add_row(f"LCPO, {result['cores']} core(s)", f"{result['all_cores_per_s']:,} per second")
    if "gpu_per_s" in result:
        table.add_row(f"LCPO, {result['gpu_runs']} runs on the GPU", f"{result['gpu_per_s']:,} /s")
    table.add_row("device", Text(result["device"]))
    Console().print(table)

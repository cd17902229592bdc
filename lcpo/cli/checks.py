"""The commands that look at what there is: names, environments, the speed of the machine."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lcpo import config as configs
from lcpo.cli import flags, show
from lcpo.errors import InputError
from lcpo.values import whole


def list_names(arguments: list[str]) -> None:
    """List agents, environments, detectors, traces and experiments."""
    from lcpo.agents import AGENTS
    from lcpo.contexts import FAMILIES, TRACES
    from lcpo.core.ood import DETECTORS
    from lcpo.envs import ENVS
    from lcpo.study.paper import STUDIES, find_study

    options = flags.parse("list", "What there is.", arguments, [("json", bool, "As JSON.", False)])
    families = {f"family:{kind}:SEED": help for kind, help in FAMILIES.items()}
    known = {
        "agents": {name: _agent_help(agent) for name, agent in AGENTS.items()},
        "envs": {name: _first_line(env) for name, env in ENVS.items()},
        "detectors": {name: _first_line(d.distance) for name, d in DETECTORS.items()},
        "traces": {**{name: t.help for name, t in TRACES.items()}, **families},
        "experiments": {name: find_study(name).help for name in STUDIES},
    }
    if options.json:
        print(json.dumps({kind: list(names) for kind, names in known.items()}))
        return
    for kind, names in known.items():
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, help in names.items():
            table.add_row(Text(f"  {name}"), Text(help))
        Console().print(table)


def _agent_help(agent: Any) -> str:
    changed = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                        for k, v in agent.presets.items())  # fmt: skip
    text = f"{_first_line(agent.Config)} {changed}".strip()
    if agent.training:
        text += f" Trained on {agent.training.steps:,} steps from random starts, then only acts."
    return text


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def check_env(arguments: list[str]) -> int:
    """Play with an environment of yours, and tell what is wrong with it."""
    from lcpo.run.plan.job import find_env
    from lcpo.study.advice.examine import examine

    if arguments[:1] in (["-h"], ["--help"]):
        _check_env_usage()
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise InputError("name an environment first: package.module:Class, or gym:ID")
    name, *rest = arguments
    default = configs.make(find_env(name), {})
    help = "Play with an environment, and tell what is wrong with it."
    options = flags.parse(f"check-env {name}", help, rest, [], flags.config_fields(default))
    env = configs.make(type(default), flags.config_changes(options.env_config, default))
    colours, found = {"ok": "green", "note": "yellow", "problem": "red"}, Counter()
    for level, text in examine(env, name):
        found[level] += 1
        show.line(text, f"{level:<7}", colours[level])
    problems, notes = found["problem"], found["note"]
    mind = f"; mind the {notes} note(s) above" if notes else ""
    print(f"{problems} problem(s)" if problems else f"{name} is fit for use{mind}")
    return flags.RUN_FAILED if problems else 0


def _check_env_usage() -> None:
    from lcpo.envs import ENVS

    print("usage: lcpo check-env NAME [options]      (lcpo check-env NAME --help: all its options)")
    print("""
Plays with an environment as `lcpo train` would, and tells what is wrong with it: shapes, types,
values that are not finite, rules that are broken. Exit code 1 where there is a problem.

NAME is
  package.module:Class   one of your own (docs/add_an_environment.md), Gymnasium's kind or ours
  gym:ID                 one that is registered with Gymnasium, such as gym:CartPole-v1""")
    print(f"  {', '.join(ENVS)}")
    print("\nIts fields are options, as in  lcpo check-env pendulum --env.num-bins 5")


def bench(arguments: list[str]) -> None:
    """Measure the speed of this machine."""
    from lcpo.bench import bench as measure

    options = flags.parse(
        "bench",
        "Microseconds per interaction on one core; interactions per second on all.",
        arguments,
        [
            ("json", bool, "As one JSON object.", False),
            ("gpu_runs", int, "Runs at once, if there is a GPU.", 96),
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

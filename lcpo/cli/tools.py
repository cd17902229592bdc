"""The commands that look at things: names, environments, traces, records, speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from lcpo import config as configs
from lcpo.cli import options as cmdline
from lcpo.errors import InputError


def list_names(arguments: list[str]) -> None:
    """List agents, environments, detectors, traces and experiments."""
    from lcpo.agents import AGENTS
    from lcpo.contexts import FAMILIES, TRACES
    from lcpo.core.ood import DETECTORS
    from lcpo.envs import ENVS
    from lcpo.study.paper.registry import EXPERIMENTS

    options = cmdline.parse(
        "list", "What there is.", arguments, [("json", bool, "As JSON.", False)]
    )
    families = {f"family:{kind}:SEED": help for kind, help in FAMILIES.items()}
    known = {
        "agents": {name: _agent_help(agent) for name, agent in AGENTS.items()},
        "envs": {name: _first_line(env) for name, env in ENVS.items()},
        "detectors": {name: _first_line(d.distance) for name, d in DETECTORS.items()},
        "traces": {**{name: t.help for name, t in TRACES.items()}, **families},
        "experiments": {name: e.help for name, e in EXPERIMENTS.items()},
    }
    if options.json:
        print(json.dumps({kind: list(names) for kind, names in known.items()}))
        return
    for kind, names in known.items():
        table = Table(title=kind, title_justify="left", box=None, show_header=False)
        for name, help in names.items():
            table.add_row(f"  {name}", help)
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
    from lcpo.examine import examine
    from lcpo.run.plan.job import find_env

    if not arguments or arguments[0].startswith("-"):
        raise InputError("name an environment: package.module:Class, or gym:ID")
    name, *rest = arguments
    default = configs.make(find_env(name), {})
    help = "Play with an environment, and tell what is wrong with it."
    options = cmdline.parse(f"check-env {name}", help, rest, [], cmdline.config_fields(default))
    env = configs.make(type(default), cmdline.changed(options.env_config, default))
    colours, problems = {"ok": "green", "note": "yellow", "problem": "red"}, 0
    for level, text in examine(env, name):
        problems += level == "problem"
        line = f"[{colours[level]}]{level:<8}[/]{cmdline.escaped(text)}"
        Console(soft_wrap=True).print(line, highlight=False)
    print(f"{problems} problem(s)" if problems else f"{name} is fit for use")
    return cmdline.RUN_FAILED if problems else 0


def bench(arguments: list[str]) -> None:
    """Measure the speed of this machine."""
    from lcpo.bench import bench as measure

    options = cmdline.parse(
        "bench",
        "Microseconds per interaction on one core; interactions per second on all.",
        arguments,
        [
            ("json", bool, "As one JSON object.", False),
            ("gpu_runs", int, "Runs at once, if there is a GPU.", 96),
        ],
    )
    result = measure(options.gpu_runs)
    if options.json:
        print(json.dumps(result))
        return
    table = Table(box=None, show_header=False)
    table.add_row("A2C, one core", f"{result['a2c_us']:.1f} us per interaction")
    table.add_row("LCPO, constraint active, one core", f"{result['lcpo_us']:.1f} us")
    table.add_row(f"LCPO, {result['cores']} core(s)", f"{result['all_cores_per_s']:,} per second")
    if "gpu_per_s" in result:
        table.add_row(f"LCPO, {result['gpu_runs']} runs on the GPU", f"{result['gpu_per_s']:,} /s")
    table.add_row("device", result["device"])
    Console().print(table)


def trace(arguments: list[str]) -> None:
    """Draw context traces, and tell what they hold."""
    from lcpo.study.trace_figure import plot_traces, trace_summary

    options = cmdline.parse(
        "trace",
        "Draw traces (default: the four of the paper).",
        arguments,
        [
            ("names", Annotated[tuple[str, ...], tyro.conf.Positional],
             "Names or files.", ("1", "2", "3", "4")),
            ("out", Path, "Picture to write.", Path("trace.png")),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )  # fmt: skip
    table = Table("trace", "rows", "channel", "mean", "std", "min", "max", box=None)
    for name in options.names:
        found = trace_summary(name, options.rows)
        for c in range(found["channels"]):
            numbers = [f"{found[k][c]:.3f}" for k in ("mean", "std", "min", "max")]
            table.add_row(name if c == 0 else "", f"{found['rows']:,}" if c == 0 else "",
                          str(c), *numbers)  # fmt: skip
    plot_traces(options.names, options.out, options.rows)
    Console().print(table)
    print(f"wrote {options.out}")


def calibrate(arguments: list[str]) -> None:
    """How often would LCPO's constraint be active on a trace? Suggests sigma."""
    from lcpo.study import calibrate as study

    options = cmdline.parse(
        "calibrate",
        "Distances between contexts, activity of the constraint by sigma, a suggested sigma.",
        arguments,
        [
            ("trace", str, "Name or file.", tyro.MISSING),
            ("out", Path, "Picture to write.", Path("calibrate.png")),
            ("scale", float, "The trace is multiplied by this.", 1.0),
            ("rollout_length", int, "Interactions per update.", 200),
            ("lags", int, "Values of each channel in an observation.", 3),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )
    found = study.calibrate(
        options.trace,
        rollout_length=options.rollout_length,
        lags=options.lags,
        scale=options.scale,
        rows=options.rows,
    )
    study.plot(found, options.out)
    print(study.summary(found))
    print(f"wrote {options.out}")


def export(arguments: list[str]) -> None:
    """Gather the records of all runs in a folder into one Parquet or CSV table."""
    from lcpo.study.export import export as write

    options = cmdline.parse(
        "export",
        "One table of all records.",
        arguments,
        [
            ("folder", Annotated[Path, tyro.conf.Positional], "Output folder of runs.",
             tyro.MISSING),
            ("file", Annotated[Path, tyro.conf.Positional], "Table to write.", tyro.MISSING),
            ("overwrite", bool, "Replace the table if it exists.", False),
        ],
    )  # fmt: skip
    write(options.folder, options.file, overwrite=options.overwrite)
    print(f"wrote {options.file}")

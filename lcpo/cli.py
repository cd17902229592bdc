"""The command `lcpo`. Every command is a function of typed options; tyro makes the flags."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from lcpo import cmdline
from lcpo import config as configs
from lcpo.config import unknown

BAD_INPUT = 2
RUN_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code: 2 for bad input, 1 if a run failed."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        _usage()
        return 0
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            raise ValueError(unknown("command", name, COMMANDS))
        return COMMANDS[name](rest) or 0
    except (ValueError, FileNotFoundError, ImportError) as error:
        Console(stderr=True, soft_wrap=True).print(
            f"[bold red]error:[/] {_escaped(str(error))}", highlight=False
        )
        return BAD_INPUT
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return RUN_FAILED
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on", file=sys.stderr)
        return 130


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def _usage() -> None:
    print("usage: lcpo COMMAND [options]      (lcpo COMMAND --help tells the options)\n")
    for name, command in COMMANDS.items():
        print(f"  {name:<10} {(command.__doc__ or '').splitlines()[0]}")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of every command that runs agents."""

    env: str = "pendulum"
    """Environment: a name (`lcpo list`), gym:ID, or your own as package.module:Class."""
    trace: str | None = None
    """Context: a name, family:KIND:SEED, or a file (npy, csv, parquet)."""
    steps: int | None = None
    """Interactions per run; default: the length of the trace."""
    seeds: str = "4"
    """How many seeds (0, 1, ...), or which ones, as in 3,7 (a single one: 7,)."""
    out: Path | None = None
    """Folder for results; default: out/ and a name."""
    scale: float | None = None
    """The trace is multiplied by this; default: the environment's own."""
    training_steps: int | None = None
    """Interactions of a prescient agent before its run along the trace; default: its own."""
    resume: bool = False
    """Go on with the runs that the folder holds."""
    workers: int | None = None
    """Processes at a time; default: one per core."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints."""


def train(arguments: list[str]) -> int:
    """Train an agent with several seeds; a summary table at the end."""
    from lcpo import api
    from lcpo.run.job import find_agent, find_env, plan
    from lcpo.run.presets import overrides as preset_overrides

    agent_name = cmdline.peek(arguments, "agent") or "lcpo"
    env_name = cmdline.peek(arguments, "env") or "pendulum"
    agent, env_class = find_agent(agent_name), find_env(env_name)
    preset = {**agent.preset, **preset_overrides(agent_name, env_name)}
    default = configs.make(agent.Config, preset)
    default_env = configs.make(env_class, {})
    options = cmdline.parse(
        "train",
        f"Train {agent_name} on {env_name}.",
        arguments,
        [
            ("agent", str, "Agent: a name (`lcpo list`), or your own as package.module:agent.",
             agent_name),
            *cmdline.fields_of(RunOptions),
            ("sweep", tuple[str, ...], "Values of config fields: field=a,b,c ...", ()),
            ("plan_only", bool, "Write the plan for `python -m lcpo.run.worker` and stop.", False),
            *cmdline.config_fields(default),
        ],
        cmdline.config_fields(default_env),
    )  # fmt: skip
    jobs = plan(
        agent_name,
        env_name,
        trace=options.trace,
        steps=options.steps,
        seeds=cmdline.seeds(options.seeds),
        scale=options.scale,
        overrides=cmdline.changed(options, default),
        env_overrides=cmdline.changed(options.env_config, default_env),
        sweep=dict(cmdline.sweep(text) for text in options.sweep),
        training_steps=options.training_steps,
    )
    out = options.out or api.default_out(jobs[0])
    if options.plan_only:
        from lcpo.run.local import PLAN, prepare, write_plan

        prepare(jobs, out, options.resume)
        write_plan(jobs, out)
        print(f"{len(jobs)} jobs planned: python -m lcpo.run.worker {out / PLAN}")
        return 0
    problems = api.run(jobs, out, options.resume, options.workers, options.checkpoint_seconds)
    return _report(out, [job.name for job in jobs], problems)


def compare(arguments: list[str]) -> int:
    """Train several agents on one environment and trace; tables and learning curves."""
    from lcpo import api
    from lcpo.run.job import find_agent, find_env, plan
    from lcpo.run.presets import published

    default_env = configs.make(find_env(cmdline.peek(arguments, "env") or "pendulum"), {})
    options = cmdline.parse(
        "compare",
        "Compare agents: the same environment, trace and seeds for each.",
        arguments,
        [
            ("agents", str, "Agents, separated by commas; the first is the reference.",
             "lcpo,a2c-entropy,a2c"),
            *cmdline.fields_of(RunOptions),
            ("warmup", int | None, "Steps left out of the return after warm-up.", None),
            ("published", bool, "Repeat the faults of the published code.", False),
        ],
        cmdline.config_fields(default_env),
    )  # fmt: skip
    agents = [name.strip() for name in options.agents.split(",") if name.strip()]
    if not agents:
        raise ValueError("no agents: name some, separated by commas")
    # Training steps are for the agents that train before; where none does, the plan says so.
    before = [name for name in agents if find_agent(name).training] or agents
    jobs = [
        job
        for agent in agents
        for job in plan(
            agent,
            options.env,
            trace=options.trace,
            steps=options.steps,
            seeds=cmdline.seeds(options.seeds),
            scale=options.scale,
            overrides=published(find_agent(agent).Config) if options.published else {},
            env_overrides={
                **(published(find_env(options.env)) if options.published else {}),
                **cmdline.changed(options.env_config, default_env),
            },
            training_steps=options.training_steps if agent in before else None,
        )
    ]
    trace = jobs[0].trace or "none"
    name = f"compare-{options.env}-{trace}{'-published' if options.published else ''}"
    name = name.replace("/", "_").replace(":", ".")
    out = options.out or Path("out") / name
    problems = api.run(jobs, out, options.resume, options.workers, options.checkpoint_seconds)
    return _report(out, [job.name for job in jobs], problems, warmup=options.warmup, files=True)


def _report(
    out: Path,
    names: list[str],
    problems: list[str],
    warmup: int | None = None,
    files: bool = False,
) -> int:
    """Print the table of these runs, what went wrong, and where things are."""
    from lcpo.run.results import load_results
    from lcpo.study import compare as study

    results = [result for result in load_results(out) if result.job.name in names]
    console = Console()
    finished = [r for r in results if r.status == "finished"]
    if finished:
        comparison = study.summarise(results, warmup=warmup)
        console.print(
            study.to_table(comparison).to_text(), soft_wrap=True, highlight=False, markup=False
        )
        if files:
            for path in study.write_report(comparison, results, out):
                console.print(f"wrote {path}", highlight=False)
        for warning in _inactivity(finished):
            console.print(f"[yellow]warning:[/] {_escaped(warning)}", highlight=False)
    for problem in problems:
        console.print(f"[red]{_escaped(problem)}", highlight=False)
    console.print(f"results: {out}", highlight=False)
    return RUN_FAILED if problems else 0


def _inactivity(results: list[Any]) -> list[str]:
    """A warning for every LCPO variant whose constraint was (almost) never active."""
    from lcpo.run import record
    from lcpo.run.job import job_trace
    from lcpo.study.calibrate import inactivity_warning

    warnings = {}
    for result in results:
        job, active = result.job, record.activity(result.record)
        group = job.name.rsplit("-s", 1)[0]
        sizes = job.config
        if active is None or active >= 0.01 or job.trace is None or group in warnings:
            continue
        if sizes["detector"] != "l2":
            warnings[group] = f"{group}: active in {100 * active:.1f} % of updates"
            continue
        text = inactivity_warning(job_trace(job)[: job.steps], sizes["sigma"], active=active)
        if text:
            warnings[group] = f"{group}: {text}"
    return list(warnings.values())


def list_names(arguments: list[str]) -> None:
    """List agents, environments, detectors, traces and experiments."""
    from lcpo.agents import AGENTS
    from lcpo.contexts import FAMILIES, TRACES
    from lcpo.core.ood import DETECTORS
    from lcpo.envs import ENVS
    from lcpo.study.experiments import EXPERIMENTS

    options = cmdline.parse(
        "list", "What there is.", arguments, [("json", bool, "As JSON.", False)]
    )
    families = {f"family:{kind}:SEED": help for kind, help in FAMILIES.items()}
    known = {
        "agents": {name: _agent_help(agent) for name, agent in AGENTS.items()},
        "envs": {name: _first_line(env) for name, env in ENVS.items()},
        "detectors": {name: _first_line(f) for name, f in DETECTORS.items()},
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
                        for k, v in agent.preset.items())  # fmt: skip
    text = f"{_first_line(agent.Config)} {changed}".strip()
    if agent.training:
        text += f" Trained on {agent.training.steps:,} steps from random starts, then only acts."
    return text


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def check_env(arguments: list[str]) -> int:
    """Play with an environment of yours, and tell what is wrong with it."""
    from lcpo.run.examine import examine
    from lcpo.run.job import find_env

    if not arguments or arguments[0].startswith("-"):
        raise ValueError("name an environment: package.module:Class, or gym:ID")
    name, *rest = arguments
    default = configs.make(find_env(name), {})
    help = "Play with an environment, and tell what is wrong with it."
    options = cmdline.parse(f"check-env {name}", help, rest, [], cmdline.config_fields(default))
    env = configs.make(type(default), cmdline.changed(options.env_config, default))
    colours, problems = {"ok": "green", "note": "yellow", "problem": "red"}, 0
    for level, text in examine(env, name):
        problems += level == "problem"
        line = f"[{colours[level]}]{level:<8}[/]{_escaped(text)}"
        Console(soft_wrap=True).print(line, highlight=False)
    print(f"{problems} problem(s)" if problems else f"{name} is fit for use")
    return RUN_FAILED if problems else 0


def bench(arguments: list[str]) -> None:
    """Measure the speed of this machine."""
    from lcpo.run.bench import bench as measure

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


def reproduce(arguments: list[str]) -> int:
    """Run an experiment of the paper: its figure, and what the figure shows."""
    from lcpo.study.experiments import EXPERIMENTS

    if not arguments or arguments[0].startswith("-"):
        raise ValueError(f"name an experiment: {', '.join(EXPERIMENTS)}")
    name, *rest = arguments
    if name not in EXPERIMENTS:
        raise ValueError(unknown("experiment", name, EXPERIMENTS))
    experiment = EXPERIMENTS[name]
    options = cmdline.parse(
        f"reproduce {name}", experiment.help, rest, cmdline.fields_of(experiment.Options)
    )
    values = {f.name: getattr(options, f.name) for f in dataclasses.fields(experiment.Options)}
    return experiment.run(experiment.Options(**values))


COMMANDS: dict[str, Callable[[list[str]], int | None]] = {
    "train": train,
    "compare": compare,
    "reproduce": reproduce,
    "list": list_names,
    "check-env": check_env,
    "trace": trace,
    "calibrate": calibrate,
    "export": export,
    "bench": bench,
}


if __name__ == "__main__":
    sys.exit(main())

"""The command `lcpo`. Every command is a function of typed options; tyro makes the flags."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lcpo import config as configs
from lcpo.cli import options as cmdline
from lcpo.cli import tools
from lcpo.errors import InputError
from lcpo.names import unknown

if TYPE_CHECKING:
    from lcpo.run.plan.job import Job


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code: 2 for bad input, 1 if a run failed."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        _usage()
        return 0
    name, *rest = arguments
    try:
        if name not in COMMANDS:
            raise InputError(unknown("command", name, COMMANDS))
        return COMMANDS[name](rest) or 0
    except (ValueError, FileNotFoundError, ImportError) as error:
        Console(stderr=True, soft_wrap=True).print(
            f"[bold red]error:[/] {cmdline.escaped(str(error))}", highlight=False
        )
        return cmdline.BAD_INPUT
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return cmdline.RUN_FAILED
    except KeyboardInterrupt:
        print("stopped; the same command with --resume goes on", file=sys.stderr)
        return 130


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
    from lcpo.agents import find_agent, presets
    from lcpo.run.plan.job import find_env
    from lcpo.run.plan.plan import plan

    agent_name = cmdline.peek(arguments, "agent") or "lcpo"
    env_name = cmdline.peek(arguments, "env") or "pendulum"
    agent, env_class = find_agent(agent_name), find_env(env_name)
    default = configs.make(agent.Config, presets.settings(agent, env_name))
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
        from lcpo.run.engines.base import prepare, write_plan
        from lcpo.run.store.layout import plan_file

        prepare(jobs, out, options.resume)
        write_plan(jobs, out)
        print(f"{len(jobs)} jobs planned: python -m lcpo.run.worker {plan_file(out)}")
        return 0
    problems = api.run(jobs, out, options.resume, options.workers, options.checkpoint_seconds)
    return _report(out, jobs, problems)


def compare(arguments: list[str]) -> int:
    """Train several agents on one environment and trace; tables and learning curves."""
    from lcpo import api
    from lcpo.run.plan.job import find_env
    from lcpo.run.plan.plan import plan_agents

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
    jobs = plan_agents(
        options.agents,
        options.env,
        trace=options.trace,
        steps=options.steps,
        seeds=cmdline.seeds(options.seeds),
        scale=options.scale,
        env_overrides=cmdline.changed(options.env_config, default_env),
        training_steps=options.training_steps,
        published=options.published,
    )
    trace = jobs[0].trace or "none"
    name = f"compare-{options.env}-{trace}{'-published' if options.published else ''}"
    name = name.replace("/", "_").replace(":", ".")
    out = options.out or Path("out") / name
    problems = api.run(jobs, out, options.resume, options.workers, options.checkpoint_seconds)
    return _report(out, jobs, problems, warmup=options.warmup, files=True)


def _report(
    out: Path,
    jobs: list[Job],
    problems: list[str],
    warmup: int | None = None,
    files: bool = False,
) -> int:
    """Print the table of these runs, what went wrong, and where things are."""
    from lcpo.run.store.results import load_results
    from lcpo.study import compare, report

    results = load_results(out, jobs)
    console = Console()
    finished = compare.finished_runs(results)
    if finished:
        comparison = compare.summarise(results, warmup=warmup)
        console.print(
            report.to_table(comparison).to_text(), soft_wrap=True, highlight=False, markup=False
        )
        if files:
            for path in report.write_report(comparison, results, out):
                console.print(f"wrote {path}", highlight=False)
        for warning in _inactivity(finished):
            console.print(f"[yellow]warning:[/] {cmdline.escaped(warning)}", highlight=False)
    for problem in problems:
        console.print(f"[red]{cmdline.escaped(problem)}", highlight=False)
    console.print(f"results: {out}", highlight=False)
    return cmdline.RUN_FAILED if problems else 0


def _inactivity(results: list[Any]) -> list[str]:
    """A warning for every LCPO variant whose constraint was (almost) never active."""
    from lcpo.run.plan.job import Setup
    from lcpo.run.store import record
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
        text = inactivity_warning(Setup(job).trace()[: job.steps], sizes["sigma"], active=active)
        if text:
            warnings[group] = f"{group}: {text}"
    return list(warnings.values())


def reproduce(arguments: list[str]) -> int:
    """Run an experiment of the paper: its figure, and what the figure shows."""
    from lcpo.study.paper.registry import EXPERIMENTS

    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"name an experiment: {', '.join(EXPERIMENTS)}")
    name, *rest = arguments
    if name not in EXPERIMENTS:
        raise InputError(unknown("experiment", name, EXPERIMENTS))
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
    "list": tools.list_names,
    "check-env": tools.check_env,
    "trace": tools.trace,
    "calibrate": tools.calibrate,
    "export": tools.export,
    "bench": tools.bench,
}


if __name__ == "__main__":
    sys.exit(main())

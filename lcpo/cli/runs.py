"""The commands that run agents: train, compare."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo import config as configs
from lcpo.cli import options as flags
from lcpo.cli import resume, show
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result


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
    """Processes at a time; default: one per core. With --engine slurm: tasks of the array."""
    engine: str = "local"
    """Where: local, ray (a cluster), slurm (writes a script for its queue)."""
    address: str | None = None
    """HOST:PORT of a Ray cluster; default: the one that this machine is in."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints."""
    keep_state: bool = False
    """Keep the last checkpoint of each run: with it, --resume with more --steps goes on."""
    track: tuple[str, ...] = ()
    """Tell of the runs while they run: jsonl, tensorboard, wandb, or several."""
    trust: bool = False
    """With --resume and --out alone: run agents and environments outside lcpo, too."""


def train(arguments: list[str]) -> int:
    """Train an agent with several seeds; a summary table at the end."""
    from lcpo import api
    from lcpo.agents import find_agent, presets
    from lcpo.run import further
    from lcpo.run.engines.choose import make_engine
    from lcpo.run.plan.check import check_running
    from lcpo.run.plan.job import find_env
    from lcpo.run.plan.plan import plan
    from lcpo.run.track import read_names

    if resume.is_alone(arguments):
        return _go_on("train", arguments)
    agent_name, env_name = flags.peek(arguments, "agent"), flags.peek(arguments, "env")
    agent_name = "lcpo" if agent_name is None else agent_name
    env_name = RunOptions.env if env_name is None else env_name
    agent, env_class = find_agent(agent_name), find_env(env_name)
    default = configs.make(agent.Config, presets.settings(agent, env_name))
    default_env = configs.make(env_class, {})
    options = flags.parse(
        "train",
        f"Train {agent_name} on {env_name}.",
        arguments,
        [
            ("agent", str, "Agent: a name (`lcpo list`), or your own as package.module:agent.",
             agent_name),
            *flags.class_fields(RunOptions),
            ("sweep", tuple[str, ...], "Values of config fields: field=a,b,c ...", ()),
            ("plan_only", bool, "Write the plan for `python -m lcpo.run.worker` and stop.", False),
            *flags.config_fields(default),
        ],
        flags.config_fields(default_env),
    )  # fmt: skip
    check_running(options.workers, options.checkpoint_seconds)
    trackers = read_names(options.track)
    engine = make_engine(
        options.engine, options.workers, options.address, options.checkpoint_seconds
    )
    make = functools.partial(
        plan,
        agent_name,
        env_name,
        trace=options.trace,
        seeds=flags.read_seeds(options.seeds),
        scale=options.scale,
        overrides=flags.config_changes(options, default),
        env_overrides=flags.config_changes(options.env_config, default_env),
        sweep=flags.read_sweep(options.sweep),
        training_steps=options.training_steps,
    )
    jobs = make(steps=options.steps)
    out = options.out or api.default_out(jobs[0])
    if options.resume and options.steps is not None:
        jobs = further.pinned(jobs, out, lambda steps: make(steps=steps), _note)
    if options.plan_only:
        return _write_plan(jobs, out, options.resume, options.keep_state)
    problems = api.run(
        jobs, out, options.resume, engine=engine, keep_state=options.keep_state, track=trackers
    )
    return _conclude(out, jobs, problems)


def _go_on(command: str, arguments: list[str]) -> int:
    """`--resume --out X` and nothing that says which runs: those of the folder's plan."""
    from lcpo import api
    from lcpo.run.engines.choose import make_engine
    from lcpo.run.plan.check import check_running
    from lcpo.run.track import read_names

    more = COMPARE_OPTIONS if command == "compare" else []
    help = "Go on with the runs that a folder holds."
    options = flags.parse(command, help, arguments, [*flags.class_fields(RunOptions), *more])
    check_running(options.workers, options.checkpoint_seconds)
    trackers = read_names(options.track)
    engine = make_engine(
        options.engine, options.workers, options.address, options.checkpoint_seconds
    )
    jobs = resume.planned(options)
    problems = api.run(
        jobs, options.out, True, engine=engine, keep_state=options.keep_state, track=trackers
    )
    if command == "train":
        return _conclude(options.out, jobs, problems)
    words = shlex.join(["lcpo", command, *arguments])
    return _conclude(options.out, jobs, problems, options.warmup, words, _imported(options))


def _note(text: str) -> None:
    show.line(text, "note:", "yellow", stderr=True)


def _write_plan(jobs: list[Job], out: Path, resume: bool, keep_state: bool) -> int:
    from lcpo.run.engines.base import plan_only
    from lcpo.run.plan.check import check_folder
    from lcpo.run.store.layout import plan_file

    check_folder(out)
    plan_only(jobs, out, _note, resume, keep_state)
    print(f"{len(jobs)} jobs planned: python -m lcpo.run.worker {plan_file(out)}")
    return 0


def compare(arguments: list[str]) -> int:
    """Train several agents on one environment and trace; tables and learning curves."""
    from lcpo import api
    from lcpo.run.engines.choose import make_engine
    from lcpo.run.plan.agents import plan_agents
    from lcpo.run.plan.check import check_running
    from lcpo.run.plan.job import find_env
    from lcpo.run.track import read_names
    from lcpo.study.compare import check_warmup

    if resume.is_alone(arguments):
        return _go_on("compare", arguments)
    env_name = flags.peek(arguments, "env")
    default_env = configs.make(find_env(RunOptions.env if env_name is None else env_name), {})
    options = flags.parse(
        "compare",
        "Compare agents: the same environment, trace and seeds for each.",
        arguments,
        [
            ("agents", str, "Agents, separated by commas; the first is the reference. all: every "
             "agent that can serve the environment, LCPO first.", "lcpo,a2c-entropy,a2c"),
            *flags.class_fields(RunOptions),
            *COMPARE_OPTIONS,
            ("published", bool, "With the values and all faults of the published code.", False),
        ],
        flags.config_fields(default_env),
    )  # fmt: skip
    others = _imported(options)
    check_running(options.workers, options.checkpoint_seconds)
    trackers = read_names(options.track)
    engine = make_engine(
        options.engine, options.workers, options.address, options.checkpoint_seconds
    )
    jobs = plan_agents(
        options.agents,
        options.env,
        trace=options.trace,
        steps=options.steps,
        seeds=flags.read_seeds(options.seeds),
        scale=options.scale,
        env_overrides=flags.config_changes(options.env_config, default_env),
        training_steps=options.training_steps,
        published=options.published,
        note=_note,
    )
    check_warmup(options.warmup, jobs)
    trace = jobs[0].trace or "none"
    name = f"compare-{options.env}-{trace}{'-published' if options.published else ''}"
    out = options.out or Path("out") / name.replace("/", "_").replace(":", ".")
    problems = api.run(
        jobs, out, options.resume, engine=engine, keep_state=options.keep_state, track=trackers
    )
    command = shlex.join(["lcpo", "compare", *arguments])
    return _conclude(out, jobs, problems, options.warmup, command, others)


COMPARE_OPTIONS: list[flags.Option] = [
    ("warmup", int | None, "Steps left out of the return after warm-up.", None),
    ("imported", tuple[Path, ...], "Folders of `lcpo import` to put into the tables.", ()),
]
"""Of what is shown of a comparison."""


def _imported(options: Any) -> list[Result]:
    from lcpo.run.store.results import load_results

    return [result for folder in options.imported for result in load_results(folder)]


def _conclude(
    out: Path,
    jobs: list[Job],
    problems: Sequence[str],
    warmup: int | None = None,
    command: str | None = None,
    others: Sequence[Result] = (),
) -> int:
    """Print the table of these runs, what went wrong, and where things are; the exit code.

    With `command`, the command line, the report is written as well. `others`: imported runs.
    """
    from lcpo.run.store.results import load_results
    from lcpo.study import compare, html, report

    results = [*load_results(out, jobs), *others]
    finished = compare.finished_runs(results)
    if finished:
        comparison = compare.summarise(results, warmup=warmup)
        show.line(report.to_table(comparison).to_text())
        if command is not None:
            written = report.write_report(comparison, results, out, command)
            for path in [*written, html.write_page(out)]:
                show.line(f"wrote {path}")
        for warning in _inactivity(finished):
            show.line(warning, "warning:", "yellow")
    for problem in problems:
        show.line(problem, colour="red")
    show.line(f"results: {out}")
    return flags.RUN_FAILED if problems else 0


def _inactivity(results: Sequence[Result]) -> list[str]:
    """A warning for every LCPO variant whose constraint was (almost) never active."""
    from lcpo.core import ood
    from lcpo.run.plan.job import Setup
    from lcpo.run.store import record
    from lcpo.study.calibrate import RARE, Lookback, inactivity_warning

    warnings = {}
    for result in results:
        job, active = result.job, record.activity(result.record)
        group = job.name.rsplit("-s", 1)[0]
        sizes = job.config
        if active is None or active >= RARE or job.trace is None or group in warnings:
            continue
        rows = Setup(job).trace()[: job.steps]
        is_short = len(rows) < 2 * Lookback().rollout_length
        if is_short or ood.find_detector(sizes["detector"]).distance is not ood.l2:
            warnings[group] = f"{group}: active in {100 * active:.1f} % of updates"
            continue
        text = inactivity_warning(rows, sizes["sigma"], active=active)
        if text:
            warnings[group] = f"{group}: {text}"
    return list(warnings.values())

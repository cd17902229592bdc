"""The commands that run agents: train, compare."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo import api, contexts
from lcpo import config as configs
from lcpo.agents import find_agent, presets
from lcpo.cli import flags, show
from lcpo.cli.flags import Option
from lcpo.comparison import AGENTS, check_out, default_out, gather
from lcpo.errors import InputError
from lcpo.run.engines.engine import make_engine, plan_only
from lcpo.run.further import from_plan
from lcpo.run.options import RunOptions
from lcpo.run.plan.agents import plan_traces
from lcpo.run.plan.job import Job, find_env
from lcpo.run.plan.plan import plan
from lcpo.run.store.layout import plan_file
from lcpo.run.store.outputs import check_folder, check_runs_folder
from lcpo.run.store.results import load_results
from lcpo.run.worker import cores
from lcpo.study.advice.findings import plan_warnings
from lcpo.study.costs import in_full
from lcpo.study.measure.compare import check_warmup


@dataclasses.dataclass(frozen=True)
class WhichRuns:
    """Which runs a command makes; `RunOptions` says how they are run."""

    env: str = "pendulum"
    """Environment: a name (`lcpo list`), gym:ID, or your own as package.module:Class."""
    trace: str | None = None
    """Context: a name, family:KIND:SEED, or a file (npy, csv, parquet); default: the environment's
    own, if it has one."""
    columns: str | None = None
    """Columns of a trace file, names or numbers from 1, separated by commas; default: all but the
    time."""
    repeat: bool = False
    """Repeat a trace that is shorter than the run."""
    hold: bool = False
    """Hold the last row of a trace that is shorter than the run."""
    steps: int | None = None
    """Interactions per run, such as 1e6; default: the length of the trace."""
    seeds: str = "4"
    """How many seeds (0, 1, ...), or which ones, as in 3,7 (a single one: 7,)."""
    scale: float | None = None
    """The trace is multiplied by this; default: the environment's own."""
    training_steps: int | None = None
    """Interactions of a prescient agent before its run along the trace; default: its own."""
    normalise: str | None = None
    """Scaling of observations: running (by mean and standard deviation so far), none, or divisors,
    one for each column, as in 2000,1,50."""


@dataclasses.dataclass(frozen=True)
class Printing:
    """What is printed, and whether to run code that a folder names."""

    trust: bool = False
    """With --resume and --out alone: also run agents and environments outside lcpo."""
    quiet: bool = False
    """Print the table, warnings and errors only."""
    json: bool = False
    """Print one JSON document instead of the table: every run, every row with all its numbers."""


RUN_OPTIONS = [
    option for cls in (WhichRuns, RunOptions, Printing) for option in flags.class_fields(cls)
]
"""Options of every command that runs agents."""
COMPARE_OPTIONS = [
    Option("warmup", int | None, "Steps left out of the return after warm-up.", None),
    Option(
        "imported",
        tuple[Path, ...],
        "Folders written by `lcpo import`, to include in the tables.",
        (),
    ),
]
"""Of what is shown of a comparison."""
NO_RUNS = {"--steps"} | {
    option.flag
    for option in (
        *flags.class_fields(RunOptions), *flags.class_fields(Printing), *COMPARE_OPTIONS
    )
}  # fmt: skip
"""Options that do not say which runs are meant. (Steps may be more than before.)"""
AGENT_HELP = "Agent: a name (`lcpo list`), or your own as package.module:agent."
AGENTS_HELP = (
    "Agents, separated by commas, with optional settings: 'lcpo[sigma=2],a2c'; the first is the "
    "reference. all: every agent that can serve the environment, LCPO first."
)
TRACES_HELP = (
    "Several contexts instead of --trace, separated by commas, as in 1,3 or family:revisit:0..9; "
    "means and intervals are over traces and their seeds."
)


def train(arguments: list[str]) -> int:
    """Train one agent, or a sweep of its settings."""
    if _names_no_runs(arguments):
        return _resume("train", arguments)
    agent_name = flags.peek(arguments, "agent", "lcpo")
    env_name = flags.peek(arguments, "env", WhichRuns.env)
    agent, env_class = find_agent(agent_name), find_env(env_name)
    default = configs.make(agent.Config, presets.settings(agent, env_name, env_class))
    default_env = configs.make(env_class, {})
    options = flags.parse(
        "train",
        arguments,
        [
            Option("agent", str, AGENT_HELP, agent_name),
            *RUN_OPTIONS,
            Option("sweep", tuple[str, ...], "Values of config fields: field=a,b,c ...", ()),
            Option(
                "plan_only", bool, "Only write the plan, for `python -m lcpo.run.worker`.", False
            ),
            *flags.config_fields(default),
            *flags.config_fields(default_env, "env."),
        ],
        f"Train {agent_name} on {env_name}.",
    )
    if options.plan_only and options.json:
        raise InputError("--plan-only runs nothing: leave --json out")
    make = functools.partial(
        plan,
        agent_name,
        env_name,
        overrides=flags.config_changes(options, default),
        sweep=flags.read_sweep(options.sweep),
        trace=trace_of(options, options.trace),
        **_which(options, default_env),
    )
    jobs, how = api.prepare(make, options.steps, _how(options), api.default_out, show.note)
    if options.plan_only:
        return _write_plan(jobs, how)
    check_runs_folder(how.folder)
    _tell_plan(options, jobs)
    return _run(options, jobs, how)


def compare(arguments: list[str]) -> int:
    """Compare agents: the same environment, traces and seeds for each."""
    if _names_no_runs(arguments):
        return _resume("compare", arguments)
    default_env = configs.make(find_env(flags.peek(arguments, "env", WhichRuns.env)), {})
    options = flags.parse(
        "compare",
        arguments,
        [
            Option("agents", str, AGENTS_HELP, AGENTS),
            Option("traces", str | None, TRACES_HELP, None),
            *RUN_OPTIONS,
            *COMPARE_OPTIONS,
            Option(
                "published", bool, "Use the values and all faults of the published code.", False
            ),
            *flags.config_fields(default_env, "env."),
        ],
    )
    more = _of_comparison(options, arguments)
    make = functools.partial(
        plan_traces,
        options.agents,
        options.env,
        traces=traces_of(options),
        published=options.published,
        note=(lambda text: None) if options.quiet else functools.cache(show.note),
        **_which(options, default_env),
    )
    out = functools.partial(default_out, published=options.published)
    jobs, how = api.prepare(make, options.steps, _how(options), out, show.note)
    check_out(how.folder)
    check_warmup(options.warmup, jobs)
    _tell_plan(options, jobs)
    return _run(options, jobs, how, **more)


def _which(options: Any, default_env: Any) -> dict[str, Any]:
    """What both commands plan their runs with, beside agents, traces and steps."""
    return {
        "seeds": flags.read_seeds(options.seeds),
        "scale": options.scale,
        "env_overrides": flags.config_changes(options, default_env, "env."),
        "training_steps": options.training_steps,
        "normalise": options.normalise,
    }


def _how(options: Any) -> RunOptions:
    """How runs are run. An unknown engine is reported before training starts."""
    how = flags.made(RunOptions, options, progress=not options.quiet).checked()
    make_engine(how)
    return how


def _of_comparison(options: Any, arguments: list[str]) -> dict[str, Any]:
    """What `gather` needs to write the report of a comparison. Reads the imported folders."""
    imported = [r for folder in options.imported for r in load_results(folder)]
    command = shlex.join(["lcpo", "compare", *arguments])
    return {"warmup": options.warmup, "others": imported, "write": True, "command": command}


def _names_no_runs(arguments: list[str]) -> bool:
    """Whether a command line names the folder of the runs, and nothing else about them."""
    given = {word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--"}
    return {"--resume", "--out"} <= given <= NO_RUNS


def _resume(command: str, arguments: list[str]) -> int:
    """`--resume --out X` alone: the runs of the folder's plan."""
    is_compare = command == "compare"
    known = [*RUN_OPTIONS, *(COMPARE_OPTIONS if is_compare else [])]
    options = flags.parse(command, arguments, known, "Resume the runs in a folder.")
    how = _how(options)
    check_folder(how.folder)
    jobs = from_plan(how.folder, options.steps, options.trust, show.note)
    if not is_compare:
        return _run(options, jobs, how)
    check_out(how.folder)
    return _run(options, jobs, how, **_of_comparison(options, arguments))


def traces_of(options: Any) -> list[contexts.TraceRef | None]:
    """The traces of a comparison."""
    if options.traces is None:
        return [trace_of(options, options.trace)]
    if options.trace is not None:
        raise InputError("--trace and --traces: give only one of them")
    return [trace_of(options, trace) for trace in contexts.several(options.traces)]


def trace_of(options: Any, trace: str | contexts.TraceRef | None) -> contexts.TraceRef | None:
    """A trace with `--columns`, `--repeat` and `--hold`."""
    if trace is None:
        if options.columns is not None or options.repeat or options.hold:
            raise InputError("--columns, --repeat and --hold need --trace: give it, too")
        return None
    return contexts.compose(trace, options.columns, repeat=options.repeat, hold=options.hold)


def _tell_plan(options: Any, jobs: Sequence[Job]) -> None:
    """Before the runs: print the defaults that were used, and warnings about the settings."""
    if options.quiet:
        return
    trace, env = jobs[0].trace, jobs[0].env
    if options.trace is None and getattr(options, "traces", None) is None and trace is not None:
        show.note(f"trace {trace}, {jobs[0].steps:,} steps: the default of {env}; --trace chooses")
    show.note(in_full(jobs, options.workers or len(cores())))
    for warning in plan_warnings(jobs):
        show.warning(warning, stderr=True)


def _write_plan(jobs: list[Job], how: RunOptions) -> int:
    check_folder(how.folder)
    plan_only(jobs, how.folder, show.note, how.resume, how.keep_state)
    command = shlex.join(["python", "-m", "lcpo.run.worker", str(plan_file(how.folder))])
    show.line(f"{len(jobs)} jobs planned: {command}")
    return 0


def _run(options: Any, jobs: list[Job], how: RunOptions, **report: Any) -> int:
    """Run; print what the runs show, what went wrong, and where things are; the exit code."""
    problems = api.run(jobs, how)
    found = gather(how.folder, jobs, **report)
    code = flags.RUN_FAILED if problems else 0
    if options.json:
        lists = ("runs", "table", "by_trace", "notes", "warnings")
        empty = {"out": str(how.folder), **{name: [] for name in lists}}
        document = empty if found is None else found.to_json()
        print(json.dumps({**document, "problems": list(problems)}))
        return code
    if found is not None:
        if found.summary.parts and not options.quiet:
            show.table(found.by_trace)
        show.table(found.table)
        for path in () if options.quiet else found.files:
            show.line(f"wrote {path}")
        for warning in found.warnings:
            show.warning(warning)
    for problem in problems:
        show.line(problem, colour="red")
    if not options.quiet:
        show.line(f"results: {how.folder}")
    return code

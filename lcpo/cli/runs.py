"""The commands that run agents: train, compare."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lcpo import config as configs
from lcpo import contexts
from lcpo.cli import flags, show
from lcpo.errors import InputError
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job

if TYPE_CHECKING:
    from lcpo.comparison import Comparison
    from lcpo.run.store.results import Result


@dataclasses.dataclass(frozen=True)
class WhichRuns:
    """Which runs a command makes; `RunOptions` says how they are run."""

    env: str = "pendulum"
    """Environment: a name (`lcpo list`), gym:ID, or your own as package.module:Class."""
    trace: str | None = None
    """Context: a name, family:KIND:SEED, or a file (npy, csv, parquet); default: the
    environment's own, where it has one."""
    columns: str | None = None
    """Columns of a trace file, names or numbers from 1, separated by commas; default: all but the
    time."""
    repeat: bool = False
    """A trace that is shorter than the run begins again."""
    hold: bool = False
    """A trace that is shorter than the run stays at its last row."""
    steps: int | None = None
    """Interactions per run (1e6 is a number, too); default: the length of the trace."""
    seeds: str = "4"
    """How many seeds (0, 1, ...), or which ones, as in 3,7 (a single one: 7,)."""
    scale: float | None = None
    """The trace is multiplied by this; default: the environment's own."""
    training_steps: int | None = None
    """Interactions of a prescient agent before its run along the trace; default: its own."""
    normalise: str | None = None
    """How agents see observations: running (mean and standard deviation so far), none, or numbers
    to divide them by, one for each column, as in 2000,1,50."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """What is printed of runs, and what may be run without being named."""

    trust: bool = False
    """With --resume and --out alone: run agents and environments outside lcpo, too."""
    quiet: bool = False
    """No progress, notes and names of files: the table, warnings and errors only."""
    json: bool = False
    """Print one JSON document instead of the table: every run, every row with all its numbers."""


RUN_OPTIONS = [
    option for cls in (WhichRuns, RunOptions, Shown) for option in flags.class_fields(cls)
]
"""Of every command that runs agents."""
COMPARE_OPTIONS: list[flags.Option] = [
    ("warmup", int | None, "Steps left out of the return after warm-up.", None),
    ("imported", tuple[Path, ...], "Folders of `lcpo import` to put into the tables.", ()),
]
"""Of what is shown of a comparison."""
NO_RUNS = {
    "--steps",
    *(
        flags.as_flag(option[0])
        for option in (
            *flags.class_fields(RunOptions), *flags.class_fields(Shown), *COMPARE_OPTIONS
        )
    ),
}  # fmt: skip
"""Options that do not say which runs are meant. (Steps may be more than before.)"""


def train(arguments: list[str]) -> int:
    """Train an agent with several seeds; a summary table at the end."""
    from lcpo import api
    from lcpo.agents import find_agent, presets
    from lcpo.comparison import gather
    from lcpo.run.plan.job import find_env
    from lcpo.run.plan.plan import plan

    if _names_no_runs(arguments):
        return _go_on("train", arguments)
    agent_name, env_name = flags.peek(arguments, "agent"), flags.peek(arguments, "env")
    agent_name = "lcpo" if agent_name is None else agent_name
    env_name = WhichRuns.env if env_name is None else env_name
    agent, env_class = find_agent(agent_name), find_env(env_name)
    given = presets.settings(agent, env_name, env_class)
    default = configs.make(agent.Config, given)
    default_env = configs.make(env_class, {})
    options = flags.parse(
        "train",
        f"Train {agent_name} on {env_name}.",
        arguments,
        [
            ("agent", str, "Agent: a name (`lcpo list`), or your own as package.module:agent.",
             agent_name),
            *RUN_OPTIONS,
            ("sweep", tuple[str, ...], "Values of config fields: field=a,b,c ...", ()),
            ("plan_only", bool, "Write the plan for `python -m lcpo.run.worker` and stop.", False),
            *flags.config_fields(default),
        ],
        flags.config_fields(default_env),
    )  # fmt: skip
    if options.plan_only and options.json:
        raise InputError("--plan-only runs nothing: leave --json out")
    how = _how(options)
    make = functools.partial(
        plan,
        agent_name,
        env_name,
        trace=trace_of(options),
        seeds=flags.read_seeds(options.seeds),
        scale=options.scale,
        overrides=flags.config_changes(options, default),
        env_overrides=flags.config_changes(options.env_config, default_env),
        sweep=flags.read_sweep(options.sweep),
        training_steps=options.training_steps,
        normalise=options.normalise,
    )
    jobs = make(steps=options.steps)
    how = how.at(api.default_out(jobs[0]))
    jobs = api.as_resumed(jobs, make, options.steps, how, show.note)
    if options.plan_only:
        return _write_plan(jobs, how)
    _tell_plan(options, jobs)
    problems = api.run(jobs, how)
    return _conclude(options, gather(how.folder, jobs), how.folder, problems)


def _how(options: Any) -> RunOptions:
    """How runs are run; InputError where they cannot be so."""
    from lcpo.run.engines.engine import make_engine

    how = flags.made(RunOptions, options, progress=not options.quiet).checked()
    make_engine(how)  # one that there is not is told before any work
    return how


def _names_no_runs(arguments: list[str]) -> bool:
    """Whether a command line says nothing of the runs but the folder that they are in."""
    given = {word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--"}
    return {"--resume", "--out"} <= given <= NO_RUNS


def _go_on(command: str, arguments: list[str]) -> int:
    """`--resume --out X` and nothing that says which runs: those of the folder's plan."""
    from lcpo import api
    from lcpo.comparison import check_out, gather
    from lcpo.run.further import from_plan
    from lcpo.run.store.outputs import check_folder

    is_compare = command == "compare"
    more = COMPARE_OPTIONS if is_compare else []
    help = "Go on with the runs that a folder holds."
    options = flags.parse(command, help, arguments, [*RUN_OPTIONS, *more])
    how = _how(options)
    check_folder(how.folder)
    jobs = from_plan(how.folder, options.steps, options.trust, show.note)
    if is_compare:
        check_out(how.folder)
    problems = api.run(jobs, how)
    if not is_compare:
        return _conclude(options, gather(how.folder, jobs), how.folder, problems)
    return _conclude_comparison(options, arguments, jobs, how.folder, problems)


def _warn(text: str, stderr: bool = False) -> None:
    show.line(text, "warning:", "yellow", stderr=stderr)


def trace_of(options: Any) -> contexts.TraceRef | None:
    """The trace that `--trace`, `--columns`, `--repeat` and `--hold` mean."""
    if options.trace is None:
        if options.columns is not None or options.repeat or options.hold:
            raise InputError("--columns, --repeat and --hold are of a trace: give --trace, too")
        return None
    return contexts.compose(
        options.trace, options.columns, repeat=options.repeat, hold=options.hold
    )


def _tell_plan(options: Any, jobs: Sequence[Job]) -> None:
    """What was chosen for the user, and what is odd about it, before the runs."""
    from lcpo.study.advice.constraint import plan_warnings

    if options.quiet:
        return
    trace, env = jobs[0].trace, jobs[0].env
    if options.trace is None and trace is not None:
        show.note(f"trace {trace}, {jobs[0].steps:,} steps: the default of {env}; --trace chooses")
    for warning in plan_warnings(jobs):
        _warn(warning, stderr=True)


def _write_plan(jobs: list[Job], how: RunOptions) -> int:
    from lcpo.run.engines.engine import plan_only
    from lcpo.run.store.layout import plan_file
    from lcpo.run.store.outputs import check_folder

    check_folder(how.folder)
    plan_only(jobs, how.folder, show.note, how.resume, how.keep_state)
    command = shlex.join(["python", "-m", "lcpo.run.worker", str(plan_file(how.folder))])
    show.line(f"{len(jobs)} jobs planned: {command}")
    return 0


def compare(arguments: list[str]) -> int:
    """Train several agents on one environment and trace; tables and learning curves."""
    from lcpo import api
    from lcpo.comparison import AGENTS, check_out, default_out
    from lcpo.run.plan.agents import plan_agents
    from lcpo.run.plan.job import find_env
    from lcpo.study.measure.compare import check_warmup

    if _names_no_runs(arguments):
        return _go_on("compare", arguments)
    env_name = flags.peek(arguments, "env")
    default_env = configs.make(find_env(WhichRuns.env if env_name is None else env_name), {})
    options = flags.parse(
        "compare",
        "Compare agents: the same environment, trace and seeds for each.",
        arguments,
        [
            ("agents", str, "Agents, separated by commas, with settings of their own: "
             "'lcpo[sigma=2],a2c'; the first is the reference. all: every agent that can serve the "
             "environment, LCPO first.", AGENTS),
            *RUN_OPTIONS,
            *COMPARE_OPTIONS,
            ("published", bool, "With the values and all faults of the published code.", False),
        ],
        flags.config_fields(default_env),
    )  # fmt: skip
    _imported(options)  # a folder that is none is told before any work
    how = _how(options)
    make = functools.partial(
        plan_agents,
        options.agents,
        options.env,
        trace=trace_of(options),
        seeds=flags.read_seeds(options.seeds),
        scale=options.scale,
        env_overrides=flags.config_changes(options.env_config, default_env),
        training_steps=options.training_steps,
        normalise=options.normalise,
        published=options.published,
    )
    jobs = make(steps=options.steps, note=(lambda text: None) if options.quiet else show.note)
    how = how.at(default_out(jobs, options.published))
    check_out(how.folder)
    jobs = api.as_resumed(jobs, make, options.steps, how, show.note)
    check_warmup(options.warmup, jobs)
    _tell_plan(options, jobs)
    problems = api.run(jobs, how)
    return _conclude_comparison(options, arguments, jobs, how.folder, problems)


def _imported(options: Any) -> list[Result]:
    from lcpo.run.store.results import load_results

    return [result for folder in options.imported for result in load_results(folder)]


def _conclude_comparison(
    options: Any, arguments: list[str], jobs: list[Job], out: Path, problems: Sequence[str]
) -> int:
    """Write the report as well."""
    from lcpo.comparison import gather

    command = shlex.join(["lcpo", "compare", *arguments])
    found = gather(out, jobs, options.warmup, _imported(options), write=True, command=command)
    return _conclude(options, found, out, problems)


def _conclude(options: Any, found: Comparison | None, out: Path, problems: Sequence[str]) -> int:
    """Print what the runs show, what went wrong, and where things are; the exit code."""
    code = flags.RUN_FAILED if problems else 0
    if options.json:
        empty = {"out": str(out), "runs": [], "table": [], "notes": [], "warnings": []}
        document = empty if found is None else found.to_json()
        print(json.dumps({**document, "problems": list(problems)}))
        return code
    if found is not None:
        show.table(found.table)
        for path in () if options.quiet else found.files:
            show.line(f"wrote {path}")
        for warning in found.warnings:
            _warn(warning)
    for problem in problems:
        show.line(problem, colour="red")
    if not options.quiet:
        show.line(f"results: {out}")
    return code

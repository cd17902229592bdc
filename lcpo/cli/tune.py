"""The command that searches settings: tune."""

from __future__ import annotations

import json
import shlex
from typing import Any

from lcpo import config as configs
from lcpo import tuning, values
from lcpo.cli import flags, runs, show
from lcpo.cli.flags import Option
from lcpo.contexts import several
from lcpo.errors import InputError
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import check_trust, find_env, outside
from lcpo.run.store.layout import plan_file
from lcpo.run.store.plans import planned_jobs
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table
from lcpo.study.tune import report as reports
from lcpo.study.tune import search as searches
from lcpo.study.tune.request import limits, make_request
from lcpo.study.tune.search import Limits
from lcpo.tuning import Tuning

LIMITS = [
    Option("trials", int | None, "Settings to try; default 40 without --budget.", None),
    Option("budget", str | None, "Time for search and judging, such as 90s, 10min or 2h.", None),
]
"""A resumed search may have others."""
SEARCH = [
    Option(
        "agents",
        str,
        "Agents whose settings are searched; settings in brackets are fixed: 'ddqn[gamma=0.9]'.",
        tuning.AGENTS,
    ),
    Option("traces", str | None, runs.TRACES_HELP, None),
    Option("judge_traces", str | None, "Traces of the judging runs; default: the search's.", None),
    Option(
        "judge_seeds",
        str,
        "Seeds of the judging runs: how many (1000, 1001, ...), or which, as in 7,8,9.",
        "10",
    ),
    Option(
        "search",
        str | None,
        "Narrow or add settings: 'c_anchor=1e-5..1e-2,rollout_length=50|100,gamma=0.99'.",
        None,
    ),
    Option("beside", str | None, "Agents to judge next to what is found: a rule of yours.", None),
    Option("warmup", int | None, "Steps left out of returns; 0: the whole run counts.", None),
    Option("seed", int, "Seed of the search.", 0),
    Option("batch", int, "New trials per round; more of them use more cores.", tuning.BATCH),
    Option("list", bool, "Run nothing: print what would be searched.", False),
]
LEFT_OUT = {"training_steps", "keep_state", "track"}
"""Options of other commands that make no sense here."""
RUN_OPTIONS = [option for option in runs.RUN_OPTIONS if option.name not in LEFT_OUT]
HOW = [
    option
    for cls in (RunOptions, runs.Printing)
    for option in flags.class_fields(cls)
    if option.name not in LEFT_OUT
]


def tune(arguments: list[str]) -> int:
    """Search settings, judge what was found, and print how to use it."""
    given = {word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--"}
    if {"--resume", "--out"} <= given <= {option.flag for option in (*HOW, *LIMITS)}:
        return _resume(arguments)
    default_env = configs.make(find_env(flags.peek(arguments, "env", runs.WhichRuns.env)), {})
    known = [*SEARCH, *LIMITS, *RUN_OPTIONS, *flags.config_fields(default_env, "env.")]
    options = flags.parse("tune", arguments, known)
    limit = limits(options.trials, options.budget)
    how = _how(options)
    request = make_request(
        options.agents,
        options.env,
        traces=runs.traces_of(options),
        judge_traces=None
        if options.judge_traces is None
        else [runs.trace_of(options, trace) for trace in several(options.judge_traces)],
        steps=options.steps,
        seeds=flags.read_seeds(options.seeds),
        judge_seeds=flags.read_seeds(options.judge_seeds),
        search=options.search,
        beside=options.beside or (),
        warmup=options.warmup,
        seed=options.seed,
        batch=options.batch,
        scale=options.scale,
        env_config=flags.config_changes(options, default_env, "env."),
        normalise=options.normalise,
    )
    how = how.at(tuning.default_out(request))
    if options.list:
        _list(request, limit)
        return 0
    return _run(options, request, limit, how, arguments)


def _how(options: Any) -> RunOptions:
    same = {option.name: getattr(options, option.name) for option in HOW}
    fields = {option.name for option in flags.class_fields(RunOptions)}
    found = {name: value for name, value in same.items() if name in fields}
    return RunOptions(**found, progress=not options.quiet).checked()


def _resume(arguments: list[str]) -> int:
    """`--resume --out X` alone: the search of the folder."""
    options = flags.parse("tune", arguments, [*HOW, *LIMITS], "Resume the search in a folder.")
    how = _how(options)
    if not searches.tune_file(how.folder).exists():
        raise InputError(f"{how.folder} holds no search to resume: give the folder of `lcpo tune`")
    request, limit = _stored(how, options.trust)
    if options.trials is not None or options.budget is not None:
        limit = limits(options.trials, options.budget)
    return _run(options, request, limit, how, arguments)


def _stored(how: RunOptions, trust: bool) -> tuple[searches.Request, Limits]:
    """The request of a folder, once the code that it names is trusted."""
    out = how.folder
    found = searches.load(out)
    jobs = planned_jobs(out)
    check_trust(jobs, trust, str(plan_file(out)))
    known = {name for job in jobs for name in outside(job)}
    for name in () if trust else searches.named(found.request):
        if name not in known:
            raise InputError(
                f"{searches.tune_file(out)} names {name!r}, which its plan does not: pass --trust "
                "if you trust its author's code"
            )
    return found.request, found.limits


def _run(
    options: Any, request: searches.Request, limit: Limits, how: RunOptions, arguments: list[str]
) -> int:
    """Run, and print what was found."""
    tell = (lambda text: None) if options.quiet else show.note
    command = shlex.join(["lcpo", "tune", *arguments])
    found = tuning.run(request, limit, how, tell, command)
    if options.json:
        print(json.dumps(to_json(found)))
        return 0
    _show(found, options.quiet)
    return 0


def to_json(found: Tuning) -> dict[str, Any]:
    """Plain values: what was found, its tables, and how to use it."""
    shown = {
        "out": str(found.out),
        "agent": found.agent,
        "config": dict(found.config),
        "trials": len(found.history.trials),
        "tables": {name: table.records() for name, table in found.tables.items()},
        "verdict": list(found.sentences),
        "commands": dict(found.commands),
    }
    return values.without_nan(shown)


def _show(found: Tuning, quiet: bool) -> None:
    names = ("table", "verdict") if quiet else ("trials", "settings", "table", "verdict")
    for name in names:
        show.table(found.tables[name])
    for text in found.sentences:
        show.line(text)
    if found.config:
        show.line("to use the found settings:")
        for name in ("train", "compare"):
            show.line(f"  {found.commands[name]}")
        show.line(f"  config = {found.commands['config']}")
    if not quiet:
        show.line(f"page: {found.files[-1]}")
        show.line(f"results: {found.out}")


def _list(request: searches.Request, limit: Limits) -> None:
    """What would be searched."""
    rows = [
        [agent.name, name, str(found)]
        for agent, dimensions in zip(request.agents, request.spaces, strict=True)
        for name, found in dimensions.items()
    ]
    show.table(Table(columns(["agent", "setting", "searched"], "lll"), rows))
    for number, level in enumerate(request.levels):
        show.line(f"level {number}: {level.steps:,} steps, {level.pairs} run(s) of each trial")
    ends = [
        f"{limit.trials} trials" if limit.trials else "",
        f"{limit.seconds:.0f} seconds" if limit.seconds else "",
    ]
    judging = f"judged on {reports.judged_on(request)}"
    show.line(f"{request.batch} new trials per round, {' or '.join(filter(None, ends))}; {judging}")

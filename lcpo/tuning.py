"""`lcpo.tune(...)`: settings of an agent for your own problem, searched and judged."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcpo import api, values
from lcpo.contexts import Traces, several
from lcpo.errors import InputError, RunError
from lcpo.run import stop
from lcpo.run.drive.execute import has_ended
from lcpo.run.engines.engine import check_resumed, make_engine, plan_only
from lcpo.run.events import Event
from lcpo.run.options import RunOptions
from lcpo.run.plan.agents import Agents
from lcpo.run.plan.job import Job
from lcpo.run.store.files import REGULAR, kind_of
from lcpo.run.store.layout import plan_file
from lcpo.run.store.outputs import check_runs_folder
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import Result, load_results
from lcpo.run.worker import cores
from lcpo.study.costs import cost
from lcpo.study.measure import compare as rows
from lcpo.study.measure.traces import summarise_traces
from lcpo.study.report import html
from lcpo.study.report.output import FILES, check_report, write_files
from lcpo.study.report.tables import FORMATS, Table
from lcpo.study.tune import judged
from lcpo.study.tune import report as reports
from lcpo.study.tune import search as searches
from lcpo.study.tune.history import History, Round, Trial
from lcpo.study.tune.judged import Against
from lcpo.study.tune.request import limits, make_request
from lcpo.study.tune.search import Limits, Request, Search

AGENTS = "lcpo-plus"
BATCH = 12
BY = "lcpo tune"
Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True, repr=False)
class Tuning:
    """What a search has found: `print` shows the verdict."""

    request: Request
    history: History
    best: Trial
    config: Mapping[str, Any]
    """The found settings, as `config` of `lcpo.train`; empty: the defaults were best."""
    beside: Sequence[Against]
    """The found settings beside each other agent, on what the search did not see."""
    tables: Mapping[str, Table]
    """table, verdict, settings, trials: as in report.json."""
    sentences: Sequence[str]
    """What that means."""
    commands: Mapping[str, str]
    """How to use the settings: train, compare, config."""
    results: list[Result]
    """The judging runs."""
    out: Path
    files: tuple[Path, ...] = ()

    @property
    def agent(self) -> str:
        """The agent of the found settings."""
        return self.request.agents[self.best.agent].name

    def __str__(self) -> str:
        shown = [self.tables[name].to_text() for name in ("table", "verdict")]
        return "\n".join([*shown, *self.sentences])

    def __repr__(self) -> str:
        return f"<Tuning of {self.agent}: {len(self.history.trials)} trials in {self.out}>"


def tune(
    agents: Agents = AGENTS,
    env: str | Any = "pendulum",
    *,
    trace: str | os.PathLike[str] | None = None,
    traces: Traces | None = None,
    judge_traces: Traces | None = None,
    steps: int | None = None,
    seeds: int | Iterable[int] = 4,
    judge_seeds: int | Iterable[int] = 10,
    search: str | Mapping[str, Any] | None = None,
    trials: int | None = None,
    budget: str | float | None = None,
    beside: Agents = (),
    warmup: int | None = None,
    seed: int = 0,
    batch: int = BATCH,
    out: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    env_config: Mapping[str, Any] | None = None,
    normalise: str | Sequence[float] | None = None,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    callbacks: Sequence[Callable[[Event], Any]] = (),
) -> Tuning:
    """Search settings of agents for an environment, and judge them on what the search did not see.

    Args:
      agents: whose settings to search, "lcpo-plus" or "lcpo-plus,ddqn[batch_size=128]"; settings
        in brackets are fixed.
      trace, traces: the context of the search; default: the environment's own.
      judge_traces: contexts of the judging runs; default: those of the search, with other seeds.
      steps: interactions per run; the runs to which the settings are to apply.
      seeds: of the search. judge_seeds: how many (1000, 1001, ...), or which.
      search: "c_anchor=1e-5..1e-2,rollout_length=50|100": narrows or adds settings
        (docs/tune.md).
      trials: how many settings to try; default 40 if there is no budget.
      budget: time for search and judging, in seconds or as "10min".
      beside: agents to judge next to the found settings, such as a rule of your own.
      warmup: steps left out of returns; default: a tenth of a short run. 0: the whole run counts.
      seed: of the search. batch: new trials per round; more of them use more cores.
      The others are those of `lcpo.train`; `out` is `out/tune-ENV` by default.

    Raises RunError if an environment broke: `resume` continues.
    """
    how = RunOptions.of(
        out=out, resume=resume, workers=workers, checkpoint_seconds=checkpoint_seconds,
        progress=progress, callbacks=callbacks,
    )  # fmt: skip
    env, env_config = api.named_env(env, env_config)
    if trace is not None and traces is not None:
        raise InputError("trace and traces: give only one of them")
    request = make_request(
        agents, env, traces=[trace] if traces is None else several(traces),
        judge_traces=None if judge_traces is None else several(judge_traces), steps=steps,
        seeds=seeds, judge_seeds=judge_seeds, search=search, beside=beside, warmup=warmup,
        seed=seed, batch=batch, scale=scale, env_config=env_config, normalise=normalise,
    )  # fmt: skip
    named = [env, *(one.name for one in (*request.agents, *request.beside))]
    how = api.here_if_in_main(how, named)
    tell = api.note if how.progress else lambda text: None
    return run(request, limits(trials, budget), how.at(default_out(request)), tell)


def default_out(request: Request) -> Path:
    """The folder for a search where none is given."""
    return Path("out") / values.file_name(f"tune-{request.env}")


def run(
    request: Request, limit: Limits, how: RunOptions, tell: Tell, command: str | None = None
) -> Tuning:
    """Search, judge, and write the report. A folder that holds the same search is resumed."""
    if how.engine == "slurm":
        raise InputError("--engine slurm only writes a script: choose local or ray")
    make_engine(how)
    found = start(Search(request, limit), how, tell)
    history = search(found, how, tell).history
    jobs = judged.jobs(request, history)
    tell(f"judging: {len(jobs)} runs on {reports.judged_on(request)}")
    _run(jobs, dataclasses.replace(how, resume=True), how.folder)
    return gather(request, history, how.folder, command)


def start(wanted: Search, how: RunOptions, tell: Tell) -> Search:
    """The search in the folder with the wanted limits, or a new one."""
    out = how.folder
    check_out(out)
    if searches.tune_file(out).exists():
        check_resumed(out, how.resume)
        found = searches.load(out)
        check_same(found.request, wanted.request, out)
        wanted = found._replace(limits=wanted.limits)
    elif plan_file(out).exists() and planned_jobs(out):
        raise InputError(f"{out} holds other runs: give {BY} a new folder")
    else:
        plan_only(judged.first_jobs(wanted.request), out, tell, resume=False)
    searches.save(out, wanted)
    return wanted


def check_out(out: Path) -> None:
    """Raise InputError unless the runs and the report of a search may be written there."""
    check_runs_folder(out)
    check_runs_folder(searches.search_folder(out))
    tables = [f"{name}.{suffix}" for name in reports.TABLES for suffix in FORMATS]
    pictures = [f"{name}.{suffix}" for name in reports.FIGURES for suffix in ("png", "svg")]
    check_report(out, BY, (*FILES, *tables, *pictures))
    html.check_page(out, out / html.PAGE, BY)
    file = searches.tune_file(out)
    if (found := kind_of(file)) not in (None, REGULAR):
        raise InputError(f"{file} is a {found}: move it away, or give another folder")


def check_same(before: Request, request: Request, out: Path) -> None:
    """Raise InputError if the folder holds another search."""
    old, new = searches.to_json(before), searches.to_json(request)
    differ = [
        f"{k}: there {values.shown(old[k])}, now {values.shown(new[k])}"
        for k in old
        if old[k] != new[k]
    ]
    if differ:
        raise InputError(
            f"{out} holds another search ({'; '.join(differ)}): repeat its options, or give "
            "another folder"
        )


def search(found: Search, how: RunOptions, tell: Tell) -> Search:
    """Run rounds until a limit is reached; the history is saved before and after each."""
    request, limit, out = found.request, found.limits, how.folder
    while (one := searches.next_round(request, found.history, limit.trials)) is not None:
        history = found.history
        if one not in history.rounds:
            if not _has_time(found, one, how):
                break
            history = history._replace(rounds=(*history.rounds, one))
            searches.save(out, found._replace(history=history))
        found = found._replace(history=run_round(request, history, how))
        searches.save(out, found)
        tell(_progress(request, found.history, limit))
    return found


def _jobs(request: Request, history: History, one: Round) -> list[Job]:
    """The runs of a round; those of the first one include the constant actions."""
    jobs = [job for mine in searches.round_jobs(request, history, one).values() for job in mine]
    is_first = not history.ended
    return [*jobs, *(searches.baseline_jobs(request) if is_first else [])]


def _has_time(found: Search, one: Round, how: RunOptions) -> bool:
    """Whether a round and the judging are likely to fit in the budget, at the speed so far.

    The first round always runs.
    """
    request, history, budget = found.request, found.history, found.limits.seconds
    if budget is None or not history.ended:
        return True
    folder = searches.search_folder(how.folder)
    jobs = [job for job in _jobs(request, history, one) if not has_ended(folder, job)]
    expected = _expected(jobs, how) + _expected(judged.jobs(request, history), how)
    return history.seconds + expected * history.slowness <= budget


def _expected(jobs: Sequence[Job], how: RunOptions) -> float:
    """Seconds that runs should take."""
    workers = len(cores()) if how.workers is None else max(how.workers, 1)
    return cost(jobs, workers).seconds if jobs else 0.0


def run_round(request: Request, history: History, how: RunOptions) -> History:
    """The history with the last round ended."""
    began, one = time.monotonic(), history.rounds[-1]
    folder = searches.search_folder(how.folder)
    entries = searches.round_jobs(request, history, one)
    jobs = list({job.name: job for job in _jobs(request, history, one)}.values())
    waiting = [job for job in jobs if not has_ended(folder, job)]
    searches.restart_inexact(request, waiting, folder)
    _run(jobs, how, folder)
    results = {result.job.name: result for result in load_results(folder, jobs)}
    endless = history.endless
    if not history.ended:
        endless = rows.is_endless(rows.finished_runs(results.values()))
        scores = {
            job.agent: searches.scores_of([job], results, request.warmup, endless)[0]
            for job in searches.baseline_jobs(request)
        }
        known = {name: value for name, value in scores.items() if value is not None}
        history = history._replace(endless=endless, baselines=known)
    found = tuple(
        searches.scores_of(mine, results, request.warmup_on(request.levels[entry.level]), endless)
        for entry, mine in entries.items()
    )
    expected = _expected(waiting, how)
    done = one._replace(scores=found, expected=expected, seconds=time.monotonic() - began)
    return history._replace(rounds=(*history.rounds[:-1], done))


def _run(jobs: list[Job], how: RunOptions, folder: Path) -> None:
    """Run jobs in a folder of the search; RunError if some have not ended."""
    try:
        api.run_to_the_end(jobs, dataclasses.replace(how, out=folder, resume=True))
    except stop.Stopped as stopped:
        raise stop.Stopped(str(stopped), how.folder) from stopped


def _progress(request: Request, history: History, limit: Limits) -> str:
    found = judged.find(request, history)
    level = history.reached(found.best.number)
    value = history.values(level)[found.best.number]
    shown = "all failed" if value is None else f"best {value:.4g} (trial {found.best.number})"
    time = "" if limit.seconds is None else f" of {limit.seconds:.0f}"
    return (
        f"round {len(history.rounds)}: {len(history.trials)} trials, {shown}, "
        f"{history.seconds:.0f}{time} s"
    )


def gather(request: Request, history: History, out: Path, command: str | None = None) -> Tuning:
    """What was found; writes the report."""
    jobs = judged.jobs(request, history)
    order = {job.name: i for i, job in enumerate(jobs)}
    results = [
        result._replace(record=searches.by_episode(result.record)) if result.record else result
        for result in sorted(load_results(out, jobs), key=lambda one: order[one.job.name])
    ]
    found = judged.find(request, history)
    best = judged.label_of(request, found.best)
    if not any(r.status == "finished" for r in results if r.job.label == best):
        raise RunError(f"every judging run of {best} failed: search with other ranges (--search)")
    beside = judged.against(results, request.warmup, best)
    default = judged.default_label(request.agents[found.best.agent])
    known = {r.job.label for r in rows.finished_runs(results)}
    summary = summarise_traces(
        results, request.warmup, reference=default if default in known else best
    )
    if not summary.endless:
        summary = summary._replace(notes=(*summary.notes, reports.BY_EPISODE))
    report = reports.make(request, history, found, summary, beside, results)
    sentences = reports.sentences(request, found, beside)
    warnings = [text for text in sentences if not text.startswith(reports.BETTER)]
    files = write_files(report, results, out, command, by=BY, warnings=warnings)
    files.append(html.write_page(out, by=BY))
    return Tuning(
        request, history, found.best, judged.config_of(request, found.best), beside,
        report.tables, sentences, reports.commands(request, found.best), results, out,
        tuple(files),
    )  # fmt: skip

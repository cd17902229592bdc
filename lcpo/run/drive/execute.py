"""Run jobs in this process: those that have not ended, from their checkpoints or the start.

One job alone, or a group that differs only in seeds and traced config values. On a GPU a group is
one vmapped program. On a CPU vmap gains nothing (give each core a process of its own:
`lcpo.run.engines.local`), but the worlds of a host environment are stepped together everywhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from lcpo.errors import is_full, tell, trace_of
from lcpo.run import compile_cache
from lcpo.run.drive.base import StoppedRuns
from lcpo.run.drive.choose import state_shapes
from lcpo.run.drive.group import Group
from lcpo.run.events import Crashed, Event, Failed, Finished, Note, Progress, Report
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.phases import phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.layout import run_files
from lcpo.run.store.lock import claimed
from lcpo.run.store.results import load_outcome


def has_ended(out: Path, job: Job) -> bool:
    """Whether a run has ended, well or not; InputError where its folder holds another one's."""
    return load_outcome(run_files(out, job.name), job) is not None


class Reporter:
    """A report that knows which runs have ended, and whether it raised itself.

    What breaks a run is told of that run, and the others go on.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.ended: set[str] = set()
        self.broken = False

    def __call__(self, event: Event) -> None:
        """Pass on an event."""
        if not isinstance(event, Progress | Note):
            self.ended.add(event.job)
        try:
            self.report(event)
        except BaseException:
            self.broken = True
            raise

    @contextlib.contextmanager
    def crashes_of(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Report `Crashed` for each of the jobs that has not ended where something is raised.

        Not of what the report raised: that is the caller's. An environment that calls `sys.exit`
        breaks its run like any other.
        """
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.broken:
                raise
            reason, details = tell(error), trace_of(error)
            open_jobs = [job for job in jobs if job.name not in self.ended]
            for job in open_jobs:
                self(Crashed(job.name, reason, details, is_full(error)))
            if not open_jobs:  # such as an environment that cannot be closed
                self(Note(f"after {', '.join(job.name for job in jobs)} ended: {reason}"))


def run_jobs(jobs: list[Job], out: Path, report: Report, checkpoint_seconds: float) -> None:
    """Run all jobs that have not ended yet, in groups where that pays; tell of the others how.

    Whatever breaks a run is reported as `Crashed`, and the others go on. Raises `stop.Asked` where
    it is asked to stop: what was running is saved then.
    """
    compile_cache.use()
    reporter, waiting = Reporter(report), []
    held: list[np.ndarray | None] = []
    for job in jobs:
        with reporter.crashes_of([job]):
            waiting += [] if _tell_end(job, out, reporter) else [Setup(job)]
    while waiting:
        first = waiting[0]
        group = [first]
        if first.is_host or jax.default_backend() != "cpu":
            group = [s for s in waiting if s.statics() == first.statics()]
        taken = {id(setup) for setup in group}
        waiting = [s for s in waiting if id(s) not in taken]
        with reporter.crashes_of([setup.job for setup in group]):
            # The traces of a group are held until the next one has its own: most share them.
            held = _run_claimed(group, out, reporter, checkpoint_seconds)
    del held


def _run_claimed(
    group: list[Setup], out: Path, report: Reporter, checkpoint_seconds: float
) -> list[np.ndarray | None]:
    """Run those of a group that nobody else runs, or has run meanwhile."""
    with claimed(out, [setup.job.name for setup in group]) as mine:
        for setup in group:
            if setup.job.name not in mine:
                report(Crashed(setup.job.name, "another process runs it: wait for that, or end it"))
        free = [s for s in group if s.job.name in mine and not _tell_end(s.job, out, report)]
        return _run_group(free, out, report, checkpoint_seconds) if free else []


def _tell_end(job: Job, out: Path, report: Report) -> bool:
    """Whether a run has ended; then it is told how."""
    outcome = load_outcome(run_files(out, job.name), job)
    if outcome is None:
        return False
    failure = outcome.get("failure")
    report(Failed(job.name, **failure) if failure else Finished(job.name))
    return True


def _run_group(
    group: list[Setup], out: Path, report: Reporter, checkpoint_seconds: float
) -> list[np.ndarray | None]:
    """Runs of a group that were stopped at different updates go on separately.

    Runs whose worlds cannot go on are left; the others go on from their last checkpoints, which
    gives the same result: no run depends on those beside it. Returns the traces of all.
    """
    traces = _load_traces(group)
    saved: dict[str, checkpoints.Checkpoint | None] = {}
    for setup in group:
        with report.crashes_of([setup.job]):
            saved[setup.job.name] = _load_checkpoint(setup, out)
    starts = {name: c.update if c else 0 for name, c in saved.items()}
    for start in sorted(set(starts.values())):
        part = [s for s in group if starts.get(s.job.name) == start]
        with report.crashes_of([s.job for s in part]):
            _run_part(part, out, report, checkpoint_seconds, saved)
    return traces


def _load_traces(group: list[Setup]) -> list[np.ndarray | None]:
    """The traces of a group, several at a time. One that cannot be loaded is told to its runs."""

    def attempt(setup: Setup) -> np.ndarray | None:
        with contextlib.suppress(Exception):
            return setup.trace()

    different = {(s.job.trace, s.job.scale, s.trace_rows): s for s in group}
    with ThreadPoolExecutor() as pool:
        return list(pool.map(attempt, different.values()))


def _run_part(
    part: list[Setup],
    out: Path,
    report: Reporter,
    checkpoint_seconds: float,
    saved: dict[str, checkpoints.Checkpoint | None],
) -> None:
    try:
        Group(part, out, report, checkpoint_seconds).run([saved[s.job.name] for s in part])
    except StoppedRuns as stop:
        for i, cause in stop.causes.items():
            report(Crashed(part[i].job.name, cause, stop.details))
        rest = [s for i, s in enumerate(part) if i not in stop.causes]
        if rest:
            _run_group(rest, out, report, checkpoint_seconds)


def _load_checkpoint(setup: Setup, out: Path) -> checkpoints.Checkpoint | None:
    """Where a run goes on, be it that it was planned for fewer steps."""
    files, identity = run_files(out, setup.job.name), setup.identity()
    saved = checkpoints.saved(files)
    if saved is not None:
        found, _ = saved
        if checkpoints.goes_on(found, identity):
            shorter = dataclasses.replace(setup.job, steps=found["steps"], trace_digest=None)
            identity = Setup(shorter).identity()
        checkpoints.check_same(found, identity, f"the checkpoint in {files.folder}")
    checkpoints.take_up(files)
    return checkpoints.load(files, identity, functools.partial(state_shapes, setup))


def tell_saved(jobs: Sequence[Job], out: Path, reached: Mapping[str, int] | None = None) -> str:
    """What of stopped runs is on disk: at which steps they go on, how many have ended or are lost.

    `reached`: how far they had come; where that is further, what is lost is said, too.
    """
    saved = {job.name: step for job in jobs if (step := saved_step(job, out)) is not None}
    ended = sum(has_ended(out, job) for job in jobs)
    waiting = len(jobs) - ended - len(saved)
    parts = []
    if saved:
        total = {job.total_steps for job in jobs if job.name in saved}
        parts.append(
            f"saved at {_steps(saved.values())} of {_range(total)} for {_runs(len(saved))}"
        )
    if ended:
        parts.append(f"{_runs(ended)} ended before")
    if waiting:
        parts.append(f"nothing is saved of {_runs(waiting)}: not begun, or still compiling")
    lost = [(reached or {}).get(job.name, 0) - saved.get(job.name, 0)
            for job in jobs if not has_ended(out, job)]  # fmt: skip
    if max(lost, default=0) > 0:
        parts.append(f"lost: up to {max(lost):,} steps of a run, since its last checkpoint")
    return "; ".join(parts)


def saved_step(job: Job, out: Path) -> int | None:
    """The step at which an unfinished run would go on; None where nothing is saved of it."""
    saved = None if has_ended(out, job) else checkpoints.saved(run_files(out, job.name))
    if saved is None:
        return None
    _, update = saved
    return phase_at(Setup(job).phases, update).step_at(update)


def _steps(steps: Iterable[int]) -> str:
    found = set(steps)
    return f"step{'s' if len(found) > 1 else ''} {_range(found)}"


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"

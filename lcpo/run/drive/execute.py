"""Run jobs in this process: those that have not ended, from their checkpoints or the start.

One job alone, or a group that differs only in seeds and traced config values. On a GPU a group is
one vmapped program. On a CPU vmap gains nothing (`lcpo.run.engines.local` gives each core a process
of its own), but the worlds of a host environment step together everywhere.
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
from lcpo.run.drive.base import StoppedRuns, state_shapes
from lcpo.run.drive.group import Group
from lcpo.run.events import Crashed, Event, Failed, Finished, Note, Progress, Report
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.phases import phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.layout import run_files
from lcpo.run.store.lock import claimed
from lcpo.run.store.results import load_outcome


def has_ended(out: Path, job: Job) -> bool:
    """Whether a run has finished or failed; InputError if its folder holds another run."""
    return load_outcome(run_files(out, job.name), job) is not None


class Reporter:
    """A report that knows which runs have ended, and whether it raised an exception itself."""

    def __init__(self, report: Report) -> None:
        self.report, self.ended, self.broken = report, set[str](), False

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Progress | Note):
            self.ended.add(event.job)
        try:
            self.report(event)
        except BaseException:
            self.broken = True
            raise

    @contextlib.contextmanager
    def crashes_of(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Report an exception as `Crashed` for each of the jobs that has not ended.

        What the report itself raises is the caller's to handle. An environment that calls
        `sys.exit` crashes its run like any other exception.
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
    """Run all jobs that have not ended yet, in groups if that pays; report the outcome of all.

    An exception in a run is reported as `Crashed`, and the other runs continue. Raises `stop.Asked`
    if it is asked to stop, after the current runs are saved.
    """
    compile_cache.use()
    reporter, waiting = Reporter(report), []
    held: list[np.ndarray | None] = []
    for job in jobs:
        with reporter.crashes_of([job]):
            waiting += [] if _report_end(job, out, reporter) else [Setup(job)]
    while waiting:
        first = waiting[0]
        group = [first]
        if first.is_host or jax.default_backend() != "cpu":
            group = [s for s in waiting if s.statics() == first.statics()]
        waiting, names = [s for s in waiting if s not in group], [s.job.name for s in group]
        with reporter.crashes_of([s.job for s in group]), claimed(out, names) as mine:
            for name in names:
                if name not in mine:
                    reporter(
                        Crashed(name, "another process is running it: wait for it, or stop it")
                    )
            # Another process may have ended a run while this one waited for its claim.
            free = [s for s in group if s.job.name in mine]
            group = [s for s in free if not _report_end(s.job, out, reporter)]
            # The traces of a group are held until the next one has its own: most share them.
            held = _load_traces(group)
            _run_group(group, out, reporter, checkpoint_seconds)
    del held


def _report_end(job: Job, out: Path, report: Report) -> bool:
    """Whether a run has ended; its outcome is reported."""
    outcome = load_outcome(run_files(out, job.name), job)
    if outcome is None:
        return False
    failure = outcome.get("failure")
    report(Failed(job.name, **failure) if failure else Finished(job.name))
    return True


def _run_group(group: list[Setup], out: Path, report: Reporter, checkpoint_seconds: float) -> None:
    """Run a group; runs that were stopped at different updates are resumed separately.

    Runs whose worlds cannot continue are dropped. The others resume from their last checkpoints,
    which gives the same result: no run depends on others in its group.
    """
    saved: dict[str, checkpoints.Checkpoint | None] = {}
    for setup in group:
        with report.crashes_of([setup.job]):
            saved[setup.job.name] = _load_checkpoint(setup, out)
    starts = {name: c.update if c else 0 for name, c in saved.items()}
    for start in sorted(set(starts.values())):
        part = [s for s in group if starts.get(s.job.name) == start]
        with report.crashes_of([s.job for s in part]):
            try:
                found = [saved[s.job.name] for s in part]
                Group(part, out, report, checkpoint_seconds).run(found)
            except StoppedRuns as stopped:
                for i, cause in stopped.causes.items():
                    report(Crashed(part[i].job.name, cause, stopped.details))
                rest = [s for i, s in enumerate(part) if i not in stopped.causes]
                _run_group(rest, out, report, checkpoint_seconds)


def _load_traces(group: list[Setup]) -> list[np.ndarray | None]:
    """The traces of a group, several at a time. Runs report those that cannot be loaded."""

    def attempt(setup: Setup) -> np.ndarray | None:
        with contextlib.suppress(Exception):
            return setup.trace()

    different = {(s.job.trace, s.job.scale, s.trace_rows): s for s in group}
    with ThreadPoolExecutor() as pool:
        return list(pool.map(attempt, different.values()))


def _load_checkpoint(setup: Setup, out: Path) -> checkpoints.Checkpoint | None:
    """The checkpoint of a run, even if it was planned with fewer steps."""
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
    """What stopped runs have on disk: the steps at which they resume, how many have ended.

    `reached`: the last step of each run; what is lost since its last checkpoint is reported, too.
    """
    saved: dict[str, int] = {}
    waiting = [job for job in jobs if not has_ended(out, job)]
    for job in waiting:
        if found := checkpoints.saved(run_files(out, job.name)):
            _, update = found
            saved[job.name] = phase_at(Setup(job).phases, update).step_at(update)
    parts = []
    if saved:
        at, total = _range(saved.values()), _range(j.total_steps for j in jobs if j.name in saved)
        steps = "steps" if " to " in at else "step"
        parts.append(f"saved at {steps} {at} of {total} for {_runs(len(saved))}")
    if ended := len(jobs) - len(waiting):
        parts.append(f"{_runs(ended)} had ended")
    if unsaved := len(waiting) - len(saved):
        parts.append(f"nothing is saved for {_runs(unsaved)}: not started, or still compiling")
    lost = [(reached or {}).get(job.name, 0) - saved.get(job.name, 0) for job in waiting]
    if max(lost, default=0) > 0:
        parts.append(f"lost: up to {max(lost):,} steps of a run, since its last checkpoint")
    return "; ".join(parts)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    low, high = found[0], found[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"

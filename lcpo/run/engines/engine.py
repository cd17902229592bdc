"""Engines: their protocol, how to make one from the options, and the plans on disk that all share.

An engine runs jobs somewhere: in processes on this machine, or on a cluster. All state lives in the
output folder: it holds the plan and the files of every run (`lcpo.run.store.layout`), so a run that
has ended is never run again, whichever engine comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lcpo.errors import InputError, no_space
from lcpo.names import unknown
from lcpo.run.drive.execute import has_ended
from lcpo.run.engines.clusters import RayEngine, SlurmEngine
from lcpo.run.engines.local import LocalEngine
from lcpo.run.events import Crashed, Event, Note, Report
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job, outside, own_fingerprint
from lcpo.run.store import own_code
from lcpo.run.store.checkpoint import check_same, goes_on
from lcpo.run.store.layout import plan_file
from lcpo.run.store.lock import cannot_write, locked, sweep_claims
from lcpo.run.store.outputs import check_runs_folder, sweep_folder
from lcpo.run.store.plans import keeps_state, planned_jobs, save_plan


class Engine(Protocol):
    """Runs jobs. To build one, write a class with these two methods.

    Most engines start `python -m lcpo.run.worker OUT/plan.json` somewhere, which runs or resumes
    what has not ended of a plan, and pass on the events that it prints, one JSON object a line
    (`lcpo.run.engines.process.read_events`). `run_plan` holds the lock of the folder meanwhile.
    """

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if these jobs cannot be run here, before anything is written."""
        ...

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Run `jobs`, none of which has ended; all are in the plan of the folder `out`.

        `report` is called, in this process and one call at a time, with `Progress` from time to
        time and with exactly one `Finished`, `Failed` or `Crashed` for each job that was begun.
        Returns when all have ended; raises RunError if some could not be begun, after the others
        have ended. Exceptions of `report` propagate, and leave nothing running.
        """
        ...


ENGINES = ("local", "ray", "slurm")


def make_engine(how: RunOptions) -> Engine:
    """The engine that the options name; InputError if there is none."""
    if how.engine not in ENGINES:
        raise InputError(unknown("engine", how.engine, ENGINES))
    if how.engine == "ray":
        return RayEngine(how.address, how.workers, how.checkpoint_seconds)
    if how.address is not None:
        raise InputError(
            f"address {how.address!r} is for Ray clusters: add --engine ray, or leave it out"
        )
    kind = LocalEngine if how.engine == "local" else SlurmEngine
    return kind(how.workers, how.checkpoint_seconds)


def run_plan(
    jobs: list[Job],
    out: Path,
    engine: Engine,
    report: Report,
    resume: bool = False,
    keep_state: bool = False,
    begin: Callable[[list[Job]], None] = lambda waiting: None,
) -> None:
    """Let an engine run what has not ended yet, while no other process uses the folder.

    `keep_state`: the last checkpoint of each run stays, so that it can be extended. `begin` is
    called with the jobs that are left to run. Raises InputError before any run if the folder is in
    use, cannot be written or holds something else, or if the engine cannot run the jobs; RunError
    if the disk is full.
    """

    def hear(event: Event) -> None:
        report(event)
        if isinstance(event, Crashed) and event.no_space:
            raise no_space(out)  # which stops the engine: the other runs need space, too

    check_runs_folder(out)
    with locked(out, lambda text: report(Note(text))):
        waiting = prepare(jobs, out, resume)
        if waiting:
            engine.check(waiting)
            write_plan(jobs, out, keep_state)
            begin(waiting)
            try:
                engine.run(waiting, out, hear)
            finally:
                sweep_claims(out)  # workers may have been killed


def plan_only(
    jobs: list[Job], out: Path, tell: Callable[[str], None], resume: bool, keep_state: bool = False
) -> None:
    """Write a plan for another process to run; raises InputError as `run_plan` does."""
    check_runs_folder(out)
    with locked(out, tell):
        prepare(jobs, out, resume)
        write_plan(jobs, out, keep_state)


def prepare(jobs: list[Job], out: Path, resume: bool) -> list[Job]:
    """The jobs that have not ended yet, after checking what the folder holds."""
    check_runs_folder(out, [job.name for job in jobs])
    check_resumed(out, resume)
    known = {job.name: job.to_json() for job in planned_jobs(out)}
    for job in jobs:
        before, now = known.get(job.name), job.to_json()
        if before is not None and not goes_on(before, now):
            check_same(before, now, f"{job.name} in {out}")
    sweep_folder(out)
    return [job for job in jobs if not has_ended(out, job)]


def check_resumed(out: Path, resume: bool) -> None:
    """Raise InputError if a folder holds runs, and the user did not ask to resume them."""
    if plan_file(out).exists() and not resume:
        raise InputError(
            f"{out} already holds runs: resume them (--resume), or give another folder"
        )


def write_plan(jobs: list[Job], out: Path, keep_state: bool = False) -> None:
    """Write the plan: the jobs planned before, some of them extended, then the new ones."""
    keep_state = keep_state or keeps_state(out)
    every = {job.name: job for job in [*planned_jobs(out), *jobs]}
    try:
        save_plan(out, list(every.values()), keep_state)
    except OSError as error:
        raise cannot_write(plan_file(out), error) from error
    made = (own_fingerprint(job) for job in jobs if outside(job))
    own_code.remember(line for line in made if line is not None)

"""The protocol of engines, which one is meant, and what is the same for all: plans on disk.

An engine runs jobs somewhere: in processes on this machine, on a cluster, on none at all. The
output folder is the truth: it holds the plan, and every run leaves its files there
(`lcpo.run.store.layout`), so that a run which ended once is never run again, whichever engine
comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lcpo.errors import InputError, no_space
from lcpo.names import unknown
from lcpo.run.drive.execute import has_ended
from lcpo.run.engines.local import LocalEngine
from lcpo.run.engines.ray import RayEngine
from lcpo.run.engines.slurm import SlurmEngine
from lcpo.run.events import Crashed, Event, Note, Report
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job
from lcpo.run.store.checkpoint import check_same, goes_on
from lcpo.run.store.layout import plan_file
from lcpo.run.store.lock import cannot_write, locked, sweep_claims
from lcpo.run.store.outputs import check_runs_folder, sweep_folder
from lcpo.run.store.plans import keeps_state, planned_jobs, save_plan


class Engine(Protocol):
    """Runs jobs. To build one, write a class with these two methods.

    `python -m lcpo.run.worker OUT/plan.json` runs what has not ended of a plan, from checkpoints
    where there are some, and says every event as a line of JSON (`lcpo.run.channel.read_events`):
    most engines start such processes somewhere and pass on what they say. Nothing else is on their
    standard output; what agents and environments print is on their standard error. `run_plan` holds
    the lock of the folder while an engine runs.
    """

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if these jobs cannot be run here, before anything is written."""
        ...

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Run `jobs`, none of which has ended; all stand in the plan of the folder `out`.

        `report` is called, in this process and one call at a time, with `Progress` now and then
        and with exactly one `Finished`, `Failed` or `Crashed` for each job that was begun. Returns
        when all have ended; raises RunError where some could not be begun, after the others have
        ended. What `report` raises is raised, and leaves nothing running.
        """
        ...


ENGINES = ("local", "ray", "slurm")


def make_engine(how: RunOptions) -> Engine:
    """The engine that the options name; InputError where there is none."""
    if how.engine not in ENGINES:
        raise InputError(unknown("engine", how.engine, ENGINES))
    if how.engine == "ray":
        return RayEngine(how.address, how.workers, how.checkpoint_seconds)
    if how.address is not None:
        raise InputError(f"address {how.address!r} is that of a Ray cluster: it needs --engine ray")
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
    """Let an engine run what has not ended yet, while nobody else works in the folder.

    `keep_state`: the last checkpoint of each run stays, so that it can go on for more steps.
    `begin` is called with the jobs that are left to run.

    Raises InputError before any work where the folder is in use, cannot be written or holds
    something else, or where the engine cannot; RunError where the disk is full.
    """

    def hear(event: Event) -> None:
        report(event)
        if isinstance(event, Crashed) and event.no_space:
            raise no_space(out)  # which ends the engine's work: the other runs need space, too

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
                sweep_claims(out)  # workers are ended without a warning


def plan_only(
    jobs: list[Job],
    out: Path,
    tell: Callable[[str], None],
    resume: bool,
    keep_state: bool = False,
) -> None:
    """Write a plan that somebody else will run; raises InputError as `run_plan` does."""
    check_runs_folder(out)
    with locked(out, tell):
        prepare(jobs, out, resume)
        write_plan(jobs, out, keep_state)


def prepare(jobs: list[Job], out: Path, resume: bool) -> list[Job]:
    """The jobs that have not ended yet, after a look at what the folder holds."""
    check_runs_folder(out, [job.name for job in jobs])
    check_resumed(out, resume)
    known = {job.name: job for job in planned_jobs(out)}
    for job in jobs:
        before = known[job.name].to_json() if job.name in known else None
        if before is not None and not goes_on(before, job.to_json()):
            check_same(before, job.to_json(), f"{job.name} in {out}")
    sweep_folder(out)
    return [job for job in jobs if not has_ended(out, job)]


def check_resumed(out: Path, resume: bool) -> None:
    """Raise InputError where a folder holds runs that nobody asked to resume."""
    if plan_file(out).exists() and not resume:
        raise InputError(
            f"{out} holds runs already: go on with them (--resume) or give another folder"
        )


def write_plan(jobs: list[Job], out: Path, keep_state: bool = False) -> None:
    """Write the plan: the jobs planned before, of which some may go on, then the new ones."""
    keep_state = keep_state or keeps_state(out)
    every = {job.name: job for job in [*planned_jobs(out), *jobs]}
    try:
        save_plan(out, list(every.values()), keep_state)
    except OSError as error:
        raise cannot_write(plan_file(out), error) from error

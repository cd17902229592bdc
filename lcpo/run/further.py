"""Runs that go on: by the plan of their folder alone, and for more steps than it says.

What depends on the number of steps (a reservoir of 1 % of them, a replay of all, how long a phase
of random actions lasts) stays as the first plan has it: buffers cannot be made larger in the
middle. A run that has finished goes on from the state that `keep_state` left of it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lcpo import contexts
from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup, check_trust, digest_of_trace, load_trace
from lcpo.run.store.checkpoint import check_same
from lcpo.run.store.layout import plan_file, run_files
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import load_outcome

Tell = Callable[[str], None]


def from_plan(out: Path, steps: int | None, trust: bool, tell: Tell) -> list[Job]:
    """The jobs in the plan of a folder; with `steps`, for so many."""
    jobs = planned_jobs(out)
    if not jobs:
        raise InputError(
            f"{out} holds no plan to go on with: say what is to be run, or which --out"
        )
    check_trust(jobs, trust, str(plan_file(out)))
    if steps is None:
        return jobs
    steps = plain_values.whole("steps", steps)
    if longest := next((job for job in jobs if job.steps > steps), None):
        raise InputError(
            f"steps = {steps:,}: {longest.name} in {out} has {longest.steps:,} already; give more, "
            "or another folder"
        )
    return _told(jobs, [_lengthen(job, steps, out, tell) for job in jobs], tell)


def pinned(jobs: list[Job], out: Path, again: Callable[[int], list[Job]], tell: Tell) -> list[Job]:
    """Jobs with more steps than the plan of the folder says, with the sizes that it has.

    `again(steps)`: the same jobs, planned for other steps.
    """
    known = {job.name: job for job in planned_jobs(out)}
    first = [known.get(job.name, job) for job in jobs]
    shorter = {old.name: old for old, job in zip(first, jobs, strict=True) if old.steps < job.steps}
    for steps in {job.steps for job in shorter.values()}:
        for job in again(steps):
            if job.name in shorter and shorter[job.name].steps == steps:
                check_same(known[job.name].to_json(), job.to_json(), f"{job.name} in {out}")
    longer = [
        _lengthen(shorter[job.name], job.steps, out, tell) if job.name in shorter else job
        for job in jobs
    ]
    return _told(first, longer, tell)


def _told(before: list[Job], after: list[Job], tell: Tell) -> list[Job]:
    """Say of the runs that go on what stays."""
    pairs = zip(before, after, strict=True)
    changes = Counter((old.steps, new.steps) for old, new in pairs if old.steps < new.steps)
    for (old, new), count in changes.items():
        tell(
            f"{count} run(s) go on from {old:,} to {new:,} steps; sizes that depend on the steps "
            "stay as they were planned first"
        )
    return after


def _lengthen(job: Job, steps: int, out: Path, tell: Tell) -> Job:
    """The same run for more steps; InputError where it cannot go on exactly as if never ended."""
    setup = Setup(job)
    steps -= steps % setup.phases[-1].steps_per_update
    if steps <= job.steps:
        return job
    if job.training:
        raise InputError(
            f"{job.name} has trained on the {job.steps:,} steps that it was judged on, and cannot "
            "go on with more: plan it anew in another folder"
        )
    outcome = load_outcome(run_files(out, job.name))
    if outcome is not None and outcome["status"] == "failed":
        tell(f"{job.name} failed, and stays as it is")
        return job
    if outcome is not None and not run_files(out, job.name).kept.manifest.exists():
        raise InputError(
            f"{job.name} has finished, and its buffers and worlds were not kept: to go on, a run "
            "needs --keep-state (keep_state=True) from its start; give another folder"
        )
    longer = dataclasses.replace(job, steps=steps, trace_digest=None)
    return dataclasses.replace(longer, trace_digest=_digest(setup, Setup(longer)))


def _digest(before: Setup, after: Setup) -> str | None:
    """Of the longer trace, if it is a file; InputError where it does not begin as the shorter."""
    job, rows = before.job, before.trace_rows
    if job.trace is None or rows is None:
        return job.trace_digest
    longer = load_trace(job.trace, job.scale, after.trace_rows)
    if not np.array_equal(longer[:rows], before.trace()[:rows]):
        raise InputError(
            f"trace {job.trace!r} of {after.job.steps:,} rows does not begin as that of "
            f"{job.steps:,}: {job.name} cannot go on along it"
        )
    return digest_of_trace(longer) if contexts.is_file(job.trace) else None

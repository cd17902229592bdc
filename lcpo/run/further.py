"""Runs that go on: by the plan of their folder alone, and for more steps than it says.

What depends on the number of steps (a reservoir of 1 % of them, a replay of all, how long a phase
of random actions lasts) stays as the first plan has it: buffers cannot be made larger in the
middle. A run that has finished goes on from the state that `keep_state` left of it.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup, check_trust
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
        raise _other_steps(longest, steps, out)
    return _told(jobs, [_lengthen(job, steps, out, tell) for job in jobs], tell)


def resumed(
    jobs: list[Job],
    out: Path,
    steps: int | None,
    again: Callable[[int], list[Job]],
    tell: Tell,
) -> list[Job]:
    """The jobs of a resumed command as the plan of the folder has them, extended to `steps`.

    A resume may add seeds to the runs of the folder, which then have the settings of those runs,
    and nothing else. `steps`: as the user gave them. `again(steps)`: the same jobs, planned for
    other steps.
    """
    planned = {job.name: job for job in planned_jobs(out)}
    if not planned:
        return jobs
    kinds = {job.stem: job for job in planned.values()}
    _check_kinds(jobs, kinds, out)
    before = [
        planned.get(job.name) or dataclasses.replace(kinds[job.stem], seed=job.seed) for job in jobs
    ]
    named = {(_sized_for(job), job.name): job for job in jobs}
    others = {_sized_for(old) for old in before if (_sized_for(old), old.name) not in named}
    named |= {(length, job.name): job for length in others for job in again(length)}
    for old, job in zip(before, jobs, strict=True):
        if job.steps < old.steps if steps is not None else job.steps != old.steps:
            raise _other_steps(old, job.steps, out)
        now = _at_steps(named[_sized_for(old), old.name], old.steps)
        check_same(old.to_json(), now.to_json(), f"{old.name} in {out}")
    longer = [_lengthen(old, job.steps, out, tell) for old, job in zip(before, jobs, strict=True)]
    return _told(before, longer, tell)


def _sized_for(job: Job) -> int:
    return job.sized_for or job.steps


def _at_steps(job: Job, steps: int) -> Job:
    """The same run for so many steps, with the sizes that it has."""
    longer = dataclasses.replace(job, steps=steps, trace_digest=None)
    digest = job.trace and job.trace.file_digest(Setup(longer).trace_rows, job.scale)
    return dataclasses.replace(longer, trace_digest=digest)


def _check_kinds(jobs: Sequence[Job], kinds: Mapping[str, Job], out: Path) -> None:
    """Raise InputError where a resume names runs that differ from those of the folder."""
    others = dict.fromkeys(job.stem for job in jobs if job.stem not in kinds)
    if others:
        raise InputError(
            f"{out} holds {_listed(list(kinds))}, and no {_listed(list(others))}: a resume runs "
            f"what the folder's plan holds (--resume --out {shlex.quote(str(out))}, and nothing "
            "that says which runs), or more seeds of it, with every option that it was begun with; "
            "for other runs give another folder"
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _other_steps(job: Job, steps: int, out: Path) -> InputError:
    return InputError(
        f"steps = {steps:,}: {job.name} in {out} has {job.steps:,}; say --steps {job.steps} or "
        "more, or give another folder"
    )


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
    longer = dataclasses.replace(job, steps=steps, sized_for=_sized_for(job), trace_digest=None)
    return dataclasses.replace(longer, trace_digest=_digest(setup, Setup(longer)))


def _digest(before: Setup, after: Setup) -> str | None:
    """Of the longer trace, if it is a file; InputError where it does not begin as the shorter."""
    job, rows = before.job, before.trace_rows
    if job.trace is None or rows is None:
        return job.trace_digest
    longer = job.trace.load(after.trace_rows, job.scale)
    if not np.array_equal(longer[:rows], before.trace()[:rows]):
        raise InputError(
            f"trace {job.trace!r} of {after.job.steps:,} rows does not begin as that of "
            f"{job.steps:,}: {job.name} cannot go on along it"
        )
    return job.trace.file_digest(after.trace_rows, job.scale)

"""Resumed runs: by the plan of their folder alone, and extended beyond it.

What depends on the number of steps (a reservoir of 1 % of them, a replay of all, how long a phase
of random actions lasts) stays as the first plan has it: buffers cannot grow during a run. A
finished run is extended from the state that `keep_state` has kept.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup, check_trust, earlier_values, find_env
from lcpo.run.store.checkpoint import check_same
from lcpo.run.store.layout import plan_file, run_files
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import load_outcome

Tell = Callable[[str], None]


def from_plan(out: Path, steps: int | None, trust: bool, tell: Tell) -> list[Job]:
    """The jobs in the plan of a folder; with `steps`, extended to as many."""
    jobs = planned_jobs(out)
    if not jobs:
        raise InputError(
            f"{out} holds no plan to resume: give another --out, or the options of the runs to "
            "start"
        )
    check_trust(jobs, trust, str(plan_file(out)))
    if steps is None:
        return jobs
    steps = plain_values.whole("steps", steps)
    if longest := next((job for job in jobs if job.steps > steps), None):
        raise _other_steps(longest, steps, out)
    return _extended([(job, steps) for job in jobs], out, tell)


def resumed(
    jobs: list[Job], out: Path, steps: int | None, again: Callable[[int], list[Job]], tell: Tell
) -> list[Job]:
    """The jobs of a resumed command as the plan of the folder has them, extended to `steps`.

    A resume may only add seeds to the runs of the folder, with the same settings. `steps`: as the
    user gave them. `again(steps)`: the same jobs, planned for other steps.
    """
    planned = {job.name: job for job in planned_jobs(out)}
    if not planned:
        return jobs
    kinds = {job.stem: job for job in planned.values()}
    others = dict.fromkeys(job.stem for job in jobs if job.stem not in kinds)
    if others:
        raise InputError(
            f"{out} holds {_listed(kinds)}, and no {_listed(others)}: resume what the folder's "
            f"plan holds (--resume --out {shlex.quote(str(out))}, without options that select "
            "runs), or add seeds by repeating every option of the first command; for other runs, "
            "give another folder"
        )
    before = [
        planned.get(job.name) or dataclasses.replace(kinds[job.stem], seed=job.seed) for job in jobs
    ]
    named = {(_sized_for(job), job.name): job for job in jobs}
    lengths = {_sized_for(old) for old in before if (_sized_for(old), old.name) not in named}
    named |= {(length, job.name): job for length in lengths for job in again(length)}
    for old, job in zip(before, jobs, strict=True):
        if job.steps < old.steps if steps is not None else job.steps != old.steps:
            raise _other_steps(old, job.steps, out)
        # The same run for as many steps as before, with the sizes that it has.
        job = dataclasses.replace(
            named[_sized_for(old), old.name], steps=old.steps, trace_digest=None
        )
        digest = job.trace and job.trace.file_digest(Setup(job).trace_rows, job.scale)
        now = _as_stored(dataclasses.replace(job, trace_digest=digest), old, tell)
        check_same(old.to_json(), now.to_json(), f"{old.name} in {out}")
    pairs = zip(before, jobs, strict=True)
    return _extended([(old, job.steps) for old, job in pairs], out, tell)


def _as_stored(job: Job, old: Job, tell: Tell) -> Job:
    """Without the fields of the environment that `old`, of an earlier version, lacks."""
    given = job.env_config
    known = earlier_values(find_env(job.env)).items()
    lacking = {name: value for name, value in known if name not in old.env_config}
    for name, value in lacking.items():
        if given[name] != value:
            tell(f"{old.name} was planned with env.{name} = {value}, and resumes with it")
    kept = {name: value for name, value in given.items() if name not in lacking}
    return dataclasses.replace(job, env_config=kept)


def _sized_for(job: Job) -> int:
    return job.sized_for or job.steps


def _listed(names: Iterable[str]) -> str:
    first, rest = list(names)[:3], len(list(names)) - 3
    return ", ".join(first) + (f" and {rest} more" if rest > 0 else "")


def _other_steps(job: Job, steps: int, out: Path) -> InputError:
    return InputError(
        f"steps = {steps:,}: {job.name} in {out} has {job.steps:,}; give --steps {job.steps} or "
        "more, or give another folder"
    )


def _extended(jobs: list[tuple[Job, int]], out: Path, tell: Tell) -> list[Job]:
    """The jobs, each extended to this number of steps; `tell` receives a note on what changes."""
    longer = [_lengthen(job, steps, out, tell) for job, steps in jobs]
    changes = Counter((old.steps, new.steps) for (old, _), new in zip(jobs, longer, strict=True))
    for (old, new), count in changes.items():
        if old < new:
            tell(
                f"extending {count} run(s) from {old:,} to {new:,} steps; sizes that depend on the "
                "steps keep their planned values"
            )
    return longer


def _lengthen(job: Job, steps: int, out: Path, tell: Tell) -> Job:
    """The same run for more steps; InputError unless the result is that of one longer run."""
    setup = Setup(job)
    steps -= steps % setup.phases[-1].steps_per_update
    if steps <= job.steps:
        return job
    if job.training:
        raise InputError(
            f"{job.name} was trained on the {job.steps:,} steps of its evaluation and cannot be "
            "extended: start it with more steps in another folder"
        )
    files = run_files(out, job.name)
    outcome = load_outcome(files)
    if outcome is not None and outcome["status"] == "failed":
        tell(f"{job.name} failed and cannot be extended: start it in another folder")
        return job
    if outcome is not None and not files.kept.manifest.exists():
        raise InputError(
            f"{job.name} finished without --keep-state (keep_state=True) and cannot be extended: "
            "start it with that option in another folder"
        )
    longer = dataclasses.replace(job, steps=steps, sized_for=_sized_for(job), trace_digest=None)
    rows, after, digest = setup.trace_rows, Setup(longer).trace_rows, job.trace_digest
    if job.trace is not None and rows is not None:
        if not np.array_equal(job.trace.load(after, job.scale)[:rows], setup.trace()[:rows]):
            raise InputError(
                f"trace {job.trace!r} of {steps:,} rows starts with other values than the one of "
                f"{job.steps:,} rows: {job.name} cannot be extended along it"
            )
        digest = job.trace.file_digest(after, job.scale)
    return dataclasses.replace(longer, trace_digest=digest)

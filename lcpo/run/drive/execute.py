"""Run jobs in this process: those that have not ended, from their checkpoints or the start.

One job alone, or a group that differs only in seeds and traced config values. On a GPU a group is
one vmapped program. On a CPU vmap gains nothing (give each core a process of its own:
`lcpo.run.engines.local`), but the worlds of a host environment are stepped together everywhere.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax

from lcpo.run.drive.driver import state_shapes
from lcpo.run.drive.group import Group, Report, run_folder
from lcpo.run.drive.host import StoppedRuns
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import record as records


def manifest(out: Path, job: Job) -> dict[str, Any] | None:
    """The manifest of a run that has ended, or None."""
    path = run_folder(out, job) / "manifest.json"
    return records.load_json(path) if path.exists() else None


def run_jobs(jobs: list[Job], out: Path, report: Report, checkpoint_seconds: float) -> None:
    """Run all jobs that have not ended yet, in groups where that pays."""
    waiting = [Setup(job) for job in jobs if manifest(out, job) is None]
    while waiting:
        first = waiting[0]
        group = [first]
        if first.is_host or jax.default_backend() != "cpu":
            group = [s for s in waiting if s.statics() == first.statics()]
        waiting = [s for s in waiting if s not in group]
        _run_group(group, out, report, checkpoint_seconds)


def _run_group(group: list[Setup], out: Path, report: Report, checkpoint_seconds: float) -> None:
    """Runs of a group that were stopped at different updates go on separately.

    Runs whose worlds cannot go on are left; the others go on from their last checkpoints, which
    gives the same result: no run depends on those beside it.
    """
    saved = {s.job.name: _resumed(s, out) for s in group}
    starts = sorted({c.update if c else 0 for c in saved.values()})
    for start in starts:
        part = [s for s in group if (c := saved[s.job.name], c.update if c else 0)[1] == start]
        try:
            Group(part, out, report, checkpoint_seconds).run([saved[s.job.name] for s in part])
        except StoppedRuns as stop:
            for i, cause in stop.causes.items():
                report({"job": part[i].job.name, "event": "crashed", "reason": cause})
            rest = [s for i, s in enumerate(part) if i not in stop.causes]
            if rest:
                _run_group(rest, out, report, checkpoint_seconds)


def _resumed(setup: Setup, out: Path) -> checkpoints.Checkpoint | None:
    folder = run_folder(out, setup.job)
    return checkpoints.load(folder, setup.job, functools.partial(state_shapes, setup))

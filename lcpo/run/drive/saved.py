"""What of runs that were stopped is on disk: read from there, so that it is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lcpo.run.drive.execute import has_ended
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.phases import phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.layout import run_files


def tell_saved(jobs: Sequence[Job], out: Path, reached: Mapping[str, int] | None = None) -> str:
    """In words: at which steps runs go on, and how many have ended, or must begin anew.

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
    files = run_files(out, job.name)
    if files.manifest.exists() or not files.checkpoint.manifest.exists():
        return None
    update = checkpoints.saved_update(files)
    return phase_at(Setup(job).phases, update).step_at(update)


def _steps(steps: Iterable[int]) -> str:
    found = set(steps)
    return f"step{'s' if len(found) > 1 else ''} {_range(found)}"


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"

"""Read what runs left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import layout
from lcpo.run.store.files import load_arrays, load_json
from lcpo.run.store.record import Record


class Result(NamedTuple):
    """A run that has ended."""

    job: Job
    status: str
    """"finished" or "failed"."""
    failure: dict[str, Any] | None
    """Of a failed run: the `quantity` that was not finite, its `value`, the `step` and `phase`."""
    record: Record
    seconds: float
    provenance: dict[str, Any]
    folder: Path

    @property
    def training(self) -> Record:
        """Of a prescient run: the record of its training; empty where there is none."""
        return _record(layout.RunFiles(self.folder).training)


def load_results(out: str | Path, jobs: Sequence[Job] | None = None) -> list[Result]:
    """Runs that have ended below an output folder, in the order of their plan; `jobs`: of these."""
    out = Path(out)
    if not layout.runs_folder(out).is_dir() and not layout.plan_file(out).exists():
        raise InputError(f"{out} holds no runs: give the folder that `lcpo train --out` wrote")
    results = [load_result(files.folder) for files in layout.ended_runs(out)]
    order = {job.name: i for i, job in enumerate(planned_jobs(out))}
    if jobs is not None:
        wanted = {job.name for job in jobs}
        results = [result for result in results if result.job.name in wanted]
    return sorted(results, key=lambda r: (order.get(r.job.name, len(order)), r.job.name))


def planned_jobs(out: Path) -> list[Job]:
    """The jobs in the plan of a folder; none where it has no plan."""
    path = layout.plan_file(out)
    return [Job(**job) for job in load_json(path)["jobs"]] if path.exists() else []


def load_result(folder: Path) -> Result:
    """One run, from its own folder."""
    files = layout.RunFiles(folder)
    manifest = load_json(files.manifest)
    return Result(
        Job(**manifest["job"]),
        manifest["status"],
        manifest.get("failure"),
        _record(files.record),
        manifest["seconds"],
        manifest["provenance"],
        folder,
    )


def _record(path: Path) -> Record:
    return load_arrays(path) if path.exists() else {}

"""Read what runs left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records


class Result(NamedTuple):
    """A run that has ended."""

    job: Job
    status: str
    """"finished" or "failed"."""
    failure: dict[str, Any] | None
    """Of a failed run: the `quantity` that was not finite, its `value`, the `step` and `phase`."""
    record: records.Record
    seconds: float
    provenance: dict[str, Any]
    folder: Path

    @property
    def training(self) -> records.Record:
        """Of a prescient run: the record of its training; empty where there is none."""
        path = self.folder / "training.npz"
        return records.load_arrays(path) if path.exists() else {}


def load_results(out: str | Path, jobs: Sequence[Job] | None = None) -> list[Result]:
    """Runs that have ended below an output folder, in the order of their plan; `jobs`: of these."""
    out = Path(out)
    if not (out / "runs").is_dir():
        raise InputError(f"{out} holds no runs: give the folder that `lcpo train --out` wrote")
    results = [load_result(path.parent) for path in (out / "runs").glob("*/manifest.json")]
    plan = out / "plan.json"
    names = [job["name"] for job in records.load_json(plan)["jobs"]] if plan.exists() else []
    order = {name: i for i, name in enumerate(names)}
    if jobs is not None:
        wanted = {job.name for job in jobs}
        results = [result for result in results if result.job.name in wanted]
    return sorted(results, key=lambda r: (order.get(r.job.name, len(order)), r.job.name))


def load_result(folder: Path) -> Result:
    """One run, from its own folder."""
    manifest = records.load_json(folder / "manifest.json")
    path = folder / "record.npz"
    return Result(
        Job(**manifest["job"]),
        manifest["status"],
        manifest.get("failure"),
        records.load_arrays(path) if path.exists() else {},
        manifest["seconds"],
        manifest["provenance"],
        folder,
    )

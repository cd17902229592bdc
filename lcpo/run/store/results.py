"""How a run ended: what it leaves on disk, and how that is read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import layout
from lcpo.run.store.checkpoint import check_same, goes_on
from lcpo.run.store.files import load_arrays, load_document, save_document
from lcpo.run.store.layout import RunFiles
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.policy_file import About, load_policy
from lcpo.run.store.record import Record, lifelong_return, mean_reward

SCHEMA = 2
_NEEDED = {
    "status": str, "job": dict, "seconds": (int, float), "provenance": dict, "environment": dict,
    "files": dict,
}  # fmt: skip


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
    environment: Mapping[str, Any] = {}
    """What a report must know of it: `advance`, `num_worlds`."""
    files: Mapping[str, str] = {}
    """Digests of the files in the folder, by name."""

    def __repr__(self) -> str:
        """One line: the arrays of a record would be pages."""
        steps, seconds = f"{self.job.steps:,} steps", f"{self.seconds:.0f} s"
        return f"<Result {self.job.name}: {self.status}, {steps}{self._return()}, {seconds}>"

    def _return(self) -> str:
        if self.status != "finished" or not len(self.record.get("step", ())):
            return ""
        if not self.record["epochs"].any():
            return f", mean reward {mean_reward(self.record):.4g}"
        return f", mean return {lifelong_return(self.record):.4g}"

    @property
    def training(self) -> Record:
        """Of a prescient run: the record of its training; empty where there is none."""
        return _arrays(RunFiles(self.folder).training, self.files)

    def policy(self) -> tuple[About, dict[str, np.ndarray]]:
        """The policy file of a finished run."""
        path = RunFiles(self.folder).policy
        if path.name not in self.files:
            raise InputError(f"the run in {self.folder} left no policy: it failed, or was imported")
        return load_policy(path, self.files[path.name])


def save_outcome(run: RunFiles, outcome: Mapping[str, Any], written: Mapping[str, str]) -> None:
    """Write how a run ended, as its last file; `written`: the digests of the others by name."""
    save_document(run.manifest, SCHEMA, {**outcome, "files": dict(written)})


def load_outcome(run: RunFiles, job: Job | None = None) -> dict[str, Any] | None:
    """What `save_outcome` wrote, its job read; None where the run has not ended.

    InputError where it is no run of `job`.

    Nothing that it names is imported or called. A run that ended, and is to go on for more steps,
    has not ended.
    """
    if not run.manifest.exists():
        return None
    try:
        found = load_document(run.manifest, SCHEMA, _NEEDED)
    except InputError as error:
        raise InputError(f"{error} (delete {run.folder} to run it anew)") from error
    found["job"] = Job.from_json(found["job"], str(run.manifest))
    if job is not None:
        before, now = found["job"].to_json(), job.to_json()
        if goes_on(before, now):
            return None
        check_same(before, now, str(run.manifest))
    return found


def load_results(out: str | Path, jobs: Sequence[Job] | None = None) -> list[Result]:
    """Runs that have ended below an output folder, in the order of their plan; `jobs`: of these."""
    out = Path(out)
    planned = planned_jobs(out)
    if not layout.runs_folder(out).is_dir() and not layout.plan_file(out).exists():
        raise InputError(f"{out} holds no runs: give the folder that `lcpo train --out` wrote")
    order = {job.name: i for i, job in enumerate(planned)}
    if jobs is None:
        results = [load_result(run.folder) for run in layout.ended_runs(out)]
        for result in results:
            if result.job.name != result.folder.name:
                raise InputError(f"{result.folder} holds the run {result.job.name}: it was moved")
    else:
        runs = [(layout.run_files(out, job.name), job) for job in jobs]
        results = [
            load_result(run.folder, job) for run, job in runs if load_outcome(run, job) is not None
        ]
    return sorted(results, key=lambda r: (order.get(r.job.name, len(order)), r.job.name))


def load_result(folder: Path, job: Job | None = None) -> Result:
    """One run, from its own folder; with `job`, which must be the one that was run."""
    files = RunFiles(folder)
    manifest = load_outcome(files, job)
    if manifest is None:
        raise InputError(f"{folder} holds no run that has ended")
    return Result(
        manifest["job"],
        manifest["status"],
        manifest.get("failure"),
        _arrays(files.record, manifest["files"]),
        manifest["seconds"],
        manifest["provenance"],
        folder,
        manifest["environment"],
        manifest["files"],
    )


def _arrays(path: Path, written: Mapping[str, str]) -> Record:
    return load_arrays(path, written[path.name]) if path.name in written else {}

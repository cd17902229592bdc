"""How a run ended: its results on disk with their provenance, and how to read them."""

from __future__ import annotations

import os
import platform
import subprocess
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
    """Why a run failed: the `quantity` that was not finite, its `value`, the `step` and `phase`."""
    record: Record
    seconds: float
    provenance: dict[str, Any]
    folder: Path
    environment: Mapping[str, Any] = {}
    """What reports need of it: `advance`, `num_worlds`."""
    files: Mapping[str, str] = {}
    """Digests of the files in the folder, by name."""

    def __repr__(self) -> str:
        """One line: the arrays of a record would be pages."""
        score = ""
        if self.status == "finished" and len(self.record.get("step", ())):
            if self.record["epochs"].any():
                score = f", mean return {lifelong_return(self.record):.4g}"
            else:
                score = f", mean reward {mean_reward(self.record):.4g}"
        told = f"{self.status}, {self.job.steps:,} steps{score}, {self.seconds:.0f} s"
        return f"<Result {self.job.name}: {told}>"

    @property
    def training(self) -> Record:
        """The record of the training of a prescient run; else empty."""
        return _arrays(RunFiles(self.folder).training, self.files)

    def policy(self) -> tuple[About, dict[str, np.ndarray]]:
        """The policy file of a finished run."""
        path = RunFiles(self.folder).policy
        if path.name not in self.files:
            raise InputError(f"the run in {self.folder} has no policy: it failed, or was imported")
        return load_policy(path, self.files[path.name])


def save_outcome(run: RunFiles, outcome: Mapping[str, Any], written: Mapping[str, str]) -> None:
    """Write how a run ended, as its last file; `written`: the digests of the others by name."""
    save_document(run.manifest, SCHEMA, {**outcome, "files": dict(written)})


def load_outcome(run: RunFiles, job: Job | None = None) -> dict[str, Any] | None:
    """What `save_outcome` wrote; None if the run has not ended, or `job` extends it.

    InputError if it is a run of another job. Nothing that it names is imported or called.
    """
    if not run.manifest.exists():
        return None
    try:
        found = load_document(run.manifest, SCHEMA, _NEEDED)
    except InputError as error:
        raise InputError(f"{error} (delete {run.folder} to repeat this run)") from error
    found["job"] = Job.from_json(found["job"], str(run.manifest))
    if job is not None:
        before, now = found["job"].to_json(), job.to_json()
        if goes_on(before, now):
            return None
        check_same(before, now, str(run.manifest))
    return found


def load_results(out: str | Path, jobs: Sequence[Job] | None = None) -> list[Result]:
    """Runs that have ended in an output folder, in the order of its plan; `jobs`: only these."""
    out = Path(out)
    order = {job.name: i for i, job in enumerate(planned_jobs(out))}
    if not layout.runs_folder(out).is_dir() and not layout.plan_file(out).exists():
        raise InputError(f"{out} holds no runs: give the folder that `lcpo train --out` wrote")
    if jobs is None:
        results = [load_result(run.folder) for run in layout.ended_runs(out)]
        for result in results:
            if result.job.name != result.folder.name:
                raise InputError(
                    f"{result.folder} holds the run {result.job.name}: the folder was renamed; "
                    "restore its name"
                )
    else:
        runs = [(layout.run_files(out, job.name), job) for job in jobs]
        results = [load_result(run.folder, job) for run, job in runs if load_outcome(run, job)]
    return sorted(results, key=lambda r: (order.get(r.job.name, len(order)), r.job.name))


def load_result(folder: Path, job: Job | None = None) -> Result:
    """One run, from its own folder; `job`: the one that it must be of."""
    files = RunFiles(folder)
    found = load_outcome(files, job)
    if found is None:
        raise InputError(f"{folder} holds no finished run: give the folder of a run that has ended")
    rest = {name: found[name] for name in ("seconds", "provenance", "environment", "files")}
    record = _arrays(files.record, found["files"])
    return Result(
        found["job"], found["status"], found.get("failure"), record, folder=folder, **rest
    )


def _arrays(path: Path, written: Mapping[str, str]) -> Record:
    return load_arrays(path, written[path.name]) if path.name in written else {}


def provenance() -> dict[str, Any]:
    """Versions, commit and device of this process, for manifests."""
    import jax
    import optax

    import lcpo

    device = jax.devices()[0]
    return {
        "lcpo": lcpo.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
        "device": f"{device.platform}:{device.device_kind}",
    }


def _commit() -> str | None:
    """Commit of this package's checkout, with "+" if it has changes.

    LCPO_COMMIT overrides it, for copies without a history or with another one (on a cluster, in a
    container).
    """
    here = Path(__file__).resolve().parents[3]
    given = os.environ.get("LCPO_COMMIT")
    if given or not (here / ".git").exists():
        return given

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changes = git("status", "--porcelain", "--", "lcpo")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return None

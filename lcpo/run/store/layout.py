"""Every file name of a study and its runs, once.

OUT/plan.json                                 all jobs (`lcpo.run.plan.job.Job`)
OUT/study.json                                whose plan it is (`lcpo.study.folder`)
OUT/slurm.sh                                  with `--engine slurm` (`lcpo.run.engines.clusters`)
OUT/importing.json                            what an import has begun (`lcpo.study.report.imports`)
OUT/.lock                                     who works in the folder (`lcpo.run.store.lock`)
OUT/.running                                  which runs are run now (`lcpo.run.store.claims`)
OUT/events.jsonl, OUT/tensorboard/            with `--track` (`lcpo.run.track`)
OUT/logs/worker-N.txt, here.txt               what agents and environments printed; tracebacks
OUT/runs/NAME/manifest.json                   how the run ended; written last
OUT/runs/NAME/record.npz, training.npz        thinned metrics, a file per phase
OUT/runs/NAME/policy.npz                      what acting needs of the agent's state
OUT/runs/NAME/checkpoint/manifest.json        points at the files of the checkpoint:
OUT/runs/NAME/checkpoint/state-UPDATE.npz     state, record so far, rows of replays
                         record-UPDATE.npz, segment-REPLAY-FIRST-LAST.npz
OUT/runs/NAME/state/                          the last checkpoint of a finished run, if it is kept
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lcpo.errors import InputError

_RUNS, _CHECKPOINT, _KEPT, _MANIFEST = "runs", "checkpoint", "state", "manifest.json"
RECORD, TRAINING = "record.npz", "training.npz"
"""Records: of the phase that is judged, and of the training before it."""


def plan_file(out: Path) -> Path:
    """The plan of an output folder."""
    return out / "plan.json"


def study_file(out: Path) -> Path:
    """Which study a plan is of."""
    return out / "study.json"


def lock_file(out: Path) -> Path:
    """Held by who works in an output folder."""
    return out / ".lock"


def running_file(out: Path) -> Path:
    """In which who runs a run has its byte locked."""
    return out / ".running"


def log_file(out: Path, worker: int | str | None) -> Path:
    """What a worker process printed; None: tracebacks of what ran in the driver's own process."""
    file = out / "logs" / ("here.txt" if worker is None else f"worker-{worker}.txt")
    check_links(out, file.parent, file)
    return file


def events_file(out: Path) -> Path:
    """What was told of runs while they ran, with `--track jsonl`."""
    check_links(out, out / "events.jsonl")
    return out / "events.jsonl"


def tensorboard_folder(out: Path, run: str = "") -> Path:
    """What TensorBoard reads, with `--track tensorboard`: of one run, or of all."""
    folder = out / "tensorboard"
    check_links(out, folder, folder / run)
    return folder / run


def slurm_file(out: Path) -> Path:
    """The script that `--engine slurm` writes."""
    return out / "slurm.sh"


def import_file(out: Path) -> Path:
    """Names the runs that are being imported; where an import was killed, it stays."""
    return out / "importing.json"


def fixed_files(out: Path) -> list[Path]:
    """Every file that runs write beside the folders of runs."""
    rest = [lock_file(out), running_file(out), slurm_file(out), events_file(out)]
    return [plan_file(out), study_file(out), *rest]


def fixed_folders(out: Path) -> list[Path]:
    """Every folder that they write to."""
    return [runs_folder(out), out / "logs", tensorboard_folder(out), out / "wandb"]


def runs_folder(out: Path) -> Path:
    """The folder that holds a folder for each run."""
    return out / _RUNS


class RunFiles(NamedTuple):
    """The files of one run."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder / _MANIFEST

    @property
    def policy(self) -> Path:
        return self.folder / "policy.npz"

    @property
    def record(self) -> Path:
        return self.folder / RECORD

    @property
    def training(self) -> Path:
        return self.folder / TRAINING

    def record_of(self, name: str) -> Path:
        """The file with the record of a phase; `name`: as `Phase.file` has it."""
        if name not in (RECORD, TRAINING):
            raise InputError(f"{name!r} is no record of a run")
        return self.folder / name

    @property
    def checkpoint(self) -> CheckpointFiles:
        return CheckpointFiles(self.folder / _CHECKPOINT)

    @property
    def kept(self) -> CheckpointFiles:
        return CheckpointFiles(self.folder / _KEPT)


class CheckpointFiles(NamedTuple):
    """The files of the checkpoint of a run."""

    folder: Path

    @property
    def manifest(self) -> Path:
        return self.folder / _MANIFEST

    def state(self, update: int) -> Path:
        return self.folder / f"state-{update}.npz"

    def record(self, update: int) -> Path:
        return self.folder / f"record-{update}.npz"

    def segment(self, replay: int, first: int, last: int) -> Path:
        return self.folder / f"segment-{replay}-{first}-{last}.npz"


def run_files(out: Path, name: str) -> RunFiles:
    """The files of the run called `name`. A link that leads out of the folder is refused."""
    folder = runs_folder(out) / name
    check_links(out, folder.parent, folder, folder / _CHECKPOINT, folder / _KEPT)
    return RunFiles(folder)


def check_links(out: Path, *paths: Path) -> None:
    """Refuse a link that leads out of a folder, or nowhere: nothing is written elsewhere."""
    for path in paths:
        if not path.is_symlink():
            continue
        try:
            inside = path.resolve(strict=True).is_relative_to(out.resolve())
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
            raise InputError(f"{path} is a link that leads nowhere: remove it") from error
        if not inside:
            raise InputError(f"{path} is a link that leads out of {out}: refused")


def ended_runs(out: Path) -> Iterator[RunFiles]:
    """The runs below an output folder that have a manifest; InputError while some are imported."""
    if os.path.lexists(import_file(out)):
        raise InputError(
            f"an import into {out} has not ended: wait for it, or repeat it if it was killed"
        )
    found = sorted(runs_folder(out).glob(f"*/{_MANIFEST}"))
    return (run_files(out, path.parent.name) for path in found)

"""Every file name of a study and its runs, once.

OUT/plan.json                                 all jobs (`lcpo.run.plan.job.Job`)
OUT/study.json                                the study of the plan (`lcpo.study.folder`)
OUT/slurm.sh                                  with `--engine slurm` (`lcpo.run.engines.clusters`)
OUT/importing.json                            an unfinished import (`lcpo.study.report.imports`)
OUT/.lock                                     the driver of the folder (`lcpo.run.store.lock`)
OUT/.running                                  runs in progress (the same)
OUT/events.jsonl, OUT/tensorboard/            with `--track` (`lcpo.run.track`)
OUT/logs/worker-N.txt, here.txt               what agents and environments print; tracebacks
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
from collections.abc import Callable, Iterator
from pathlib import Path

from lcpo.errors import InputError

_CHECKPOINT, _KEPT, _MANIFEST = "checkpoint", "state", "manifest.json"
RECORD, TRAINING = "record.npz", "training.npz"
"""Records of the phase that is evaluated, and of the training before it."""


def _named(name: str) -> Callable[[Path], Path]:
    """A function from an output folder to one of its entries."""
    return lambda out: out / name


plan_file, study_file = _named("plan.json"), _named("study.json")
lock_file, running_file = _named(".lock"), _named(".running")
slurm_file, import_file = _named("slurm.sh"), _named("importing.json")
runs_folder = _named("runs")


def log_file(out: Path, worker: int | str | None) -> Path:
    """What a worker process prints; None: tracebacks of runs in the driver's own process."""
    file = out / "logs" / ("here.txt" if worker is None else f"worker-{worker}.txt")
    check_links(out, file.parent, file)
    return file


def events_file(out: Path) -> Path:
    """Events of runs in progress, with `--track jsonl`."""
    check_links(out, out / "events.jsonl")
    return out / "events.jsonl"


def tensorboard_folder(out: Path, run: str = "") -> Path:
    """What TensorBoard reads, with `--track tensorboard`: of one run, or of all."""
    folder = out / "tensorboard"
    check_links(out, folder, folder / run)
    return folder / run


class CheckpointFiles:
    """The files of the checkpoint of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, folder / _MANIFEST

    def state(self, update: int) -> Path:
        return self.folder / f"state-{update}.npz"

    def record(self, update: int) -> Path:
        return self.folder / f"record-{update}.npz"

    def segment(self, replay: int, first: int, last: int) -> Path:
        return self.folder / f"segment-{replay}-{first}-{last}.npz"


class RunFiles:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, folder / _MANIFEST
        self.record, self.training = folder / RECORD, folder / TRAINING
        self.policy = folder / "policy.npz"
        self.checkpoint = CheckpointFiles(folder / _CHECKPOINT)
        self.kept = CheckpointFiles(folder / _KEPT)

    def record_of(self, name: str) -> Path:
        """The record of a phase; `name`: its `Phase.file`."""
        if name not in (RECORD, TRAINING):
            raise InputError(f"{name!r} is not a record of a run")
        return self.folder / name


def run_files(out: Path, name: str) -> RunFiles:
    """The files of the run called `name`. Links that leave the output folder are refused."""
    folder = runs_folder(out) / name
    check_links(out, folder.parent, folder, folder / _CHECKPOINT, folder / _KEPT)
    return RunFiles(folder)


def check_links(out: Path, *paths: Path) -> None:
    """Refuse links that leave a folder or are broken: nothing is written elsewhere."""
    for path in paths:
        if not path.is_symlink():
            continue
        try:
            inside = path.resolve(strict=True).is_relative_to(out.resolve())
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
            raise InputError(f"{path} is a broken link: remove it") from error
        if not inside:
            raise InputError(
                f"{path} is a link that leads out of {out}: remove it, or give another folder"
            )


def ended_runs(out: Path) -> Iterator[RunFiles]:
    """The runs of an output folder that have a manifest; InputError during an import."""
    if os.path.lexists(import_file(out)):
        raise InputError(
            f"an import into {out} is unfinished: wait for it, or repeat it if it was killed"
        )
    found = sorted(runs_folder(out).glob(f"*/{_MANIFEST}"))
    return (run_files(out, path.parent.name) for path in found)

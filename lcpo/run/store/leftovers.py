"""What a kill leaves in an output folder: found, and swept away at the next start."""

from __future__ import annotations

from pathlib import Path

from lcpo.run.store import checkpoint, claims
from lcpo.run.store.files import is_unfinished, sweep
from lcpo.run.store.layout import lock_file, run_files, running_file, runs_folder


def holds_more_than_leftovers(out: Path) -> bool:
    """Whether a folder holds more than what a kill may leave before there is a plan."""
    locks = (lock_file(out), running_file(out))
    return any(path not in locks and not is_unfinished(path) for path in out.iterdir())


def sweep_folder(out: Path) -> None:
    """Delete half-written files, and checkpoints of runs that have ended.

    (What a checkpoint does not name is dropped when the next one is written.)
    """
    sweep(out)
    claims.sweep(out)
    for folder in runs_folder(out).glob("*"):
        run = run_files(out, folder.name)
        sweep(run.folder)
        sweep(run.checkpoint.folder)
        if run.manifest.exists():
            checkpoint.drop(run)

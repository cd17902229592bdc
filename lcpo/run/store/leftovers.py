"""What a kill leaves in an output folder: found, and swept away at the next start."""

from __future__ import annotations

from pathlib import Path

from lcpo.run.store import checkpoint, claims
from lcpo.run.store.files import REGULAR, is_unfinished, kind_of, sweep
from lcpo.run.store.layout import lock_file, run_files, running_file, runs_folder


def holds_more_than_leftovers(out: Path) -> bool:
    """Whether a folder holds more than what a kill may leave before there is a plan."""
    return not all(is_unfinished(path) or is_lock(out, path) for path in out.iterdir())


def is_lock(out: Path, path: Path) -> bool:
    """Whether a path is one of the two locks of a folder, and holds what we write into it.

    Who was killed while it signed a lock has left a part of that.
    """
    if path not in (lock_file(out), running_file(out)) or kind_of(path) != REGULAR:
        return False
    with open(path, "rb") as file:
        text = file.read(2**12).strip()
    if path == running_file(out):
        return text == b""
    return text in (b"", b"{", b"{}") or (
        text[:1] == b"{" and any(f'"{name}"'.encode() in text for name in ("pid", "host", "since"))
    )


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

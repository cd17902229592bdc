"""What a command may write to: one rule for all commands, checked before anything is written.

A command writes to a new path, or to a file or folder that it wrote before and can recognize: a
page or picture by the mark in it, an exported table by its columns, the files of a report by their
digests in made.json, a folder of runs by its plan. It replaces no device, pipe or socket, and
follows no symbolic link that leaves the folder it writes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lcpo import values
from lcpo.errors import InputError
from lcpo.run.store import checkpoint, layout
from lcpo.run.store.files import REGULAR, is_unfinished, kind_of, sweep
from lcpo.run.store.lock import sweep_claims
from lcpo.run.store.plans import planned_jobs

IsOurs = Callable[[Path], bool]
"""Whether the content of a path shows that the current command wrote it."""
ENDS = 2**16
"""Bytes at both ends of a file that are searched for a mark."""


def check_file(path: Path, by: str, is_ours: IsOurs) -> None:
    """Raise InputError unless the command `by`, such as `lcpo trace`, may write a file."""
    check_folder(path.parent)
    try:
        found = kind_of(path)
        ours = found is None or (found == REGULAR and is_ours(path))
    except OSError as error:  # a name too long
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    if found not in (None, REGULAR):
        raise InputError(f"{path} is a {found}: give the name of a new file")
    if not ours:
        raise InputError(
            f"{path} exists and was not written by {by}: give another name, or move the file away"
        )


def check_own_folder(
    out: Path, by: str, is_ours: IsOurs, runs: Iterable[str] | None = None
) -> None:
    """Raise InputError unless a folder is new or empty, or the command `by` wrote it.

    `runs`: names of runs that will be written, whose entries are checked, too. Reads only: it is
    called before the folder is locked, and the lock is a file in it.
    """
    check_folder(out)
    try:
        found = out.iterdir() if out.exists() else ()
        # A process that was killed before planning may leave locks and half-written files.
        is_empty = all(is_unfinished(path) or is_lock(out, path) for path in found)
        if not is_empty and not is_ours(out):
            raise InputError(
                f"{out} is not empty and was not written by {by}: give a new or an empty folder"
            )
        if runs is not None:
            check_entries(out, runs)
    except OSError as error:
        raise InputError(f"{out} cannot be read ({error.strerror}): give another folder") from error


def check_runs_folder(out: Path, names: Iterable[str] = ()) -> None:
    """Raise InputError unless runs can be put into a folder: it is new, empty, or has a plan."""
    check_own_folder(out, "lcpo", lambda out: layout.plan_file(out).exists(), names)


def check_workers_folder(out: Path, names: Sequence[str]) -> None:
    """The same for a worker's --out: the folder may hold runs of its plan only."""

    def is_ours(out: Path) -> bool:
        runs = layout.runs_folder(out)
        there = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
        planned = {job.name for job in planned_jobs(out)}
        return set(names) <= planned or (bool(there) and there <= set(names))

    check_own_folder(out, "lcpo.run.worker", is_ours, names)


def check_entries(out: Path, names: Iterable[str]) -> None:
    """Raise InputError unless all that runs write to can be written, and is inside the folder."""
    locks = [layout.lock_file(out), layout.running_file(out)]
    files = [layout.plan_file(out), layout.study_file(out), *locks, layout.slurm_file(out)]
    files += [layout.events_file(out)]
    folders = [layout.runs_folder(out), layout.tensorboard_folder(out), out / "logs", out / "wandb"]
    arrays: list[Path] = []
    for name in names:
        run = layout.run_files(out, name)
        folders += [run.folder, run.checkpoint.folder, run.kept.folder]
        files += [run.manifest, run.record, run.training, run.policy]
        arrays += [run.record, run.training, run.policy]
    layout.check_links(out, *files, *folders)
    for path, wanted in [(x, "file") for x in files] + [(x, "folder") for x in folders]:
        if path.exists() and not (path.is_file() if wanted == "file" else path.is_dir()):
            raise InputError(
                f"{path} is a {kind_of(path)}, but must be a {wanted}: move it away, or give "
                "another folder"
            )
    for path in filter(Path.exists, (*locks, *arrays)):
        is_ours = is_lock(out, path) if path in locks else _is_archive(path)
        if not is_ours:
            raise InputError(
                f"{path} was not written by lcpo: move it away, or give another folder"
            )


def _is_archive(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"  # as an .npz begins


def check_folder(out: Path) -> None:
    """Raise InputError unless a folder exists or can be made."""
    if not out.is_absolute():
        values.current_folder()
    try:
        there = next(folder for folder in (out, *out.absolute().parents) if os.path.lexists(folder))
        if not there.is_dir():
            found = "file" if there.is_file() else kind_of(there)
            raise InputError(f"{there} is a {found}: give another folder than {out}")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"{there} cannot be written to: give another folder than {out}")
        (out / "runs").lstat()  # raises if the name is too long
    except (InputError, FileNotFoundError) as error:
        if isinstance(error, InputError):
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{out} cannot be a folder: {reason or error}") from error


def mark(by: str) -> str:
    """The origin of a page or picture, as written into it."""
    return f"made by {by}"


def is_marked(by: str) -> IsOurs:
    """Whether a file carries the mark of a command."""
    return lambda path: mark(by).encode() in ends(path)


def ends(path: Path) -> bytes:
    """The first and the last bytes of a file."""
    with open(path, "rb") as file:
        head = file.read(ENDS)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(ENDS, size - ENDS))
        return head + file.read(ENDS)


def is_lock(out: Path, path: Path) -> bool:
    """Whether a path is one of the two locks of a folder, with a content that lcpo writes.

    A process that was killed while it signed a lock has left a part of that.
    """
    if path not in (layout.lock_file(out), layout.running_file(out)) or kind_of(path) != REGULAR:
        return False
    with open(path, "rb") as file:
        text = file.read(2**12).strip()
    if path == layout.running_file(out):
        return text == b""
    return text in (b"", b"{", b"{}") or (
        text[:1] == b"{" and any(f'"{name}"'.encode() in text for name in ("pid", "host", "since"))
    )


def sweep_folder(out: Path) -> None:
    """Delete half-written files, and checkpoints of finished runs."""
    sweep(out)
    sweep_claims(out)
    for folder in layout.runs_folder(out).glob("*"):
        run = layout.run_files(out, folder.name)
        sweep(run.folder)
        sweep(run.checkpoint.folder)
        if run.manifest.exists():
            checkpoint.drop(run)

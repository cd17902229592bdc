"""What a command may write to: one rule for all of them, checked before any work.

A command writes to a new path, or to a file or folder that it wrote before, and that says so: a
page or picture by the mark in it, an exported table by its columns, the files of a report by their
digests in made.json, a folder of runs by its plan. It replaces no device, pipe or socket, and
follows no symbolic link that leaves the folder it writes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from lcpo import values
from lcpo.errors import InputError
from lcpo.run.store import checkpoint, claims, layout
from lcpo.run.store.files import REGULAR, is_unfinished, kind_of, sweep
from lcpo.run.store.plans import planned_jobs

IsOurs = Callable[[Path], bool]
"""Whether what stands at a path says that the command at hand wrote it."""
ENDS = 2**16
"""Bytes at both ends of a file in which a mark is looked for."""


def check_file(path: Path, by: str, is_ours: IsOurs) -> None:
    """Raise InputError unless the command `by`, as `lcpo trace`, may write a file, and can."""
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
            f"{path} exists, and nothing in it says that {by} wrote it: give another name, "
            "or move the file away"
        )


def check_own_folder(out: Path, by: str, is_ours: IsOurs) -> None:
    """Raise InputError unless a folder is new or empty, or the command `by` wrote it."""
    check_folder(out)
    try:
        ours = not out.exists() or not holds_more_than_leftovers(out) or is_ours(out)
    except OSError as error:
        raise InputError(f"{out} cannot be read ({error.strerror}): give another folder") from error
    if not ours:
        raise InputError(
            f"{out} is not empty, and nothing in it says that {by} wrote it: give a new "
            "folder, or an empty one"
        )


def check_runs_folder(out: Path, names: Iterable[str] = ()) -> None:
    """Raise InputError unless runs can be put into a folder: it is new, empty, or has a plan.

    Read only, and called before the folder is locked: a lock is a file in it. `names`: of the runs
    that are going to be written.
    """
    check_folder(out)
    try:
        foreign = out.exists() and holds_more_than_leftovers(out)
        if foreign and not layout.plan_file(out).exists():
            raise InputError(f"{out} is not empty and holds no runs of ours: give another folder")
        check_entries(out, names)
    except OSError as error:
        raise InputError(f"{out} cannot be read ({error.strerror}): give another folder") from error


def check_workers_folder(out: Path, names: Sequence[str]) -> None:
    """The same for a worker's --out: the folder may hold runs of its plan alone."""

    def is_ours(out: Path) -> bool:
        runs = layout.runs_folder(out)
        there = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
        planned = {job.name for job in planned_jobs(out)}
        return set(names) <= planned or (bool(there) and there <= set(names))

    check_own_folder(out, "lcpo.run.worker", is_ours)
    check_entries(out, names)


def check_entries(out: Path, names: Iterable[str]) -> None:
    """Raise InputError unless what runs write to is a file or folder, and leads nowhere else."""
    files, folders = layout.fixed_files(out), layout.fixed_folders(out)
    arrays: list[Path] = []
    for name in names:
        run = layout.run_files(out, name)
        folders += [run.folder, run.checkpoint.folder, run.kept.folder]
        files += [run.manifest, run.record, run.training, run.policy]
        arrays += [run.record, run.training, run.policy]
    layout.check_links(out, *files, *folders)
    for wanted, paths in (("file", files), ("folder", folders)):
        for path in paths:
            if path.exists() and not (path.is_file() if wanted == "file" else path.is_dir()):
                raise InputError(f"{path} is a {kind_of(path)}, and a {wanted} must go there: "
                                 "move it away, or give another folder")  # fmt: skip
    locks = [layout.lock_file(out), layout.running_file(out)]
    foreign = [path for path in locks if path.exists() and not is_lock(out, path)]
    foreign += [path for path in arrays if path.exists() and not _is_archive(path)]
    if foreign:
        raise InputError(
            f"{foreign[0]} is not what lcpo writes there: move it away, or give another folder"
        )


def _is_archive(path: Path) -> bool:
    """Whether a file begins as an .npz does."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"


def check_folder(out: Path) -> None:
    """Raise InputError unless a folder is there, or can be made."""
    if not out.is_absolute():
        values.current_folder()
    try:
        there = next(folder for folder in (out, *out.absolute().parents) if os.path.lexists(folder))
        if not there.is_dir():
            found = "file" if there.is_file() else kind_of(there)
            raise InputError(f"{there} is a {found}: give another folder than {out}")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"{there} cannot be written to: give another folder than {out}")
        (out / "runs").lstat()  # raises where the name is too long
    except (InputError, FileNotFoundError) as error:
        if isinstance(error, InputError):
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{out} cannot be a folder: {reason or error}") from error


def mark(by: str) -> str:
    """What a page or picture says of its origin."""
    return f"made by {by}"


def is_marked(by: str) -> IsOurs:
    """Whether a file carries the mark of a command."""
    return lambda path: mark(by).encode() in ends(path)


def ends(path: Path) -> bytes:
    """The first bytes of a file, and the last ones."""
    with open(path, "rb") as file:
        head = file.read(ENDS)
        return head + _tail(file)


def _tail(file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(ENDS, size - ENDS))
    return file.read(ENDS)


def holds_more_than_leftovers(out: Path) -> bool:
    """Whether a folder holds more than what a kill may leave before there is a plan."""
    return not all(is_unfinished(path) or is_lock(out, path) for path in out.iterdir())


def is_lock(out: Path, path: Path) -> bool:
    """Whether a path is one of the two locks of a folder, and holds what we write into it.

    Who was killed while it signed a lock has left a part of that.
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
    """Delete half-written files, and checkpoints of runs that have ended.

    (What a checkpoint does not name is dropped when the next one is written.)
    """
    sweep(out)
    claims.sweep(out)
    for folder in layout.runs_folder(out).glob("*"):
        run = layout.run_files(out, folder.name)
        sweep(run.folder)
        sweep(run.checkpoint.folder)
        if run.manifest.exists():
            checkpoint.drop(run)

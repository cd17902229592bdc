"""One process at a time runs a run, whichever machine it is on.

Several workers may serve one folder: an array of Slurm's, tasks of Ray's, what a driver that was
killed left running. Each claims the runs that it runs: locks of `fcntl` on OUT/.running, a byte for
every run, at a place that follows from its name. Thousands of them need one descriptor, network
file systems have them, and the kernel frees those of a process that is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lcpo.run.store.layout import check_links, running_file
from lcpo.run.store.lock import NO_LOCKS, ORPHANS_SECONDS, is_at

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None


@contextlib.contextmanager
def claimed(out: Path, names: Sequence[str]) -> Iterator[set[str]]:
    """Claim runs; the names of those that no other process runs.

    Waits for a while for those that another process runs: it may be about to end.
    """
    until, mine, descriptor = time.monotonic() + ORPHANS_SECONDS, set[str](), -1
    try:
        while True:
            if descriptor < 0:
                descriptor = _open(out)
            mine |= {name for name in names if name not in mine and _lock(descriptor, name)}
            if not is_at(descriptor, running_file(out)):  # its last user has removed it meanwhile
                os.close(descriptor)
                descriptor, mine = -1, set()
            elif len(mine) == len(set(names)) or time.monotonic() > until:
                break
            else:
                time.sleep(0.1)
        yield mine
    finally:
        if descriptor >= 0:
            _remove_and_close(out, descriptor)


def sweep(out: Path) -> None:
    """Remove the file that a kill left."""
    with contextlib.suppress(OSError):
        _remove_and_close(out, os.open(running_file(out), os.O_RDWR))


def _open(out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    check_links(out, running_file(out))
    return os.open(running_file(out), os.O_RDWR | os.O_CREAT, 0o644)


def _lock(descriptor: int, name: str | None) -> bool:
    """Lock the byte of a run, None: all bytes; whether no other process has it.

    Where there are no locks, `lcpo.run.store.lock` has said so.
    """
    if fcntl is None:
        return True
    place = 0 if name is None else int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    length = 0 if name is None else 1
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def _remove_and_close(out: Path, descriptor: int) -> None:
    """The last one removes the file; closing it frees what this process has locked in it."""
    try:
        if _lock(descriptor, None) and is_at(descriptor, running_file(out)):
            with contextlib.suppress(OSError):  # the folder is read-only now: it is swept away
                running_file(out).unlink()
    finally:
        os.close(descriptor)

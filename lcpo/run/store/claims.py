"""One process at a time executes a run, on any machine.

Several workers may serve one folder: a Slurm array, Ray tasks, workers of a killed driver. Each
claims its runs with `fcntl` locks on OUT/.running, one byte per run at an offset that its name
determines. Thousands of claims need one descriptor, network file systems support them, and the
kernel frees those of a dead process.
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
    """Claim runs; yields the names of those that no other process has, after a short wait."""
    until, mine, descriptor = time.monotonic() + ORPHANS_SECONDS, set[str](), -1
    try:
        while True:
            if descriptor < 0:
                out.mkdir(parents=True, exist_ok=True)
                check_links(out, running_file(out))
                descriptor = os.open(running_file(out), os.O_RDWR | os.O_CREAT, 0o644)
            mine |= {name for name in names if name not in mine and _lock(descriptor, name)}
            if not is_at(descriptor, running_file(out)):  # its last user has removed it
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
    """Remove the file that a killed process left."""
    with contextlib.suppress(OSError):
        _remove_and_close(out, os.open(running_file(out), os.O_RDWR))


def _lock(descriptor: int, name: str | None) -> bool:
    """Lock the byte of a run, or all bytes for None; False if another process has it.

    True without locks: `lcpo.run.store.lock` has told the user.
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
    """Free the claims of this process; the last user removes the file."""
    try:
        if _lock(descriptor, None) and is_at(descriptor, running_file(out)):
            with contextlib.suppress(OSError):  # a read-only folder
                running_file(out).unlink()
    finally:
        os.close(descriptor)

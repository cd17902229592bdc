"""One driver at a time works in an output folder.

The lock is `flock` on OUT/.lock, whose text names the holder. The workers of a driver inherit its
descriptor, so a folder stays locked until the last of them has ended, even if the driver was
killed. The kernel frees the lock of a dead process, and the next driver takes the file over.
Workers that each run a part of a plan share the lock, and leave its file to the next driver.

One process at a time executes a run, on any machine: several workers may serve one folder, such as
a Slurm array, Ray tasks, or workers of a killed driver. Each claims its runs with `fcntl` locks on
OUT/.running, one byte per run at an offset that its name determines. Thousands of claims need one
descriptor, network file systems support them, and the kernel frees those of a dead process.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lcpo.errors import InputError, printable
from lcpo.run.store.layout import check_links, lock_file, running_file
from lcpo.values import INT_MAX

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None

ORPHANS_SECONDS = 10.0
"""How long the workers of a killed driver may take to notice."""
VANISHED_SECONDS = 0.5
"""How long to retry if a folder vanishes while it is created."""
NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_held: dict[Path, int] = {}  # the descriptors of the folders that this process has locked


@contextlib.contextmanager
def locked(out: Path, tell: Callable[[str], None], shared: bool = False) -> Iterator[None]:
    """Hold the lock of an output folder, which is made if needed; `shared`: as one of several.

    Raises InputError if another process holds it, or the folder cannot be written. Folders that it
    made and that stay empty are removed. `tell` receives a note if locks are not supported.
    """
    made: list[Path] = []
    try:
        descriptor = _acquire(out, made, tell, shared)
        try:
            yield
        finally:
            if descriptor is not None:
                _held.pop(out.absolute(), None)
                _close(lock_file(out), descriptor, lambda: not shared)
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


def descriptor_of(out: Path) -> int | None:
    """The descriptor of a lock that this process holds, for workers to inherit."""
    return _held.get(out.absolute())


def inherit(out: Path, descriptor: int) -> None:
    """In a worker: take over the driver's lock, and keep it from child processes."""
    os.set_inheritable(descriptor, False)
    _held[out.absolute()] = descriptor


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error to raise if a file or folder cannot be written."""
    why = error.strerror or str(error)
    return InputError(f"{path} cannot be written ({why}): fix that, or give another folder")


def _acquire(out: Path, made: list[Path], tell: Callable[[str], None], shared: bool) -> int | None:
    """The descriptor of the lock, None without locks; appends to `made` the folders it makes."""
    began, path = time.monotonic(), lock_file(out)
    while True:
        descriptor = _open(out, made, began + VANISHED_SECONDS)
        try:
            _flock(descriptor, shared)
            if is_at(descriptor, path):
                _sign(descriptor)
                _held[out.absolute()] = descriptor
                return descriptor
        except BlockingIOError:
            holder = _read(descriptor)
            if time.monotonic() > began + ORPHANS_SECONDS or not _has_gone(holder):
                os.close(descriptor)
                raise InputError(_refusal(out, holder)) from None
            time.sleep(0.1)
        except OSError as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            if error.errno not in NO_LOCKS:
                raise cannot_write(path, error) from error
            tell(
                f"{out} cannot be locked ({error.strerror}): make sure that no other process uses "
                "it"
            )
            return None
        os.close(descriptor)  # its holder has gone, or is going: try again


def _open(out: Path, made: list[Path], until: float) -> int:
    """Open the lock file. Makes folders again that another, refused driver has just removed."""
    while True:
        try:
            if out.is_file():  # one look: between two, another driver may remove the folder
                raise InputError(f"{out} is a file: give a folder")
            for folder in reversed([f for f in (out, *out.parents) if not f.exists()]):
                folder.mkdir(exist_ok=True)
                made.append(folder)
            check_links(out, lock_file(out))
            return os.open(lock_file(out), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or time.monotonic() > until:
                raise cannot_write(out, error) from error
            time.sleep(0.01)


def _flock(descriptor: int, shared: bool) -> None:
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no flock")
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`: its holder may have removed it."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


class Holder(NamedTuple):
    """Who holds the lock according to the file, which anybody may have written."""

    pid: int
    host: str
    since: str
    command: str


def _sign(descriptor: int) -> None:
    since, command = time.strftime("%Y-%m-%d %H:%M:%S"), shlex.join(sys.orig_argv)
    me = Holder(os.getpid(), socket.gethostname(), since, command)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(me._asdict()).encode(), 0)


def _read(descriptor: int) -> Holder | None:
    """Who holds the lock; None if the file has no valid signature."""
    try:
        found = json.loads(os.pread(descriptor, 1 << 16, 0))
        pid, *texts = (found[name] for name in Holder._fields)
    except (ValueError, RecursionError, TypeError, KeyError, OSError):  # a pipe cannot be read
        return None
    if type(pid) is not int or not 0 < pid <= INT_MAX:
        return None
    return Holder(pid, *(" ".join(printable(str(text)).split())[:200] for text in texts))


def _has_gone(holder: Holder | None) -> bool:
    """Whether the driver has ended, so that its workers soon will, or has not signed yet."""
    if holder is None or holder.host != socket.gethostname():
        return holder is None
    try:
        os.kill(holder.pid, 0)
    except OSError as error:  # any other: the process is another user's
        return isinstance(error, ProcessLookupError)
    return False


def _refusal(out: Path, holder: Holder | None) -> str:
    if holder is None:
        return f"{out} is in use by another process: wait for it, or give another folder"
    pid, host, since, command = holder
    who = f"process {pid}" + (f" on {host}" if host != socket.gethostname() else "")
    if _has_gone(holder):
        who, advice = f"processes that {who} left running", "stop them"
    else:
        advice = "wait for it, stop it"
    return f"{out} is in use by {who} since {since} ({command}): {advice}, or give another folder"


def _close(path: Path, descriptor: int, is_last: Callable[[], bool]) -> None:
    """Free what this process has locked in a file; the last user removes it."""
    try:
        if is_last() and is_at(descriptor, path):
            with contextlib.suppress(OSError):  # a read-only folder: the next user takes it over
                path.unlink()
    finally:
        os.close(descriptor)


def _close_in_child() -> None:
    """A process that is forked from this one does not hold its locks."""
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


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
            mine |= {name for name in names if name not in mine and _claim(descriptor, name)}
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
            _close(running_file(out), descriptor, lambda: _claim(descriptor, None))


def sweep_claims(out: Path) -> None:
    """Remove the file that a killed process left."""
    with contextlib.suppress(OSError):
        descriptor = os.open(running_file(out), os.O_RDWR)
        _close(running_file(out), descriptor, lambda: _claim(descriptor, None))


def _claim(descriptor: int, name: str | None) -> bool:
    """Lock the byte of a run, or all bytes for None; False if another process has it."""
    if fcntl is None:  # `locked` has told the user
        return True
    length, place = 0, 0
    if name is not None:
        length, place = 1, int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True

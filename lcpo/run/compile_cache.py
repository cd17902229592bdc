"""What was compiled once is kept for later processes, in the user's cache folder.

    $XDG_CACHE_HOME/lcpo/jax/MACHINE/*.xla        without that variable: ~/.cache/lcpo/jax/...

JAX has such a cache, and decides what may be found again: its key covers the program, the compiler,
its options and the device. Its files, though, are not written at once: a process that reads while
another writes, or a kill, leaves it with half of one. So JAX is given a folder that keeps each
entry whole, with a digest of it and its key, and no more than `MAX_BYTES` of them. A cache that
cannot be read or written is none, and stops no run. `LCPO_COMPILE_CACHE=0` turns it off; who has
set JAX_COMPILATION_CACHE_DIR has a cache of JAX's own, which is left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import tempfile
from pathlib import Path

import jax

MAX_BYTES = 2**29
"""Of all entries; those that were not used for the longest time are dropped."""
SWITCH = "LCPO_COMPILE_CACHE"
_SUFFIX = ".xla"


class Folder:
    """Entries by key, as JAX asks for them (its `CacheInterface`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = MAX_BYTES  # since the sizes of all entries were last added up

    def get(self, key: str) -> bytes | None:
        """What was put there; None where there is nothing whole."""
        file = self._file(key)
        try:
            content = _read(file)
            digest, value = content[:32], content[32:]
            if _digest(key, value) != digest:
                file.unlink()
                return None
            os.utime(file)
            return value
        except OSError:
            return None

    def put(self, key: str, value: bytes) -> None:
        """Keep it, if the disk lets us."""
        file, unfinished = self._file(key), None
        try:
            descriptor, unfinished = tempfile.mkstemp(dir=self._path)
            with open(descriptor, "wb") as new:
                new.write(_digest(key, value) + value)
            os.replace(unfinished, file)
            self._written += len(value)
            if self._written > MAX_BYTES // 16:  # looking at every entry takes time
                self._shrink()
                self._written = 0
        except OSError:
            if unfinished is not None:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)

    def _file(self, key: str) -> Path:
        return self._path / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _shrink(self) -> None:
        """Drop what was not used for long; others may do so at the same time."""
        found = [(info.st_mtime, info.st_size, path) for path in self._path.iterdir()
                 if (info := _info(path)) is not None]  # fmt: skip
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


def _digest(key: str, value: bytes) -> bytes:
    """Of an entry and its key: a program under another's name is as wrong as a damaged one."""
    return hashlib.sha256(hashlib.sha256(key.encode()).digest() + value).digest()


def _read(file: Path) -> bytes:
    """What an entry holds; nothing where it is no file of ours, such as a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    with open(file, "rb", opener=lambda path, _: os.open(path, flags)) as opened:
        info = os.fstat(opened.fileno())
        is_ours = stat.S_ISREG(info.st_mode) and info.st_size <= MAX_BYTES
        return opened.read() if is_ours else b""


def _info(path: Path) -> os.stat_result | None:
    """Of a regular file; None of anything else, and of one that is gone."""
    with contextlib.suppress(OSError):
        info = path.lstat()
        return info if stat.S_ISREG(info.st_mode) else None
    return None


def folder() -> Path | None:
    """Where entries of this machine are; None where the user wants none, or there is no place.

    They are code that will be run: a folder that somebody else owns, or may write to, is not used.
    """
    if os.environ.get(SWITCH, "1") == "0":
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        path = home / "lcpo" / "jax" / _machine()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        is_mine = not hasattr(os, "getuid") or info.st_uid == os.getuid()
        is_mine &= os.name != "posix" or not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return path if is_mine and os.access(path, os.W_OK) else None
    except (OSError, RuntimeError):  # no home, or a file where the folder would be
        return None


def _machine() -> str:
    """A folder may be shared by machines: code for one's instructions is not for all of them."""
    words = [platform.machine(), platform.system()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", errors="replace") as lines:
        for line in lines:
            if not line.strip():  # the first processor is enough
                break
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                words.append(line.strip())
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


_in_use = False


def use() -> None:
    """Let this process keep what it compiles, and find what others have."""
    global _in_use
    if _in_use or jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore
        return
    if jax.default_backend() != "cpu":  # there it is not measured: JAX's own will do
        return
    path = folder()
    if path is None:
        return
    with contextlib.suppress(ImportError, AttributeError):  # another version of JAX: no cache
        from jax._src import compilation_cache

        assert callable(compilation_cache.get_file_cache)
        compilation_cache.get_file_cache = lambda _: (Folder(path), str(path))  # pyright: ignore
        jax.config.update("jax_compilation_cache_dir", str(path))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
        _in_use = True

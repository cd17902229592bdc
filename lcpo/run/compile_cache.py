"""A compilation cache for later processes, in the user's cache folder.

    $XDG_CACHE_HOME/lcpo/jax/MACHINE/*.xla        without that variable: ~/.cache/lcpo/jax/...

JAX has such a cache, and computes its keys from the program, the compiler, its options and the
device. But it does not write files atomically: a concurrent reader, or a kill, meets half of one.
Here each entry is whole, with a digest of it and its key, and all have at most `MAX_BYTES`. If the
folder cannot be read or written, runs continue without it. `LCPO_COMPILE_CACHE=0` turns it off; if
JAX_COMPILATION_CACHE_DIR is set, JAX's own cache is used as it is.
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

from lcpo.run.store.files import private_folder

MAX_BYTES = 2**29
"""Most bytes of all entries; the least recently used ones are dropped."""
SWITCH = "LCPO_COMPILE_CACHE"


class CacheFolder:
    """Entries by key, as JAX asks for them (its `CacheInterface`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = MAX_BYTES  # since the sizes of all entries were last added up

    def get(self, key: str) -> bytes | None:
        """The entry; None if there is none, or it is damaged."""
        file = self._file(key)
        try:
            info = file.lstat()
            if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
                return None
            content = file.read_bytes()
            digest, value = content[:32], content[32:]
            if _digest(key, value) != digest:
                file.unlink()
                return None
            os.utime(file)
            return value
        except OSError:
            return None

    def put(self, key: str, value: bytes) -> None:
        """Keep an entry, if it can be written."""
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
        return self._path / f"{hashlib.sha256(key.encode()).hexdigest()}.xla"

    def _shrink(self) -> None:
        """Drop the least recently used entries; other processes may do so at the same time."""
        entries = [x for x in os.scandir(self._path) if x.is_file(follow_symlinks=False)]
        total = sum(entry.stat().st_size for entry in entries)
        for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime):
            if total <= MAX_BYTES:
                return
            Path(entry).unlink(missing_ok=True)
            total -= entry.stat().st_size


def _digest(key: str, value: bytes) -> bytes:
    """Digest of an entry and its key: the program of another key is as wrong as a damaged one."""
    return hashlib.sha256(hashlib.sha256(key.encode()).digest() + value).digest()


def folder() -> Path | None:
    """The folder of this machine; None if the cache is off, or the folder cannot be used.

    Entries are code that will be run: a folder that others own, or can write to, is not used.
    """
    if os.environ.get(SWITCH, "1") == "0":
        return None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # no home
        return None
    return private_folder(home / "lcpo" / "jax" / _machine())


def _machine() -> str:
    """Machines may share a folder, and code for one processor does not run on all of them."""
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
    """Use the cache in this process, on a CPU. (On a GPU it is not measured.)"""
    global _in_use
    if _in_use or jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore
        return
    path = folder() if jax.default_backend() == "cpu" else None
    if path is None:
        return
    with contextlib.suppress(ImportError, AttributeError):  # another version of JAX: no cache
        from jax._src import compilation_cache

        assert callable(compilation_cache.get_file_cache)
        compilation_cache.get_file_cache = lambda _: (CacheFolder(path), str(path))  # pyright: ignore
        jax.config.update("jax_compilation_cache_dir", str(path))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
        _in_use = True

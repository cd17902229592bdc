"""Tests run on the CPU unless $JAX_PLATFORMS says otherwise, and compile in haste.

Most of the suite's time would be XLA optimizing programs that run for milliseconds. The user's own
XLA_FLAGS are kept: `XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 make test` acts like another machine.

Compiled programs are kept in ~/.cache/lcpo-tests, for the processes that tests start, for the other
workers of pytest-xdist and for the next run. The library's own cache keeps them: its key covers the
program, JAX's version, the flags and the CPU. Delete the folder to compile everything anew.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from haste import HASTE

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Dtypes and ranks that do not fit raise: a silent float64 or a broadcast axis hides mistakes.
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
if HASTE not in os.environ.get("XLA_FLAGS", ""):  # a worker of pytest-xdist has them already
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {HASTE}".strip()
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # else: a cache of the user's
    os.environ["XDG_CACHE_HOME"] = str(Path.home() / ".cache" / "lcpo-tests")
    # Writing the smallest programs would cost a first run more than reading them saves a second.
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"

for name in ("golden_files", "stopping", "training"):
    pytest.register_assert_rewrite(name)  # they hold assertions, too


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="K/N: a part of the tests, by name")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = map(int, str(config.getoption("part")).split("/"))
    chosen = [i for i in items if zlib.crc32(i.nodeid.encode()) % parts == part - 1]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = chosen


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("dist", "no") == "no":  # else the workers of pytest-xdist do it
        from lcpo.run import compile_cache

        compile_cache.use()


@pytest.fixture(autouse=True, scope="session")
def no_earlier_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Which code of their own earlier tests have run is unknown (`lcpo.run.store.own_code`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_collection_finish() -> None:
    """Leave what the imports made out of every later search for garbage."""
    gc.collect()
    gc.freeze()


MODULES_KEPT = 8
"""Modules whose compiled programs stay in memory; those of all would fill gigabytes."""
_modules = 0


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs() -> Iterator[None]:
    global _modules
    yield
    import jax

    _modules += 1
    if _modules % MODULES_KEPT == 0:
        jax.clear_caches()

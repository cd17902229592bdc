"""Tests run on the CPU unless $JAX_PLATFORMS says otherwise, and compile in haste.

Most of the suite's time would be XLA optimising programs that run for milliseconds. A user's own
XLA_FLAGS hold as well: `XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 make test` is another machine. What is
compiled once is kept for the other tests, and for the processes that they start, until the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import later
import pytest
from haste import HASTE

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Dtypes and ranks that do not fit raise: a silent float64 or a broadcast axis hides mistakes.
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
if HASTE not in os.environ.get("XLA_FLAGS", ""):  # a worker of pytest-xdist has them already
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {HASTE}".strip()

for name in ("agent_contracts", "golden_files", "stopping", "training"):
    pytest.register_assert_rewrite(name)  # they hold assertions, too

MINE = "JAX_COMPILATION_CACHE_DIR" not in os.environ  # else: a worker of pytest-xdist, or a user's
if MINE:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="lcpo-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"


def pytest_unconfigure() -> None:
    if MINE:
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if later.waits(item.nodeid.removeprefix("tests/")):
            item.add_marker("learn")


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs() -> Iterator[None]:
    """They would fill gigabytes by the end of the suite."""
    yield
    import jax

    jax.clear_caches()

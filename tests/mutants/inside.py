"""What runs in a process of its own: pytest, with a copy of the package.

As a plugin of pytest: after the tests it says, in the file $LCPO_IMPORTED, which package ran.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
"""Set before JAX is imported, which is when it reads them: tests/conftest.py comes too late.

Small programs are kept as well: reading one takes a tenth of the time of compiling it."""


def run_pytest(copy: Path, arguments: Sequence[str], said_by: Path) -> None:
    """Exit with pytest's code; what it and the processes of the tests say goes into a file."""
    import pytest

    paths = [str(copy), str(Path(__file__).parent)]
    os.environ.update(
        PYTHONPATH=os.pathsep.join(paths),
        PYTHONDONTWRITEBYTECODE="1",
        LCPO_IMPORTED=str(copy / "imported"),
    )
    sys.dont_write_bytecode = True
    sys.path[:0] = paths
    os.chdir(copy)
    output = os.open(said_by, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.exit(int(pytest.main([*arguments], plugins=[sys.modules[__name__]])))


def pytest_sessionfinish() -> None:
    found = sys.modules["lcpo"].__file__
    assert found is not None
    Path(os.environ["LCPO_IMPORTED"]).write_text(found)

"""A plugin of pytest: after the tests it says, in the file $LCPO_IMPORTED, which package ran."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def pytest_sessionfinish() -> None:
    found = sys.modules["lcpo"].__file__
    assert found is not None
    Path(os.environ["LCPO_IMPORTED"]).write_text(found)

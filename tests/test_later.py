"""The list of tests that wait names tests that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from later import LATER


@pytest.mark.parametrize("name", LATER)
def test_what_waits_is_there(name: str) -> None:
    path, _, test = name.partition("::")
    text = (Path(__file__).parent / path).read_text()
    assert test.partition("[")[0] in text

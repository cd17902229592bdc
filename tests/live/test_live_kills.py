"""Killed at random moments: nothing that was acknowledged is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import live_kills
import pytest


@pytest.mark.learn
@pytest.mark.parametrize("learn", ["now", "background"])
def test_a_killed_agent_loses_and_doubles_nothing(tmp_path: Path, learn: str) -> None:
    found = live_kills.play(tmp_path / "live", observations=600, kills=8, learn=learn)
    assert found.kills == 8
    live_kills.check(tmp_path / "live", found)

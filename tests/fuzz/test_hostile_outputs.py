"""Hostile outputs: nothing is replaced that the command had not written itself."""

from __future__ import annotations

from pathlib import Path

import hostile
import pytest
from hostile import Case

CASES = hostile.cases()
IN_HASTE = 30
"""In `make test`; all of them in `make test-all`."""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every command writes."""
    folder = tmp_path_factory.mktemp("hostile") / "shelf"
    hostile.fill_shelf(folder)
    return folder


def complaints(
    cases: list[Case],
    shelf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    found = []
    for number, case in enumerate(cases):
        here = tmp_path / str(number)
        here.mkdir()
        monkeypatch.chdir(here)
        capsys.readouterr()
        found += hostile.complaints(case, shelf, lambda: capsys.readouterr().err)
    return found


def test_there_are_many() -> None:
    assert len(set(CASES)) == len(CASES) >= 500
    assert {case.command for case in CASES} == hostile.COMMANDS.keys()


def test_some(
    shelf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = CASES[:: len(CASES) // IN_HASTE]
    assert not complaints(cases, shelf, tmp_path, monkeypatch, capsys)


@pytest.mark.learn
def test_all(
    shelf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not complaints(CASES, shelf, tmp_path, monkeypatch, capsys)

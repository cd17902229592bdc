"""Hostile outputs: nothing is replaced that the command had not written itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hostile
import pytest
from hostile import Case

from lcpo.run.store.results import load_results

CASES = hostile.cases()[:800]
IN_HASTE = 15
"""In `make test`; all of them in `make test-slow`."""


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


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=100k none "$DISK" || exit 77
"$@" && exit 1
find "$DISK" -mindepth 1 | grep . && exit 2
mount -o remount,size=20m "$DISK" && "$@" || exit 3
cp -r "$DISK/o" "$KEPT"
"""


@pytest.mark.learn
def test_an_import_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path: Path) -> None:
    """On a real disk that is full: one of memory, in a mount namespace."""
    file, disk, kept = (tmp_path / name for name in ("theirs.csv", "disk", "kept"))
    disk.mkdir()
    steps = range(200, 200_001, 200)
    rows = [f"ppo,pendulum,3,{seed},{step},-1" for seed in range(4) for step in steps]
    file.write_text(hostile.HEAD + "\n".join(rows))
    found = subprocess.run(
        ["unshare", "-m", "sh", "-c", ON_A_SMALL_DISK, "sh", sys.executable, "-m", "lcpo.cli",
         "import", str(file), "--out", str(disk / "o")],
        env={**os.environ, "DISK": str(disk), "KEPT": str(kept)}, capture_output=True, text=True,
    )  # fmt: skip
    if found.returncode in (1, 77) and "ermitted" in found.stderr:
        pytest.skip("this user may not mount anything; the same is tested with a simulated disk")
    assert found.returncode == 0, found
    assert "No space left on device" in found.stderr
    assert len(load_results(kept)) == 4

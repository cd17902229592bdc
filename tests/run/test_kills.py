"""Killed at every file operation, or the disk is full at it: what is there is enough to go on.

The kill is one that cleans nothing up: from that operation on, this process may not touch the
folder any more, as if it were dead. (`test_run.py` kills real processes at random moments.) On a
full disk nothing can be made any more, but files can be renamed and deleted.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stopping import assert_same_results

import lcpo
from lcpo.errors import InputError, RunError
from lcpo.run.drive import group
from lcpo.run.store import segments

WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "open"}
CASES: dict[str, dict[str, Any]] = {
    "lcpo": {"env": "pendulum"},
    "ddqn": {"env": "pendulum", "config": {"batch_size": 32, "random_steps": 40}},
    "prescient-a2c": {"env": "pendulum", "training_steps": 80, "steps": 800},
    "hopper": {"env": "hopper"},
}
SAMPLE = 6


class Killed(BaseException):
    """Not an Exception: nobody handles it."""


class Watch:
    """Counts the operations that change a folder, and kills at one of them."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.count, self.kill_at, self.is_full = 0, -1, False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python with every operation on files, before it."""
        if self.folder is None or event not in WRITES:
            return
        path = arguments[0]
        if not isinstance(path, (str, os.PathLike)) or not str(path).startswith(self.folder):
            return
        if event == "open" and not _changes(arguments[2]):
            return
        if self.is_full and not _makes(event, arguments):
            return
        self.count += 1
        if 0 <= self.kill_at < self.count:
            raise OSError(errno.ENOSPC, "No space left on device") if self.is_full else Killed

    def train(
        self, case: dict[str, Any], out: Path, kill_at: int = -1, is_full: bool = False
    ) -> None:
        """Train in this process, and die at an operation; -1: never."""
        self.folder, self.count, self.kill_at, self.is_full = str(out), 0, kill_at, is_full
        try:
            lcpo.train(
                **{"steps": 160, **case}, trace="revisit", seeds=[0], out=out, workers=0,
                progress=False, checkpoint_seconds=0.0, resume=(out / "plan.json").exists(),
            )  # fmt: skip
        finally:
            self.folder = None


def _changes(flags: Any) -> bool:
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    return isinstance(flags, int) and bool(flags & (writing | os.O_DIRECTORY))


def _makes(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "os.mkdir" or (event == "open" and bool(arguments[2] & os.O_CREAT))


WATCH = Watch()
sys.addaudithook(WATCH)  # for the life of the process: there is no way to take it back


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checkpoints after every second update, segments of a few."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 2)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)
    yield
    WATCH.folder = None


def case_of(name: str) -> dict[str, Any]:
    case = {"agent": "a2c" if name == "hopper" else name, **CASES[name]}
    return {**case, "config": {"hidden": [8, 8], "rollout_length": 20, **case.get("config", {})}}


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def kill_everywhere(
    name: str, tmp_path: Path, most: int | None = None, is_full: bool = False
) -> int:
    """Kill at each operation, or at `most` of them, or let the disk be full there; how many."""
    case, whole = case_of(name), tmp_path / "whole"
    WATCH.train(case, whole, is_full=is_full)
    places = list(range(WATCH.count))
    if most is not None:
        places = random.Random(0).sample(places, most)
    for place in places:
        out = tmp_path / "killed"
        with pytest.raises((InputError, RunError) if is_full else Killed) as told:
            WATCH.train(case, out, kill_at=place, is_full=is_full)
        if is_full:
            began = isinstance(told.value, RunError)
            assert ("no space is left" if began else "No space left") in str(told.value)
        WATCH.train(case, out)
        assert_same_results(whole / "runs", out / "runs")
        odd = files_in(out) ^ files_in(whole)
        assert not odd, f"killed at operation {place}, it leaves or lacks {odd}"
        shutil.rmtree(out, ignore_errors=True)
    return len(places)


@pytest.mark.parametrize("name", ["lcpo", pytest.param("ddqn", marks=pytest.mark.learn)])
def test_killed_at_some_file_operations(name: str, tmp_path: Path) -> None:
    assert kill_everywhere(name, tmp_path, SAMPLE) == SAMPLE


@pytest.mark.learn
def test_the_disk_is_full_at_some_file_operations(tmp_path: Path) -> None:
    assert kill_everywhere("ddqn", tmp_path, 3, is_full=True) == 3


@pytest.mark.learn
@pytest.mark.parametrize("name", ["lcpo", "ddqn", "prescient-a2c"])
def test_the_disk_is_full_at_every_file_operation(name: str, tmp_path: Path) -> None:
    assert kill_everywhere(name, tmp_path, is_full=True) > 10


@pytest.mark.learn
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_file_operation(name: str, tmp_path: Path) -> None:
    if name == "hopper":
        pytest.importorskip("mujoco")
    assert kill_everywhere(name, tmp_path) > 20

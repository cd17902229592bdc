"""A study whose driver and workers are killed at random: its tables are those of an undisturbed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from killing import children, files, kill, resumed, tables, wait_for_a_moment


def command(out: Path) -> list[str]:
    return [
        sys.executable, "-m", "lcpo.cli", "compare", "--env", "grid-world", "--seeds", "2",
        "--agents", "tabular-q,tabular-a2c", "--steps", "400000", "--checkpoint-seconds", "0",
        "--out", str(out), *resumed(out),
    ]  # fmt: skip


def start(out: Path) -> subprocess.Popen:
    return subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.learn
def test_ten_kills_of_driver_and_workers(tmp_path: Path) -> None:
    """A worker that is killed is replaced by its driver; after the driver's end, --resume."""
    whole, out, rng = tmp_path / "whole", tmp_path / "killed", random.Random(3)
    subprocess.run(command(whole), check=True, capture_output=True)
    process, killed = start(out), {"driver": 0, "worker": 0}
    while sum(killed.values()) < 10:
        wait_for_a_moment(out, process, rng)
        assert process.poll() is None, "it ended before the kill: lengthen the runs"
        workers = children(process.pid)
        if workers and rng.random() < 0.6:
            kill(rng.choice(workers))
            killed["worker"] += 1
        else:
            kill(process.pid)
            process.wait()
            killed["driver"] += 1
            process = start(out)
    process.wait()
    assert min(killed.values()) >= 2, killed
    subprocess.run(command(out), check=True, capture_output=True)
    assert tables(out) == tables(whole)
    assert files(out) == files(whole)
    assert len(files(out)) == 8

"""Commands that are killed at random moments, and what they leave."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import subprocess
import time
from pathlib import Path

TIMES = ("seconds",)
"""Columns of tables in which two equal studies differ."""


def resumed(out: Path) -> list[str]:
    return ["--resume"] if (out / "plan.json").exists() else []


def wait_for_a_moment(out: Path, process: subprocess.Popen, rng: random.Random) -> None:
    """A random time while it starts, or after the next one or two checkpoints."""

    def saved() -> set[str]:
        return {str(path) for path in out.glob("runs/*/checkpoint/state-*.npz")}

    if rng.random() < 0.25:
        time.sleep(rng.uniform(0.0, 3.0))
        return
    for _ in range(rng.randint(1, 2)):
        before, until = saved(), time.monotonic() + 60.0
        while saved() <= before and time.monotonic() < until and process.poll() is None:
            time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.1))


def children(pid: int) -> list[int]:
    """Processes that a process has started and that have not ended."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def kill(pid: int) -> None:
    """As `kill -9` does; it may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def tables(out: Path) -> dict[str, list[dict[str, str]]]:
    """The tables of a report, but for times."""
    found = {}
    for name in ("table.csv", "seeds.csv"):
        rows = list(csv.DictReader((out / name).read_text().splitlines()))
        found[name] = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
    return found


def files(out: Path) -> dict[str, bytes]:
    """Records and policies of all runs, byte for byte."""
    return {str(f.relative_to(out)): f.read_bytes() for f in sorted(out.glob("runs/*/*.npz"))}

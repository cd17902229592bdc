"""Runs that are stopped again and again: what checkpoints hold must be all there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lcpo.run.drive import execute
from lcpo.run.events import Crashed, Event, Progress
from lcpo.run.plan.job import Job
from lcpo.run.store.files import load_arrays


class Stop(Exception):
    pass


def ignore(event: Event) -> None:
    """A report for runs that must not break."""
    assert not isinstance(event, Crashed), event.reason


def stop_after(steps: int) -> Any:
    """A report that stops the run this many steps after it began or was resumed."""

    def report(event: Event) -> None:
        if isinstance(event, Progress) and event.step > event.resumed_at + steps:
            raise Stop

    return report


def stops_change_nothing(jobs: list[Job], folder: Path, stop: Any) -> int:
    """Run jobs undisturbed, and from disk again after every stop: same results; how many stops."""
    execute.run_jobs(jobs, folder / "whole", ignore, 1e9)
    stops = 0
    while True:
        try:
            execute.run_jobs(jobs, folder / "cut", stop, -1.0)
            break
        except Stop:
            stops += 1
    assert_same_results(folder / "whole", folder / "cut")
    assert not list(folder.rglob("checkpoint")), "a finished run keeps no checkpoint"
    return stops


def saved(folder: Path, pattern: str = "*.npz") -> dict[str, np.ndarray]:
    """All that a run leaves behind but its wall time."""
    files = sorted(folder.rglob(pattern))
    return {f"{f.parent.name}/{f.name}:{k}": v for f in files for k, v in load_arrays(f).items()}


def assert_same_results(a: Path, b: Path) -> None:
    first, second = saved(a), saved(b)
    assert first.keys() == second.keys()
    assert first
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)

"""How long does a run on the straggler task take, learning included?

    python benchmarks/straggler_runs.py [seeds] [workers]

Microseconds of wall time per step and seed, of LCPO with its constraint always and never active, of
A2C and of a fixed timeout: 10 seeds on all cores by default, the paper's sizes, from the second
chunk on (compiling and the first steps are left out).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.run.engines.engine import run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.events import Event, Progress
from lcpo.run.plan.plan import plan
from lcpo.run.store import record
from lcpo.run.store.results import load_results

UPDATES = 24
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lcpo, active": ("lcpo", {"sigma": 0.0}),
    "lcpo, not active": ("lcpo", {"sigma": 1e6}),
    "a2c": ("a2c", {}),
    "never-hedge": ("never-hedge", {"rollout_length": 4608}),
}


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else None
    for name, (agent, overrides) in CASES.items():
        took, active = measure(agent, overrides, seeds, workers)
        share = "" if active is None else f", active in {100 * active:.0f} % of the updates"
        print(f"{name:18} {took:6.1f} us per step and seed, {seeds} seeds{share}", flush=True)


def measure(
    agent: str, overrides: dict[str, Any], seeds: int, workers: int | None
) -> tuple[float, float | None]:
    jobs = plan(
        agent, "straggler", trace=None, steps=UPDATES * 4608, seeds=seeds, overrides=overrides,
        env_overrides={"workload": "workload-1"},
    )  # fmt: skip
    seen: dict[str, list[tuple[float, int]]] = {}

    def hear(event: Event) -> None:
        if isinstance(event, Progress):
            seen.setdefault(event.job, []).append((time.monotonic(), event.step))

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "runs"
        run_plan(jobs, out, LocalEngine(workers), hear, resume=False)
        active = record.activity(load_results(out)[0].record, after_step=UPDATES * 4608 // 2)
    # Workers start at different times: what counts is the stretch in which all of them run.
    begin = max(times[0][0] for times in seen.values())
    end = min(times[-1][0] for times in seen.values())
    steps = sum(_at(times, end) - _at(times, begin) for times in seen.values())
    return 1e6 * (end - begin) / steps, active


def _at(times: list[tuple[float, int]], moment: float) -> float:
    """Steps that a run had made at a moment between two reports."""
    when, steps = np.array(times).T
    return float(np.interp(moment, when, steps))


if __name__ == "__main__":
    main()

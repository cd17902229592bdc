"""The straggler task with all published faults against recorded windows of that simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_files import cases, load

from lcpo.straggler.jobs import ArrayJobs
from lcpo.straggler.task import FAULTS, NEVER, TIMEOUTS_MS, Straggler
from lcpo.straggler.worlds import StragglerWorlds

pytest.importorskip("numba")

close = np.testing.assert_allclose
SERVERS_TOGETHER = np.r_[np.arange(20).reshape(2, 10).T.ravel(), 20:32]
"""The record has ten queues and then ten averages; here those of a server stand together."""


def recorded_jobs(g: dict[str, np.ndarray]) -> ArrayJobs:
    """All jobs of a record, which walks along its trace more than once, with their coins.

    Those of first copies follow from their service times; those of second copies were written
    down when they finished. One that never did is slow here: then it does not finish either.
    """
    num_jobs = int(g["arrived_count"].sum())
    passes = num_jobs // len(g["sizes"]) + 2
    sizes, gaps = np.tile(g["sizes"], passes), np.tile(g["inter_arrivals"], passes)
    slow = np.ones((len(sizes), 2), bool)
    slow[:num_jobs, 0] = g["arrived_proc_concat"] > 5.0 * sizes[:num_jobs]
    slow[g["job_id"], g["job_instance"]] = g["job_inflated"]
    return ArrayJobs(sizes, gaps, slow)


@cases("straggler_hedge30", "straggler_nohedge", "straggler_random", "straggler_trainwheels")
def test_windows_are_the_published_ones(case: Path) -> None:
    """Observation, 95th percentile, every latency, clock: to 1e-9.

    Where the record obeys the safety rule, the actions are those before it.
    """
    g = load(case)
    np.testing.assert_array_equal(g["timeouts"], TIMEOUTS_MS)
    worlds = StragglerWorlds(Straggler(faults=FAULTS), recorded_jobs(g), 1, [0])
    w = worlds.arrays.world
    assert not worlds.reset(np.ones(1, bool)).any()
    assert not g["obs_after_reset"].any()
    latencies = np.split(g["finished_latency_concat"], np.cumsum(g["finished_count"])[:-1])
    deep, unsafe = False, False
    for t, action in enumerate(g["actions"]):
        step: Any = worlds.step(np.array([[action]]), np.zeros((1, 0)))
        close(worlds.arrays.obs[0], g["obs"][t, SERVERS_TOGETHER], rtol=1e-9, atol=1e-9)
        close(w["p95"][0], g["reward"][t], rtol=1e-9, atol=1e-9)
        close(w["clock"][0], g["curr_time"][t], rtol=1e-9, atol=1e-9)
        close(np.sort(worlds.answers(0)[0]), np.sort(latencies[t]), rtol=1e-9, atol=1e-9)
        assert step.terminated[0] == g["done"][t]
        assert step.weight[0] == (0.0 if unsafe else 1.0)
        close(step.elapsed[0], g["time_elapsed"][t] / 500.0, rtol=1e-6)
        close(step.reward[0], -g["reward"][t] / 1600.0 * (3.0 if deep else 1.0), rtol=1e-6)
        deep, unsafe = g["queue_sizes"][t].max() > 50, bool(g["unsafe"][t])
    if g["tw_rule"]:
        assert (g["actions_applied"] != g["actions"]).sum() > 5
        assert (g["actions_applied"][g["actions_applied"] != g["actions"]] == NEVER).all()
    assert w["hedged"][0] >= (g["job_instance"] == 1).sum()

"""Timeouts by simulation: each is played in its own worlds, and the best is found."""

from __future__ import annotations

import numpy as np
import pytest

from lcpo.straggler import timeouts as hedging
from lcpo.straggler.task import NEVER, Straggler


@pytest.mark.learn
def test_each_timeout_is_played_in_each_seed() -> None:
    """Against a world by itself whose latencies are sorted into five minutes by arrival."""
    task = Straggler(rate=20.0, size=80.0, size_cv=1.5)
    p95 = hedging.fixed_latency(task, 2 * hedging.BUCKET, seeds=(5, 6))
    assert p95.shape == (9, 2, 2)
    for action, seed in ((NEVER, 6), (4, 5)):
        worlds, found = task.open(1, [seed]), []
        worlds.reset(np.ones(1, bool))
        for _ in range(3 * hedging.BUCKET):
            worlds.step(np.array([[action]]), np.zeros((1, 0)))
            found.append(np.stack(worlds.answers(0)))
        latency, arrival = np.concatenate(found, axis=1)
        for bucket in range(2):
            mine = latency[arrival // 300_000.0 == bucket]
            assert len(mine) > 5000
            wanted = np.quantile(mine, 0.95)
            np.testing.assert_allclose(p95[action, seed - 5, bucket], wanted, rtol=0.005)


def test_the_best_of_each_hour() -> None:
    """Six buckets, three an entry; a bucket without requests is passed over."""
    p95 = np.full((9, 2, 6), 100.0)
    p95[2, :, :3], p95[3, :, 3:] = 70.0, 80.0
    p95[5, 0, :2] = 20.0  # on one seed, and not enough
    p95[5, 1, :2] = 300.0
    p95[:, :, 4] = np.nan
    assert hedging.schedule(p95, 3 * hedging.BUCKET) == (2, 3)
    assert hedging.best_fixed(p95) == 2
    p95[:, :, 3:] = np.nan
    assert hedging.schedule(p95, 3 * hedging.BUCKET) == (2, NEVER)


def test_the_table_ends_where_hedging_does_not_pay() -> None:
    loads, multiples = hedging.load_table(
        80.0, 1.5, loads=(0.05, 0.1, 0.6, 0.7), seeds=(0,), num_windows=2 * hedging.BUCKET
    )
    assert loads[-1] == 0.35  # half-way from 0.1 to 0.6
    assert len(loads) == len(multiples)
    assert all(multiple < 1.0 for multiple in multiples)

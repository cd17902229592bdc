"""Latencies of the straggler task from records, with known answers."""

import math

import numpy as np
import pytest

from lcpo.straggler import latency

WINDOWS = 600
"""Of a row: it closes one bucket."""


def record(p95, work=1.0):
    """Rows of 5 minutes; each closes the bucket before its own, whose percentile is given."""
    p95 = np.array([0.0, *p95])
    ones = np.ones(len(p95))
    return {
        "step": WINDOWS * np.arange(1, len(p95) + 1),
        "updates": ones,
        "total_buckets": ones * (np.arange(len(p95)) > 0),
        "total_p95": p95,
        "total_first_ms": ones,
        "total_work_ms": ones * work,
    }


def test_means_are_over_buckets_and_leave_the_warm_up_out():
    found = record([1.0] * 12 + [3.0] * 12, work=1.25)
    assert latency.mean_latency(found) == 2.0
    assert latency.mean_latency(found, after_step=12 * WINDOWS) == 3.0
    assert latency.extra_load(found) == pytest.approx(0.25)
    assert math.isnan(latency.mean_latency(found, after_step=10**9))


def test_a_bucket_without_requests_does_not_count():
    found = record([1.0, 0.0, 3.0])
    found["total_buckets"][2] = 0.0
    assert latency.mean_latency(found) == 2.0


def test_hours():
    found = record([1.0] * 11 + [7.0] + [4.0] * 12)
    hours = latency.by_hour(found, 4)
    assert hours[:2] == pytest.approx([1.5, 4.0])
    assert np.isnan(hours[2:]).all()


def test_worst_hour_and_share():
    never, mine = np.array([1.0, 1.0, 2.0, np.nan]), np.array([9.0, 1.04, 3.0, 1.0])
    assert latency.worst_hour(mine, never, first=1) == 1.5
    assert latency.worse_share(mine, never, first=1) == 0.5


def test_hours_until_better_looks_at_whole_passes():
    fixed = np.full(8, 2.0)
    mine = np.array([9.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert latency.hours_until_better(mine, fixed, stretch=3) == 3
    assert latency.hours_until_better(mine, fixed, stretch=1) == 1
    assert math.isinf(latency.hours_until_better(fixed + 1.0, fixed, stretch=3))
    assert math.isnan(latency.hours_until_better(mine[:2], fixed[:2], stretch=3))

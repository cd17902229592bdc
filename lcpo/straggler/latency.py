"""Latencies of the straggler task, from the records of runs.

A run records, of every 5-minute bucket of requests, percentiles of their latencies, in the window
in which the bucket is closed (docs/envs/straggler.md). All here are means over such buckets, as the
paper's number is: the mean of the 5-minute 95th percentiles.
"""

from __future__ import annotations

import numpy as np

from lcpo.run.store.record import TOTAL, Record
from lcpo.study.measure.measures import Measure
from lcpo.study.measure.stats import NAN

WINDOWS_PER_HOUR = 7200
DELAY = 900  # windows from the middle of a bucket to its closing: a bucket stays open for one more
P95, P99, P999 = "p95", "p99", "p999"
WORSE = 1.05  # an hour is worse than another run's if its latency is more than so many times that


def mean_latency(record: Record, after_step: int = 0, which: str = P95) -> float:
    """Mean over the buckets of requests that arrived after a step, in milliseconds."""
    late = _middle(record) >= after_step
    count = record[TOTAL + "buckets"][late].sum()
    return float(record[TOTAL + which][late].sum() / count) if count > 0 else NAN


def extra_load(record: Record, after_step: int = 0) -> float:
    """Work done for second copies, as a share of that for first ones."""
    late = record["step"] > after_step
    first, all_of_it = (record[TOTAL + name][late].sum() for name in ("first_ms", "work_ms"))
    return float(all_of_it / first - 1.0) if first > 0 else NAN


def by_hour(record: Record, num_hours: int, which: str = P95) -> np.ndarray:
    """[num_hours], mean latency of the requests of each hour; NaN where no bucket was closed."""
    hour = (np.maximum(_middle(record), 0.0) // WINDOWS_PER_HOUR).astype(np.int64)
    inside = hour < num_hours
    total, count = (
        np.bincount(hour[inside], record[TOTAL + name][inside], num_hours)
        for name in (which, "buckets")
    )
    return np.where(count > 0, total / np.maximum(count, 1.0), NAN)


def worst_hour(hours: np.ndarray, other: np.ndarray, first: int = 0) -> float:
    """The largest ratio of the latencies of two runs in an hour, from hour `first` on."""
    ratio = (hours / other)[first:]
    return float(np.nanmax(ratio)) if np.isfinite(ratio).any() else NAN


def worse_share(hours: np.ndarray, other: np.ndarray, first: int = 0) -> float:
    """Share of the hours that are worse than another run's (`WORSE`)."""
    ratio = (hours / other)[first:]
    known = np.isfinite(ratio)
    return float(np.mean(ratio[known] > WORSE)) if known.any() else NAN


def hours_until_better(hours: np.ndarray, other: np.ndarray, stretch: int) -> float:
    """The first hour from which on the mean of `stretch` hours is below another run's.

    `stretch`: a pass of the workload, so that both have met all of it. Infinite: never.
    """
    known = np.isfinite(hours) & np.isfinite(other)
    gain = np.where(known, other - hours, 0.0)
    if len(gain) < stretch or not known.any():
        return NAN
    ahead = np.convolve(gain, np.ones(stretch), "valid") > 0.0
    return float(np.argmax(ahead)) if ahead.any() else float("inf")


def _middle(record: Record) -> np.ndarray:
    """Where the middle of the bucket is that a row closed at its end, in windows."""
    return record["step"].astype(np.float64) - DELAY


MEASURES = (
    Measure("latency", "p95 ms", mean_latency, P95, "p95_ms"),
    Measure("extra_load", "extra load %", extra_load, "work_ms", "extra_load", factor=100.0),
)
"""What every comparison on the task shows."""

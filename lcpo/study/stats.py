"""Intervals over seeds. A number that cannot be had is NaN: one seed has a mean and no interval.

SciPy is imported where it is used: a machine that only runs agents need not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 4000
NAN = float("nan")


class Estimate(NamedTuple):
    """A mean with its interval; `n` values (seeds, or pairs of them) stand behind it."""

    mean: float
    low: float
    high: float
    n: int


def half_width(values: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Of Student's interval of the mean over the first axis: t[n - 1] s / sqrt(n), s unbiased."""
    n = len(values)
    if n < 2:
        return np.full(np.shape(values)[1:], NAN)
    from scipy import stats

    t = stats.t.ppf(0.5 + 0.5 * level, n - 1)
    return t * np.std(values, axis=0, ddof=1) / np.sqrt(n)


def mean_ci(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Estimate:
    """Mean with Student's interval; no value, no mean; one value, no interval (NaN)."""
    x = np.asarray(values, np.float64)
    if len(x) == 0:
        return Estimate(NAN, NAN, NAN, 0)
    mean, half = float(np.mean(x)), float(half_width(x, level))
    return Estimate(mean, mean - half, mean + half, len(x))


def paired_difference(
    a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95
) -> Estimate:
    """Mean of a - b over the seeds that both have; `a` and `b` map seeds to values."""
    return mean_ci([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())], level)


def probability_of_improvement(
    a: Sequence[float], b: Sequence[float], level: float = 0.95, seed: int = 0
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 for X drawn from `a` and Y from `b`: Mann and Whitney's U / (n m).

    The interval is the percentile bootstrap's, `a` and `b` resampled on their own. A run without a
    result may be given as -inf: worse than all others.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    n = min(len(x), len(y))
    if n == 0 or np.isnan(x).any() or np.isnan(y).any():
        return Estimate(NAN, NAN, NAN, n)
    mean = float(_share_won(x, y))
    if n < 2:
        return Estimate(mean, NAN, NAN, n)
    from scipy import stats

    found = stats.bootstrap(
        (x, y), _share_won, n_resamples=RESAMPLES, batch=max(1, 2_000_000 // (len(x) * len(y))),
        vectorized=True, confidence_level=level, method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return Estimate(mean, float(found.low), float(found.high), n)


def _share_won(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    """Share of pairs (x, y) with x > y, ties counted half."""
    del axis  # scipy passes the last one
    x, y = x[..., :, None], y[..., None, :]
    return np.mean((x > y) + 0.5 * (x == y), axis=(-2, -1))

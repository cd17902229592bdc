"""Intervals of few values, such as those of seeds. Two of them have a mean and no interval (NaN).

SciPy is imported on use: machines that only run agents do not need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

NAN = float("nan")
FEWEST = 3
"""Values behind an interval: Student's interval of two is thirteen times as wide as their distance,
and that of a share is nearly all of [0, 1]."""


class Estimate(NamedTuple):
    """A mean with its interval, from `n` values (seeds, or pairs of them)."""

    mean: float
    low: float
    high: float
    n: int


def half_width(values: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Half-width of Student's interval of the mean over the first axis: t[n - 1] s / sqrt(n), s
    unbiased."""
    n = len(values)
    if n < FEWEST:
        return np.full(np.shape(values)[1:], NAN)
    from scipy import special  # and not stats, which takes a second to import

    t = special.stdtrit(n - 1, 0.5 + 0.5 * level)
    return t * np.std(values, axis=0, ddof=1) / np.sqrt(n)


def mean_ci(values: Sequence[float] | np.ndarray, level: float = 0.95) -> Estimate:
    """Mean with Student's interval; no value, no mean; one or two, no interval (NaN)."""
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
    a: Mapping[Any, float], b: Mapping[Any, float], level: float = 0.95
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 for the runs X of `a` and Y of `b` that share a seed, or a trace.

    The mean is the share of common seeds that `a` won, a tie counted half. The interval is Clopper
    and Pearson's, which holds for every number of seeds; ties count as lost for the lower bound and
    as won for the upper one. Fewer than three seeds have none (NaN). A failed run may be -inf.
    """
    seeds = sorted(a.keys() & b.keys())
    x, y = np.array([a[s] for s in seeds]), np.array([b[s] for s in seeds])
    n = len(seeds)
    if n == 0 or np.isnan(x).any() or np.isnan(y).any():
        return Estimate(NAN, NAN, NAN, n)
    won, not_lost = int(np.sum(x > y)), int(np.sum(x >= y))
    mean = 0.5 * (won + not_lost) / n
    if n < FEWEST:
        return Estimate(mean, NAN, NAN, n)
    low, high = share_bounds(won, n, level)[0], share_bounds(not_lost, n, level)[1]
    return Estimate(mean, low, high, n)


def share_bounds(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a probability, from `count` successes in `n` trials.

    All p for which as many or more, and as many or fewer, have a probability of at least
    (1 - level) / 2 each. It holds at least as often as it says, at every n and p.
    """
    from scipy import special

    tail = 0.5 * (1.0 - level)
    low = 0.0 if count == 0 else float(special.betaincinv(count, n - count + 1, tail))
    high = 1.0 if count == n else float(special.betaincinv(count + 1, n - count, 1.0 - tail))
    return low, high

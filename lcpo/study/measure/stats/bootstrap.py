"""Intervals by resampling, over tasks and their seeds.

Two questions, two kinds of interval:

stratified     these tasks, other seeds: each task's seeds are drawn anew, with replacement
hierarchical   other tasks of their kind, other seeds: tasks are drawn anew

The second is for traces that were drawn from a family. It says less than the first of these very
traces, and more of the next one. Bounds are percentiles of what resamples give, except for the
hierarchical interval of the mean. That one is studentised: percentiles are too narrow where the
means of tasks are skewed, as differences between agents often are.

Every interval is a function of its arguments: `seed` is that of the resamples. Tasks must be given
in the same order to get the same interval to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.study.measure.stats.intervals import NAN, Estimate, half_width
from lcpo.study.measure.stats.scores import MEASURES, Measure, Scores, pad

RESAMPLES = 5000
"""The bounds of a 95 % interval then vary with `seed` by about 1 % of its width."""
BLOCK = 1_000_000
"""Values drawn at a time: bounds memory, whatever the number of runs."""
FEWEST_STUDENTISED = 6
"""Tasks behind a studentised interval: at four it is more than twice as wide as Student's."""


def stratified_ci(
    scores: Scores,
    measure: Measure = "mean",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A measure of all tasks (see `aggregate`) with its interval for other seeds of these tasks.

    `mean` of the estimate is the measure, `n` the number of runs. No interval (NaN) where a task
    has one seed only: nothing tells how much seeds differ there.
    """
    return _interval(scores, MEASURES[measure], False, level, resamples, seed)


def hierarchical_ci(
    scores: Scores,
    measure: Measure = "mean",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A measure of all tasks with its interval for other tasks of their kind and other seeds.

    The mean has a symmetric studentised interval over the means of tasks, and Student's where
    there are fewer than six of them; of one or two tasks it has none (NaN). Other measures have
    percentiles of resamples, for which first tasks are drawn and then as many seeds of each as it
    has; of one task they have none. Tasks with one seed each will do. docs/statistics.md says how
    often the intervals hold.
    """
    if measure != "mean":
        return _interval(scores, MEASURES[measure], True, level, resamples, seed)
    table = pad(scores)
    n = sum(map(len, scores.values()))
    if table is None:
        return Estimate(NAN, NAN, NAN, n)
    means = np.nanmean(table, axis=1)
    mean, half = float(np.mean(means)), _half_width(means, level, resamples, seed)
    return Estimate(mean, mean - half, mean + half, n)


def hierarchical_difference(
    a: Mapping[Any, Mapping[int, float]],
    b: Mapping[Any, Mapping[int, float]],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Mean over traces of the mean over seeds of a - b, as `hierarchical_ci`; `n` pairs of runs.

    `a` and `b` map traces to seeds to values. What counts is what both have: a trace without a
    common seed is left out.
    """
    pairs = {
        trace: [a[trace][s] - b[trace][s] for s in sorted(a[trace].keys() & b[trace].keys())]
        for trace in a
        if trace in b
    }
    return hierarchical_ci(pairs, "mean", level, resamples, seed)


def improvement_over_tasks(
    a: Scores, b: Scores, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 for any run X of `a` and any run Y of `b`, mean over common tasks.

    Of a task: U / (n m), with Mann and Whitney's U of its n and m runs. Unlike
    `probability_of_improvement` it pairs no seeds. The interval is stratified, the seeds of both
    drawn independently; one seed of either in a task: none (NaN). `n` counts the runs of `a`.
    """
    tasks = [task for task in a if task in b and len(a[task]) and len(b[task])]
    n = sum(len(a[task]) for task in tasks)
    rng = np.random.default_rng(seed)
    means, drawn, enough = [], np.zeros(resamples), bool(tasks)
    for task in tasks:
        x, y = np.asarray(a[task], np.float64), np.asarray(b[task], np.float64)
        if np.isnan(x).any() or np.isnan(y).any():
            return Estimate(NAN, NAN, NAN, n)
        won = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        means.append(np.mean(won))
        # How often each run is drawn tells all: no resample of pairs is ever made.
        times = [rng.multinomial(k, np.full(k, 1 / k), resamples) / k for k in won.shape]
        drawn += np.einsum("bi,ij,bj->b", times[0], won, times[1], optimize=True) / len(tasks)
        enough = enough and min(won.shape) > 1
    low, high = _percentiles(drawn, level) if enough else (NAN, NAN)
    return Estimate(float(np.mean(means)) if means else NAN, float(low), float(high), n)


class Profile(NamedTuple):
    """The share of runs above each threshold, with a band that holds at each by itself."""

    threshold: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


def performance_profile(
    scores: Scores,
    thresholds: Sequence[float] | np.ndarray,
    draw_tasks: bool = False,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Profile:
    """The share of all runs whose score is greater than each threshold.

    `draw_tasks`: a hierarchical band instead of a stratified one. There is none (NaN) where
    `hierarchical_ci` or `stratified_ci` has none. -inf (a failed run) is above no threshold.
    """
    at = np.asarray(thresholds, np.float64)

    def shares(x: np.ndarray) -> np.ndarray:
        runs = np.sum(~np.isnan(x), axis=(-2, -1))
        above = [np.sum(x > t, axis=(-2, -1)) / runs for t in at]  # NaN is above nothing
        return np.stack(above, axis=-1)

    found = _resampled(scores, shares, draw_tasks, level, resamples, seed) or (NAN, NAN, NAN)
    share, low, high = (np.broadcast_to(x, at.shape) for x in found)
    return Profile(at, share, low, high)


Function = Callable[[np.ndarray], np.ndarray]


def _interval(
    scores: Scores, function: Function, draw_tasks: bool, level: float, resamples: int, seed: int
) -> Estimate:
    found = _resampled(scores, function, draw_tasks, level, resamples, seed) or (NAN, NAN, NAN)
    value, low, high = (float(x) for x in found)
    return Estimate(value, low, high, sum(map(len, scores.values())))


def _resampled(
    scores: Scores, function: Function, draw_tasks: bool, level: float, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """A function of the scores with its bounds; None where it cannot be had."""
    table = pad(scores)
    if table is None:
        return None
    units = table.shape[0] if draw_tasks else np.sum(~np.isnan(table), axis=1).min()
    if units < 2:
        return function(table), np.array(NAN), np.array(NAN)
    drawn = [function(x) for x in _draw(table, draw_tasks, resamples, seed)]
    return function(table), *_percentiles(np.concatenate(drawn), level)


def _half_width(means: np.ndarray, level: float, resamples: int, seed: int) -> float:
    """Of the symmetric studentised interval of a mean: the level's quantile of |t*| s / sqrt(n).

    t* = (m* - m) / (s* / sqrt(n)) of resamples takes the place of Student's t, so that the interval
    widens with the skewness of the values. A resample without spread has an infinite t*. Where that
    happens so often that the quantile is infinite, as with one value that differs from all others,
    there is no interval (NaN).
    """
    n = len(means)
    if not np.isfinite(means).all():
        return NAN
    if n < FEWEST_STUDENTISED or np.ptp(means) == 0.0:
        return float(half_width(means, level))
    x = means - np.mean(means)
    # How often each value is drawn tells all: a resample's mean is a product with these shares.
    shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples) / n
    first = shares @ x
    spread = np.sqrt(np.maximum(shares @ x**2 - first**2, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(spread > 1e-9 * np.std(x), np.abs(first) / spread, np.inf)
    half = np.quantile(t, level, method="inverted_cdf") * np.std(x)
    return float(half) if np.isfinite(half) else NAN


def _draw(table: np.ndarray, draw_tasks: bool, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Resamples of a table as `pad` makes it, like it: [some, tasks, seeds] at a time."""
    rng = np.random.default_rng(seed)
    tasks, runs = table.shape
    size = max(1, BLOCK // table.size)
    for start in range(0, resamples, size):
        shape = (min(size, resamples - start), tasks)
        all_tasks = np.broadcast_to(np.arange(tasks), shape)
        task = rng.integers(tasks, size=shape) if draw_tasks else all_tasks
        count = np.sum(~np.isnan(table), axis=1)[task][..., None]
        run = rng.integers(count, size=(*shape, runs))
        yield np.where(np.arange(runs) < count, table[task[..., None], run], NAN)


def _percentiles(drawn: np.ndarray, level: float) -> np.ndarray:
    """Bounds that are values of resamples: between two infinite ones there is nothing."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(drawn, [tail, 1.0 - tail], axis=0, method="inverted_cdf")

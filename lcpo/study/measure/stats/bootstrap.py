"""Intervals by resampling, over tasks and their seeds.

stratified     for these tasks and other seeds: each task's seeds are resampled
hierarchical   for other tasks of their kind and other seeds: tasks are resampled

The second is for traces drawn from a family: it says less about these traces and more about the
next one. Bounds are percentiles of resamples, except for the hierarchical interval of the mean,
which is studentized: percentiles are too narrow if the means of tasks are skewed, as differences
between agents often are.

`seed` is the seed of the resamples. The same tasks in the same order have the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.core.intervals import NAN, Estimate, half_width
from lcpo.study.measure.stats.scores import MEASURES, Measure, Scores, pad

RESAMPLES = 5000
"""With these, the bounds of a 95 % interval vary with `seed` by about 1 % of its width."""
BLOCK = 1_000_000
"""Values drawn at a time: bounds memory, whatever the number of runs."""
FEWEST_STUDENTISED = 6
"""Tasks behind a studentized interval: at four it is more than twice as wide as Student's."""


def stratified_ci(
    scores: Scores,
    measure: Measure = "mean",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A measure of all tasks (see `aggregate`) with its interval for other seeds of these tasks.

    `mean` of the estimate is the measure, `n` the number of runs. There is no interval (NaN) if a
    task has one seed only.
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

    The mean has a symmetric studentized interval over the means of tasks, Student's below six
    tasks, and none (NaN) below three. Other measures have percentiles of resamples, which draw
    tasks and then as many seeds of each as it has; of one task they have none. One seed per task is
    enough. docs/statistics.md has the coverage of these intervals.
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

    `a` and `b` map traces to seeds to values. Only runs that both have count.
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

    For a task U / (n m), with Mann and Whitney's U of its n and m runs. Unlike
    `probability_of_improvement` it pairs no seeds. The interval is stratified, with the seeds of
    both drawn independently; none (NaN) if a task has one seed of either. `n`: runs of `a`.
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
        # Counts of how often each run is drawn replace resampled pairs.
        times = [rng.multinomial(k, np.full(k, 1 / k), resamples) / k for k in won.shape]
        drawn += np.einsum("bi,ij,bj->b", times[0], won, times[1], optimize=True) / len(tasks)
        enough = enough and min(won.shape) > 1
    low, high = _percentiles(drawn, level) if enough else (NAN, NAN)
    return Estimate(float(np.mean(means)) if means else NAN, float(low), float(high), n)


class PerformanceProfile(NamedTuple):
    """The share of runs above each threshold, with a pointwise band."""

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
) -> PerformanceProfile:
    """The share of all runs whose score is greater than each threshold.

    `draw_tasks`: a hierarchical band instead of a stratified one. A failed run may be -inf.
    """
    at = np.asarray(thresholds, np.float64)

    def shares(x: np.ndarray) -> np.ndarray:
        runs = np.sum(~np.isnan(x), axis=(-2, -1))
        above = [np.sum(x > t, axis=(-2, -1)) / runs for t in at]  # NaN is above nothing
        return np.stack(above, axis=-1)

    found = _resampled(scores, shares, draw_tasks, level, resamples, seed) or (NAN, NAN, NAN)
    share, low, high = (np.broadcast_to(x, at.shape) for x in found)
    return PerformanceProfile(at, share, low, high)


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
    """A function of the scores with its bounds; None without scores."""
    table = pad(scores)
    if table is None:
        return None
    units = table.shape[0] if draw_tasks else np.sum(~np.isnan(table), axis=1).min()
    if units < 2:
        return function(table), np.array(NAN), np.array(NAN)
    drawn = [function(x) for x in _draw(table, draw_tasks, resamples, seed)]
    return function(table), *_percentiles(np.concatenate(drawn), level)


def _half_width(means: np.ndarray, level: float, resamples: int, seed: int) -> float:
    """Half-width of the symmetric studentized interval of a mean: the level's quantile of |t*| s /
    sqrt(n).

    t* = (m* - m) / (s* / sqrt(n)) of resamples replaces Student's t, so that the interval widens
    with skewness. A resample without spread has an infinite t*; if the quantile is infinite, as
    with one value that differs from all others, there is no interval (NaN).
    """
    n = len(means)
    if not np.isfinite(means).all():
        return NAN
    if n < FEWEST_STUDENTISED or np.ptp(means) == 0.0:
        return float(half_width(means, level))
    x = means - np.mean(means)
    # A resample's mean is a product with the shares in which its values are drawn.
    shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples) / n
    first = shares @ x
    spread = np.sqrt(np.maximum(shares @ x**2 - first**2, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(spread > 1e-9 * np.std(x), np.abs(first) / spread, np.inf)
    half = np.quantile(t, level, method="inverted_cdf") * np.std(x)
    return float(half) if np.isfinite(half) else NAN


def _draw(table: np.ndarray, draw_tasks: bool, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Resamples of a table as `pad` makes it, [some, tasks, seeds] at a time."""
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
    """Bounds are values of resamples: one cannot interpolate between infinite ones."""
    tail = 0.5 * (1.0 - level)
    return np.quantile(drawn, [tail, 1.0 - tail], axis=0, method="inverted_cdf")

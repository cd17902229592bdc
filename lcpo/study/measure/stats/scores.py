"""One number of many: scores of several tasks and seeds, put on one scale and aggregated.

`Scores` maps a task (a trace, or an environment and a trace) to the values of its seeds. Tasks may
have different numbers of seeds; one without any is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from lcpo.core.intervals import NAN

Scores = Mapping[Any, Sequence[float] | np.ndarray]
Measure = Literal["mean", "median", "iqm", "optimality-gap"]
OPTIMAL = 1.0
"""The normalised score from which on the optimality gap is 0."""


def bounds(means: Iterable[float]) -> tuple[float, float]:
    """The paper's scale of a task: the least and the greatest mean return of its agents.

    Agents without a mean (NaN) are left out; without any, both are NaN.
    """
    known = [m for m in means if m == m]
    return (min(known), max(known)) if known else (NAN, NAN)


def normalised(values: ArrayLike, low: float, high: float) -> np.ndarray:
    """(x - low) / (high - low): 0 at `low`, 1 at `high`, beyond them where x is; not clipped.

    As in the paper: `normalised(x, *bounds(means of all agents on the task))`. Independent of the
    other agents: `low` the return of random actions, `high` the best prescient agent's. NaN if both
    are equal.
    """
    x = np.asarray(values, np.float64)
    return np.full(x.shape, NAN) if high == low else (x - low) / (high - low)


def iqm(values: ArrayLike) -> float:
    """Inter-quartile mean: without the floor(n / 4) least and as many greatest of n values.

    Of fewer than 4 values it is the mean; of none, or with a NaN among them, NaN.
    """
    x = np.ravel(np.asarray(values, np.float64))
    return NAN if len(x) == 0 or np.isnan(x).any() else float(_iqm(x[None]))


def aggregate(scores: Scores, measure: Measure = "mean") -> float:
    """Aggregate over all tasks and seeds, by a measure.

    "mean"             over tasks of the mean over seeds
    "median"           over tasks of the mean over seeds
    "iqm"              `iqm` of all runs
    "optimality-gap"   1 - mean over all runs of min(x, 1): what is lacking to 1
    """
    table = pad(scores)
    return NAN if table is None else float(MEASURES[measure](table))


def pad(scores: Scores) -> np.ndarray | None:
    """[tasks, seeds], filled up with NaN; None where there is no value, or one that is NaN."""
    rows = [np.asarray(x, np.float64) for x in scores.values() if len(x)]
    if not rows or any(np.isnan(row).any() for row in rows):
        return None
    table = np.full((len(rows), max(map(len, rows))), NAN)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


# Measures take [..., tasks, seeds] as `pad` fills it, and give [...]: all resamples at once.


def _task_means(x: np.ndarray) -> np.ndarray:
    return np.nanmean(x, axis=-1)


def _iqm(x: np.ndarray) -> np.ndarray:
    runs = np.sort(x.reshape(*x.shape[:-2], -1), axis=-1)  # the NaNs last
    n = np.sum(~np.isnan(runs), axis=-1, keepdims=True)
    place = np.arange(runs.shape[-1])
    kept = (place >= n // 4) & (place < n - n // 4)
    return np.sum(runs, axis=-1, where=kept) / np.sum(kept, axis=-1)


MEASURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda x: np.mean(_task_means(x), axis=-1),
    "median": lambda x: np.median(_task_means(x), axis=-1),
    "iqm": _iqm,
    "optimality-gap": lambda x: OPTIMAL - np.nanmean(np.minimum(x, OPTIMAL), axis=(-2, -1)),
}

"""Our statistics over tasks against rliable's: `make test-peers`, in an environment of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lcpo.study.measure import stats
from lcpo.study.measure.stats.scores import Measure

metrics: Any = pytest.importorskip("rliable.metrics")
library: Any = pytest.importorskip("rliable.library")

RESAMPLES = 10_000
THEIRS = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "iqm": metrics.aggregate_iqm,
    "optimality-gap": metrics.aggregate_optimality_gap,
}


def draw(seeds: int = 7, tasks: int = 6, shift: float = 0.0, decimals: int = 1) -> np.ndarray:
    """[seeds, tasks], as rliable wants them; of few decimals, so that there are ties."""
    rng = np.random.default_rng(0)
    values = 0.7 + shift + 0.4 * rng.standard_normal(tasks) + rng.gamma(1.0, 0.3, (seeds, tasks))
    return np.round(values, decimals)


def by_task(scores: np.ndarray) -> dict[int, np.ndarray]:
    return dict(enumerate(scores.T))


@pytest.fixture(autouse=True)
def _same_resamples_each_time() -> None:
    np.random.seed(0)  # rliable draws from the global generator


@pytest.mark.parametrize(
    ("measure", "draw_tasks"),
    [  # the mean over drawn tasks has a studentised interval, which rliable does not have
        (measure, tasks) for measure in THEIRS for tasks in (False, True)
        if not (measure == "mean" and tasks)
    ],
)  # fmt: skip
def test_aggregates_and_their_intervals(measure: Measure, draw_tasks: bool) -> None:
    """Values to rounding; bounds to a few per cent of the width, as two draws of resamples do."""
    scores = draw(decimals=4)
    point, interval = library.get_interval_estimates(
        {"x": scores},
        lambda x: np.array([THEIRS[measure](x)]),
        task_bootstrap=draw_tasks,
        reps=RESAMPLES,
    )
    ours = (stats.hierarchical_ci if draw_tasks else stats.stratified_ci)(
        by_task(scores), measure, resamples=RESAMPLES
    )
    assert ours.mean == pytest.approx(point["x"][0], rel=1e-12)
    (low,), (high,) = interval["x"]
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.04 * (high - low))


def test_probability_of_improvement() -> None:
    x, y = draw(), draw(seeds=5, shift=-0.1)
    point, interval = library.get_interval_estimates(
        {"xy": [x, y]},
        lambda a, b: np.array([metrics.probability_of_improvement(a, b)]),
        reps=1000,  # theirs is slow
    )
    ours = stats.improvement_over_tasks(by_task(x), by_task(y), resamples=RESAMPLES)
    assert ours.mean == pytest.approx(point["xy"][0], rel=1e-12)
    (low,), (high,) = interval["xy"]
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.08 * (high - low))


def test_performance_profile() -> None:
    scores, thresholds = draw(), np.linspace(0.0, 2.0, 21)
    share, band = library.create_performance_profile({"x": scores}, thresholds, reps=2000)
    ours = stats.performance_profile(by_task(scores), thresholds, resamples=2000)
    assert ours.share == pytest.approx(share["x"])
    run = 1.0 / scores.size  # shares of resamples are multiples of it: bounds may be one apart
    assert ours.low == pytest.approx(band["x"][0], abs=run + 1e-9)
    assert ours.high == pytest.approx(band["x"][1], abs=run + 1e-9)

"""Intervals against worked numbers, and their coverage by simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from each import for_each
from scipy import stats as scipy_stats

from lcpo.study.measure.stats import (
    half_width,
    mean_ci,
    paired_difference,
    probability_of_improvement,
    share_bounds,
)


def test_mean_ci_worked() -> None:
    """t[0.975, 3] = 3.182446, s = sqrt(5 / 3): half-width 3.182446 * 1.290994 / 2 = 2.054260."""
    found = mean_ci([1.0, 2.0, 3.0, 4.0])
    assert found == pytest.approx((2.5, 0.445740, 4.554260, 4), abs=1e-6)
    narrower = mean_ci([1.0, 2.0, 3.0, 4.0], level=0.8)  # t[0.9, 3] = 1.637744
    assert narrower.high == pytest.approx(2.5 + 1.637744 * 1.290994 / 2, abs=1e-6)


def test_too_few_values_have_no_interval() -> None:
    one = mean_ci([-373.0])
    assert (one.mean, one.n) == (-373.0, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    none = mean_ci([])
    assert none.n == 0
    assert math.isnan(none.mean)
    assert half_width(np.ones((1, 3))).shape == (3,)
    assert np.isnan(half_width(np.ones((1, 3)))).all()


def test_mean_ci_covers_the_mean() -> None:
    """In 95 % of samples; the normal quantile in place of Student's would reach 88 % at n = 5."""
    rng = np.random.default_rng(0)
    samples = 3.0 + 2.0 * rng.standard_normal((5, 4000))
    covered = np.abs(samples.mean(axis=0) - 3.0) <= half_width(samples)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)
    first = mean_ci(samples[:, 0])
    assert first.high - first.mean == pytest.approx(half_width(samples)[0])


def test_paired_difference_takes_common_seeds() -> None:
    a, b = {0: 1.0, 1: 5.0, 2: 9.0, 7: 100.0}, {2: 6.0, 1: 3.0, 0: 0.0, 8: -100.0}
    assert paired_difference(a, b) == mean_ci([1.0, 2.0, 3.0])
    assert paired_difference(a, b).n == 3
    assert paired_difference({0: 1.0}, {1: 1.0}).n == 0


def test_pairing_removes_what_seeds_share() -> None:
    rng = np.random.default_rng(0)
    luck, noise = 10.0 * rng.standard_normal(16), 0.1 * rng.standard_normal(16)
    a, b = dict(enumerate(luck + 1.0 + noise)), dict(enumerate(luck))
    assert paired_difference(a, b).low > 0.8
    assert mean_ci(list(a.values())).low < mean_ci(list(b.values())).high


def by_seed(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


@for_each(
    "a, b, expected",
    [
        # All won: low = 0.025 ** (1 / n). None won: the mirror image.
        ([3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0], (1.0, 0.3976, 1.0, 4)),
        ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0], (0.0, 0.0, 0.6024, 4)),
        # 2 of 4 won: the published interval is 6.76 % to 93.24 %.
        ([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], (0.5, 0.0676, 0.9324, 4)),
        # By seed: 1, 2 and 3 lie above 0, 1 and 2, although 2 of the 9 pairs are lost.
        ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], (1.0, 0.2924, 1.0, 3)),
        # A tie counts half; it is lost for the lower bound and won for the upper.
        ([5.0, 5.0, 5.0], [5.0, 5.0, 5.0], (0.5, 0.0, 1.0, 3)),
        ([5.0, 6.0, 6.0, 6.0], [5.0, 5.0, 5.0, 5.0], (0.875, 0.1941, 1.0, 4)),
        ([1.0, -np.inf, 2.0, 0.0], [0.0, 0.5, 1.0, 1.0], (0.5, 0.0676, 0.9324, 4)),
        ([-np.inf] * 3, [-np.inf] * 3, (0.5, 0.0, 1.0, 3)),
    ],
)
def test_probability_of_improvement_worked(
    a: list[float], b: list[float], expected: tuple[float, float, float, int]
) -> None:
    found = probability_of_improvement(by_seed(a), by_seed(b))
    assert found == pytest.approx(expected, abs=1e-4)
    mean, low, high, n = expected
    reverse = probability_of_improvement(by_seed(b), by_seed(a))
    assert reverse == pytest.approx((1.0 - mean, 1.0 - high, 1.0 - low, n), abs=1e-4)


def test_two_seeds_support_no_interval() -> None:
    """A mean and a share, but no bounds; three have them."""
    for n in (1, 2, 3):
        values = np.arange(float(n))
        better = probability_of_improvement(by_seed([*(values + 1.0)]), by_seed([*values]))
        for found in (mean_ci(values), better):
            assert found.n == n
            assert not math.isnan(found.mean)
            assert math.isnan(found.low) == math.isnan(found.high) == (n < 3)
        assert np.isnan(half_width(np.stack([values, values], axis=1))).all() == (n < 3)


def test_probability_of_improvement_takes_common_seeds() -> None:
    a, b = {0: 1.0, 1: 5.0, 7: 100.0}, {1: 3.0, 0: 2.0, 8: -100.0}
    assert probability_of_improvement(a, b)[::3] == (0.5, 2)
    for x, y in (({0: 1.0}, {1: 1.0}), ({0: math.nan}, {0: 1.0})):
        assert math.isnan(probability_of_improvement(x, y).mean)
        assert math.isnan(probability_of_improvement(x, y).low)


def test_bounds_of_a_share_agree_with_scipy() -> None:
    for count, n in ((0, 4), (3, 8), (16, 16)):
        theirs = scipy_stats.binomtest(count, n).proportion_ci(0.9, method="exact")
        assert share_bounds(count, n, 0.9) == pytest.approx((theirs.low, theirs.high))


def draw_pairs(
    rng: np.random.Generator, kind: str, p: float, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Runs X and Y with P(X > Y) + P(X = Y) / 2 = p."""
    if kind == "skewed":  # exponentials, of which X's is p / (1 - p) times as long
        return rng.exponential(p / (1.0 - p), shape), rng.exponential(1.0, shape)
    if kind == "ties":  # X - Y is -1, 0 or 1; 0 with probability 2 (1 - p) 0.6
        tie = 1.2 * (1.0 - p)
        signs = rng.choice([1.0, 0.0, -1.0], shape, p=[p - 0.5 * tie, tie, 1.0 - p - 0.5 * tie])
        return signs, np.zeros(shape)
    luck = 3.0 * rng.standard_normal(shape) if kind == "correlated" else 0.0
    shift = math.sqrt(2.0) * scipy_stats.norm.ppf(p)
    return shift + rng.standard_normal(shape) + luck, rng.standard_normal(shape) + luck


@for_each("n", [4, 8, 16])
@for_each("p", [0.5, 0.9, 0.95])
@for_each("kind", ["independent", "correlated", "skewed", "ties"])
def test_probability_of_improvement_covers_the_truth(kind: str, p: float, n: int) -> None:
    """In 95 % of samples or more; the percentile bootstrap over all pairs reaches 61 % at n = 4."""
    x, y = draw_pairs(np.random.default_rng(0), kind, p, (400, n))
    found = [probability_of_improvement(by_seed(a), by_seed(b)) for a, b in zip(x, y, strict=True)]
    assert np.mean([e.mean for e in found]) == pytest.approx(p, abs=0.06)
    assert np.mean([e.low <= p <= e.high for e in found]) >= 0.93

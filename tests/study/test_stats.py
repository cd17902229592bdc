"""Intervals against worked numbers, and their coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from lcpo.study.stats import (
    Estimate,
    half_width,
    mean_ci,
    paired_difference,
    probability_of_improvement,
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


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([3.0, 4.0], [1.0, 2.0], 1.0),
        ([1.0, 2.0], [3.0, 4.0], 0.0),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 0.5),
        ([5.0, 5.0], [5.0, 5.0], 0.5),
        ([1.0, 3.0], [2.0, 4.0], 0.25),
        ([2.0, 2.0, 0.0], [2.0, 1.0], 0.5),  # 2 ties, 2 wins of 6
        ([1.0, -np.inf], [0.0, 0.5], 0.5),
        ([-np.inf, -np.inf], [-np.inf, -np.inf], 0.5),
    ],
)
def test_probability_of_improvement_worked(a: list[float], b: list[float], expected: float) -> None:
    found = probability_of_improvement(a, b)
    assert found.mean == expected
    assert found.low <= expected <= found.high
    reverse = probability_of_improvement(b, a)
    assert reverse.mean == pytest.approx(1.0 - expected)


def test_probability_of_improvement_is_mann_whitney_s() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 9, 13).astype(float), rng.integers(2, 11, 17).astype(float)
    found = probability_of_improvement(a.tolist(), b.tolist())
    u = scipy_stats.mannwhitneyu(a, b).statistic
    assert found.mean == pytest.approx(u / (13 * 17))
    assert found.n == 13
    assert found == probability_of_improvement(a.tolist(), b.tolist())
    assert found.low != probability_of_improvement(a.tolist(), b.tolist(), level=0.5).low


def test_probability_of_improvement_without_interval() -> None:
    one = probability_of_improvement([2.0], [1.0, 3.0])
    assert (one.mean, one.n) == (0.5, 1)
    assert math.isnan(one.low)
    for a, b in (([], [1.0]), ([1.0, math.nan], [1.0, 2.0])):
        found: Estimate = probability_of_improvement(a, b)
        assert math.isnan(found.mean)


def test_probability_of_improvement_covers_the_truth() -> None:
    """P(N(0.5, 1) > N(0, 1)) = Phi(0.5 / sqrt 2) = 0.638; the percentile bootstrap is a bit narrow
    at 16 seeds."""
    rng = np.random.default_rng(0)
    truth = scipy_stats.norm.cdf(0.5 / math.sqrt(2.0))
    intervals = [
        probability_of_improvement(
            (0.5 + rng.standard_normal(16)).tolist(), rng.standard_normal(16).tolist()
        )
        for _ in range(150)
    ]
    covered = np.mean([e.low <= truth <= e.high for e in intervals])
    assert 0.88 <= covered <= 0.99

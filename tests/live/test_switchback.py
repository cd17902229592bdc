"""Switchback: the draw of blocks, and an interval that covers under correlated rewards."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import lfilter

from lcpo.core.intervals import mean_ci
from lcpo.errors import InputError
from lcpo.live.switchback import Switchback, Total, estimate, gather


@pytest.mark.parametrize(
    ("share", "group"), [(0.5, 2), (0.25, 4), (0.1, 10), (0.6, 5), (1 / 3, 3), (0.05, 20)]
)
def test_every_group_has_its_share_of_blocks_in_random_order(share: float, group: int) -> None:
    design = Switchback(60.0, share, seed=3)
    assert design.group == group
    drawn = np.array([design.is_policys(b) for b in range(-100 * group, 100 * group)])
    by_group = drawn.reshape(200, group)
    assert (by_group.sum(axis=1) == round(share * group)).all()
    assert len(np.unique(by_group, axis=0)) > 1
    by_place = by_group.mean(axis=0)
    assert np.all(abs(by_place - share) < 5 * math.sqrt(share * (1 - share) / 200))
    again = Switchback(60.0, share, seed=3)
    assert [again.is_policys(b) for b in range(50)] == drawn[100 * group :][:50].tolist()
    other = Switchback(60.0, share, seed=4)
    assert [other.is_policys(b) for b in range(-100, 100)] != [
        design.is_policys(b) for b in range(-100, 100)
    ]


def test_the_draw_is_the_same_in_every_version() -> None:
    design = Switchback(60.0, 0.5, seed=0)
    assert [int(design.is_policys(b)) for b in range(12)] == DRAWN


DRAWN = [1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1]


def test_times_belong_to_blocks() -> None:
    design = Switchback(10.0, burn_in=3.0)
    assert [design.block(t) for t in (0.0, 9.99, 10.0, -0.1)] == [0, 0, 1, -1]
    assert [design.counts(t) for t in (0.0, 2.9, 3.0, 9.9, 10.0, 13.0)] == [
        False, False, True, True, False, True,
    ]  # fmt: skip


def test_the_estimate_against_numbers_by_hand() -> None:
    design = Switchback(10.0)
    signs = [design.is_policys(b) for b in range(8)]
    means = [1.0, 2.0, 4.0, 3.0, 7.0, 7.5, 9.0, 9.0]
    blocks = {b: Total(b + 1, (b + 1) * mean) for b, mean in enumerate(means)}
    differences = []
    for pair in range(3):
        one, other = 2 * pair, 2 * pair + 1
        policy, incumbent = (one, other) if signs[one] else (other, one)
        differences.append(means[policy] - means[incumbent])
    del blocks[7]
    found = estimate(design, blocks)
    assert found.difference == mean_ci(differences)
    assert found.difference.n == 3
    assert found.num_left_out == 1
    assert found.policy - found.incumbent == pytest.approx(found.difference.mean)
    assert found.policy + found.incumbent == pytest.approx(2 * np.mean(means[:6]))
    assert estimate(design, blocks, before=5).difference.n == 2
    nothing = estimate(design, {0: Total()})
    assert math.isnan(nothing.policy)
    assert (nothing.difference.n, nothing.num_left_out) == (0, 0)


def test_rewards_are_gathered_by_block_without_burn_in() -> None:
    design, rng = Switchback(7.0, burn_in=2.0), np.random.default_rng(0)
    times, rewards = np.sort(rng.uniform(-20, 200, 500)), rng.normal(size=500)
    slow: dict[int, Total] = {}
    for time, reward in zip(times.tolist(), rewards.tolist(), strict=True):
        if design.counts(time):
            block = design.block(time)
            slow[block] = slow.get(block, Total()).add(reward)
    found = gather(design, times, rewards)
    assert found.keys() == slow.keys()
    for block, total in slow.items():
        assert found[block].number == total.number
        assert found[block].sum == pytest.approx(total.sum)


MINUTES = 60
"""Steps of a block."""
REPETITIONS = 500


def ar1(rng: np.random.Generator, count: int, rho: float) -> np.ndarray:
    noise = rng.normal(size=count + 500) * math.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise))[500:]


def cycle(rng: np.random.Generator, count: int) -> np.ndarray:
    day = np.sin(2 * np.pi * (np.arange(count) / 1440 + rng.uniform()))
    return 3.0 * day + ar1(rng, count, 0.99)


WORLDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "independent": lambda rng, count: ar1(rng, count, 0.0),
    "correlated": lambda rng, count: ar1(rng, count, 0.99),
    "longer than a block": lambda rng, count: ar1(rng, count, 0.999),
    "a daily cycle": cycle,
}


def coverage(world: str, share: float, groups: int, repetitions: int = REPETITIONS) -> float:
    """How often the interval holds the true difference, 0.2."""
    rng, held = np.random.default_rng(5), 0
    for seed in range(repetitions):
        design = Switchback(float(MINUTES), share, seed=seed)
        count = groups * design.group * MINUTES
        numbers = np.arange(count) // MINUTES
        policy = np.array([design.is_policys(b) for b in range(groups * design.group)])
        rewards = WORLDS[world](rng, count) + 0.2 * policy[numbers]
        low, high = estimate(design, gather(design, np.arange(float(count)), rewards))[2][1:3]
        held += low <= 0.2 <= high
    return held / repetitions


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("share", "groups"), [(0.5, 24), pytest.param(0.25, 16, marks=pytest.mark.learn)]
)
def test_the_interval_covers_as_often_as_it_says(world: str, share: float, groups: int) -> None:
    assert 0.93 <= coverage(world, share, groups) <= 0.97


def test_an_interval_over_steps_would_not_cover() -> None:
    """What the blocks are for: steps are correlated, and a naive interval is far too narrow."""
    rng, held, count = np.random.default_rng(0), 0, 24 * 2 * MINUTES
    for seed in range(100):
        design = Switchback(float(MINUTES), seed=seed)
        policy = np.array([design.is_policys(b) for b in range(48)])[np.arange(count) // MINUTES]
        rewards = WORLDS["correlated"](rng, count)
        one, other = rewards[policy], rewards[~policy]
        error = math.sqrt(one.var() / len(one) + other.var() / len(other))
        held += abs(one.mean() - other.mean()) <= 1.96 * error
    assert held < 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0.0}, "length"),
        ({"length": math.nan}, "length"),
        ({"length": 10.0, "share": 0.0}, "share"),
        ({"length": 10.0, "share": 1.0}, "share"),
        ({"length": 10.0, "share": 0.123}, "denominator"),
        ({"length": 10.0, "burn_in": 10.0}, "burn_in"),
        ({"length": 10.0, "burn_in": -1.0}, "burn_in"),
        ({"length": 10.0, "seed": -1}, "seed"),
    ],
)
def test_designs_that_make_no_sense_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Switchback(**options)

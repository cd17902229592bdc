"""Signs that an agent cannot learn any more, on numbers that are worked out by hand."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from each import for_each

from lcpo.agents import normalise
from lcpo.core import buffers, health, stats
from lcpo.types import Transition

ONES = np.ones((10, 2), np.float32)


def batch(reward: Any, obs: Any = None) -> Transition:
    obs = np.zeros((*np.shape(reward), 3)) if obs is None else obs
    rest: Any = (None,) * 5
    return Transition(
        jnp.asarray(obs, jnp.float32), None, jnp.asarray(reward, jnp.float32),  # pyright: ignore
        jnp.asarray(obs, jnp.float32), *rest,
    )  # fmt: skip


def put(values: np.ndarray, value: float) -> np.ndarray:
    values = values.copy()
    values[5, 1] = value
    return values


def sign(name: str, given: Transition, **metrics: float) -> float:
    held = {k: jnp.float32(v) for k, v in metrics.items()}
    return float(health.signs(given, held, reads_obs=True)[name])


@pytest.mark.parametrize(
    ("rewards", "found"),
    [
        (ONES, 0.0),
        (put(ONES, 1e10), 1e10),
        (put(-ONES, -3e38), 3e38),
        (put(ONES, 0.9e8), 0.0),  # tolerable beside ones
        (1e30 * ONES, 0.0),  # all are as large
        (put(1e5 * ONES, 2e9), 2e9),
        (put(1e5 * ONES, 5e8), 0.0),  # less than ten thousand times as large
        (put(0.0 * ONES, 1e10), 0.0),  # nothing can vanish beside it
        (put(put(ONES, 1e19)[::-1], 1e19), 1e19),  # nor do two hide each other
    ],
)
def test_a_reward_beside_which_the_others_vanish(rewards: np.ndarray, found: float) -> None:
    assert sign(health.REWARD, batch(rewards)) == np.float32(found)


@pytest.mark.parametrize(
    ("rewards", "scale", "is_gone"),
    [
        (ONES, 0.5, False),
        (ONES, 1e-8, True),
        (ONES, 0.0, True),
        (1e10 * ONES, 1e-10, False),
        (1e-9 * ONES, 0.5, False),  # small they were before
        (0.0 * ONES, 1e-12, False),  # nothing to lose
        (put(0.0 * ONES, 1.0), 1e-12, True),
        (1e38 * ONES, 1e-15, True),  # beyond what statistics hold
    ],
)
def test_a_divisor_that_leaves_nothing_of_the_rewards(
    rewards: np.ndarray, scale: float, is_gone: bool
) -> None:
    found = sign(health.DIVISOR, batch(rewards), reward_scale=scale)
    assert (found != 0.0) == is_gone
    assert sign(health.DIVISOR, batch(rewards)) == 0.0  # of an agent that divides by nothing


def test_what_networks_cannot_read() -> None:
    for place in ((5, 1, 2), (9, 0, 0)):
        for value in (1e10, -3e38):
            obs = np.zeros((10, 2, 3), np.float32)
            obs[place] = value
            assert sign(health.OBSERVATION, batch(ONES, obs)) == np.float32(abs(value))
            only_next = batch(ONES)._replace(next_obs=jnp.asarray(obs))
            assert sign(health.OBSERVATION, only_next) == np.float32(abs(value))
    assert sign(health.OBSERVATION, batch(ONES, np.full((10, 2, 3), 1e7))) == 0.0
    raw = health.signs(batch(ONES, np.full((10, 2, 3), 1e10)), {}, reads_obs=False)
    assert raw[health.OBSERVATION] == 0.0


def test_an_entry_that_would_make_its_column_vanish() -> None:
    fresh = stats.moments_init((3,))._replace(weight=jnp.float32(0.0))
    obs = np.random.default_rng(0).normal(size=(10, 2, 3)).astype(np.float32)
    known = stats.moments_add(fresh, jnp.asarray(obs))
    wild = put(obs, 1.0)
    wild[5, 1, 0] = 1e10
    for moments in (fresh, known):
        assert normalise.outlier(moments, jnp.asarray(obs)) == 0.0
        assert normalise.outlier(moments, jnp.asarray(wild)) == np.float32(1e10)
        assert normalise.outlier(moments, jnp.asarray(1e12 * obs)) == 0.0
    # One step at a time, only what is known tells.
    assert normalise.outlier(known, jnp.asarray(wild[5:6, 1:])) == np.float32(1e10)


@for_each("value", [1e10, 1e19, 1e20, 3e38, -3e38])
@for_each("count", [1, 200])
def test_moments_survive_any_finite_number(value: float, count: int) -> None:
    moments = stats.moments_add(stats.moments_init(), jnp.ones(100))
    for values in (jnp.full(count, value), jnp.ones(100), jnp.asarray([value, -value])):
        moments = stats.moments_add(moments, values.astype(jnp.float32))
        assert np.isfinite(moments).all()
    assert moments.var > 1e14
    assert 1.0 / jnp.sqrt(moments.var) > 0.0


def test_what_is_not_finite_in_a_state_is_counted() -> None:
    reservoir = buffers.reservoir_init(4, ())._replace(items=jnp.full(4, jnp.nan))
    state = {"w": jnp.ones(3), "n": jnp.int32(3), "past": reservoir}
    assert health.num_unusable(state) == 0
    assert health.num_unusable(()) == 0
    bad = {**state, "w": jnp.asarray([1.0, jnp.nan, -jnp.inf])}
    assert health.num_unusable(bad) == 2
    assert np.isnan(health.state_sign(jnp.int32(1), bad))
    assert health.state_sign(jnp.int32(2), bad) == 0.0  # they were there before


def test_the_first_sign_is_found_and_explained() -> None:
    metrics = {"loss": np.array([0.0, 1.0, np.inf]), health.REWARD: np.array([0.0, 0.0, 1e19])}
    assert health.find(metrics) == (health.REWARD, 2)
    metrics["loss"][1] = np.nan
    assert health.find(metrics) == ("loss", 1)
    assert health.find({"loss": np.ones(3), health.STATE: np.zeros(3)}) is None
    assert health.without_signs(metrics).keys() == {"loss"}
    assert all(len(health.explain(name)) > 40 for name in health.SIGNS)
    assert health.explain("loss") == ""

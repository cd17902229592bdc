"""Tabular Q-learning: its update against a loop, its behaviour, what it needs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import random_batch

from lcpo.agents import tabular_q
from lcpo.core import nets
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.types import Spec, Transition

SPEC = GridWorld().spec._replace(num_worlds=2)
CONFIG = tabular_q.Config(gamma=0.9, omega=0.8, learning_rate=0.7, epsilon=0.3)


def slowly(batch: Transition, q: np.ndarray, visits: np.ndarray) -> list[float]:
    """Watkins' rule, step by step, in place; the errors on the way."""
    errors = []
    for t in range(batch.reward.shape[0]):
        for n in range(batch.reward.shape[1]):
            here = (*batch.obs[t, n].astype(int), int(batch.action[t, n, 0]))
            there = tuple(batch.next_obs[t, n].astype(int))
            future = 0.0 if batch.terminated[t, n] else 0.9 ** batch.elapsed[t, n] * q[there].max()
            visits[here] += 1
            errors.append(batch.reward[t, n] + future - q[here])
            q[here] += 0.7 / visits[here] ** 0.8 * errors[-1]
    return errors


def test_update_is_watkins_rule_in_the_order_of_time() -> None:
    """Several visits to one pair in a batch, two worlds, both kinds of ends, unequal durations."""
    state = tabular_q.init(CONFIG, SPEC, jax.random.key(0))
    q, visits = np.zeros((3, 3, 2, 2, 4)), np.zeros((3, 3, 2, 2, 4), int)
    update, metrics = jax.jit(tabular_q.update, static_argnums=1), {}
    for seed in range(3):
        batch = random_batch(SPEC, jax.random.key(seed))
        # Few places, so that many visits follow one another within a batch.
        batch = batch._replace(obs=batch.obs % 2, next_obs=batch.next_obs % 2)
        batch = batch._replace(elapsed=batch.elapsed.at[::3].set(2.5))
        state, metrics = update(CONFIG, SPEC, state, batch, jax.random.key(0))
        errors = slowly(jax.tree.map(np.asarray, batch), q, visits)
        np.testing.assert_allclose(metrics["td_error"], np.abs(errors).mean(), rtol=1e-5)
    assert visits.max() > 2
    np.testing.assert_array_equal(state.visits.entries, visits)
    np.testing.assert_allclose(state.q.entries, q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(metrics["visited"], np.mean(visits > 0), rtol=1e-6)


def test_behaviour_is_epsilon_greedy() -> None:
    state = tabular_q.init(CONFIG, SPEC, jax.random.key(0))
    entries = state.q.entries.at[1, 2, 0, 1, 2].set(1.0)
    state = state._replace(q=nets.Lookup(entries))
    obs = jnp.tile(jnp.array([[1.0, 2.0, 0.0, 1.0]]), (20_000, 1))
    expected = [0.075, 0.075, 0.775, 0.075]
    found = tabular_q.probabilities(CONFIG, SPEC, state, obs[:1])
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-6)
    action, _ = tabular_q.act(CONFIG, SPEC, state, obs, jax.random.key(1))
    np.testing.assert_allclose(np.bincount(action[:, 0]) / len(obs), expected, atol=0.01)
    greedy = tabular_q.Config(epsilon=0.0)
    assert (tabular_q.act(greedy, SPEC, state, obs, jax.random.key(1))[0] == 2).all()


def test_needs_levels_and_one_action() -> None:
    tabular_q.check(CONFIG, SPEC)
    with pytest.raises(ValueError, match="obs_levels"):
        tabular_q.check(CONFIG, Pendulum().spec)
    two = Spec(1, SPEC.context, num_actions=(3, 3), obs_levels=(2,))
    with pytest.raises(ValueError, match="2 action dimensions"):
        tabular_q.check(CONFIG, two)

"""Sliding OGD beyond the golden vectors: orthogonal steps, the ring, and nothing left."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_agents import assert_same, random_batch, small_config

from lcpo.agents import sac, sliding_ogd
from lcpo.agents.sliding_ogd import Directions
from lcpo.run.plan.budget import run_bytes
from lcpo.run.plan.plan import plan
from lcpo.run.store.checkpoint import without_memory
from lcpo.types import ContextSlice, Spec

SPEC = Spec(4, ContextSlice(4, 0, 0), (5, 3))
KEY = jax.random.key(0)
SIZE = 40


def stepper(window: int, rate: float = 1e-2) -> tuple[Any, Any]:
    """The step of one network of 40 weights, compiled, and its state at the start."""
    config = small_config(sliding_ogd.agent, window=window)
    optimiser = sliding_ogd.orthogonal(config, rate)
    return jax.jit(optimiser.update), optimiser.init(jnp.zeros(SIZE))


def test_steps_are_orthogonal_to_the_last_ones_and_the_oldest_gives_way() -> None:
    """Against Gram-Schmidt in float64; the window of four has three steps before the newest."""
    step, state = stepper(4)
    past: list[np.ndarray] = []
    for gradient in np.random.default_rng(0).normal(size=(9, SIZE)):
        found, state = step(jnp.asarray(gradient, jnp.float32), state)
        rest = gradient.copy()
        for direction in past:
            rest -= (rest @ direction) * direction
        expected = rest / np.linalg.norm(rest)
        np.testing.assert_allclose(found, -1e-2 * expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(np.dot(past, found) if past else 0.0, 0.0, atol=1e-7)
        left = np.linalg.norm(rest) / np.linalg.norm(gradient)
        assert float(state.share_left) == pytest.approx(left, rel=1e-4)
        past = [*past, expected][-3:]
    assert state.num_stored == 9


def test_directions_stay_orthonormal_where_little_of_each_gradient_is_left() -> None:
    """Gradients that are the last ones but for a thousandth, as those of a long run are."""
    step, state = stepper(33)
    gradient = np.random.default_rng(0).normal(size=SIZE)
    for noise in np.random.default_rng(1).normal(size=(60, SIZE)):
        gradient = gradient + 1e-3 * noise
        _, state = step(jnp.asarray(gradient, jnp.float32), state)
    assert state.share_left < 1e-2
    np.testing.assert_allclose(state.rows @ state.rows.T, np.eye(32), atol=2e-6)


@pytest.mark.parametrize("kind", ["in the span", "zero"])
def test_where_nothing_is_left_there_is_no_step(kind: str) -> None:
    step, state = stepper(9)
    gradients = jax.random.normal(KEY, (5, SIZE))
    for gradient in gradients:
        _, state = step(gradient, state)
    spent = gradients[0] - 2.0 * gradients[3] if kind == "in the span" else jnp.zeros(SIZE)
    found, after = step(spent, state)
    assert_same(found, jnp.zeros(SIZE))
    assert after.share_left < 1e-5
    assert_same(after[:2], state[:2])


@pytest.mark.learn
def test_steps_go_down_the_loss_and_with_the_fault_up() -> None:
    config = small_config(sliding_ogd.agent, learning_rate=1e-3)
    state = sliding_ogd.take_out(sliding_ogd.init(config, SPEC, KEY))
    data = jax.tree.map(lambda x: x[:, 0], random_batch(SPEC, KEY))

    def change(config: Any) -> float:
        """Of the policy's loss, with all else as it was."""
        step = jax.jit(sliding_ogd.step, static_argnums=1)
        after, metrics = step(config, SPEC, state.learner, data)
        moved = state.learner._replace(policy=after.policy)
        loss, _ = sac.policy_gradient(config, SPEC, moved, data)
        return float(loss - metrics["policy_loss"])

    assert change(config) < -1e-5
    assert change(dataclasses.replace(config, faults=(sliding_ogd.ASCENT,))) > 1e-5


@pytest.mark.learn
def test_policy_and_critics_have_steps_of_their_own_length() -> None:
    config = small_config(sliding_ogd.agent, learning_rate=1e-3, value_learning_rate=5e-2)
    learner = sliding_ogd.take_out(sliding_ogd.init(config, SPEC, KEY)).learner
    data = jax.tree.map(lambda x: x[:, 0], random_batch(SPEC, KEY))
    after, _ = jax.jit(sliding_ogd.step, static_argnums=1)(config, SPEC, learner, data)

    def length(new: Any, old: Any) -> float:
        return float(optax.tree.norm(jax.tree.map(jnp.subtract, new, old)))

    assert length(after.policy, learner.policy) == pytest.approx(1e-3, rel=1e-3)
    for new, old in zip(after.critics, learner.critics, strict=True):
        assert length(new, old) == pytest.approx(5e-2, rel=1e-4)


@pytest.mark.learn
def test_directions_stand_in_the_memory_and_are_counted() -> None:
    """A saved policy has none of them; a run's budget has them twice, for its checkpoints."""
    config = small_config(sliding_ogd.agent, updates_per_rollout=3)
    state = sliding_ogd.init(config, SPEC, KEY)
    update = jax.jit(sliding_ogd.update, static_argnums=1)
    after, metrics = update(config, SPEC, state, random_batch(SPEC, KEY), KEY)
    policy, critics = after.memory.directions
    for each in (policy, *critics):
        assert each.num_stored == 3
        np.testing.assert_allclose(each.rows @ each.rows.T, np.eye(2), atol=1e-6)
    assert metrics["num_directions"] == pytest.approx((1 + 2 + 2) / 3)
    leaves = jax.tree.leaves(without_memory(after), is_leaf=lambda x: isinstance(x, Directions))
    assert not any(isinstance(leaf, Directions) for leaf in leaves)
    values = {"steps": 20_000, "trace": "3", "seeds": 1}
    need = [
        run_bytes(plan("sliding-ogd", "pendulum", overrides={"window": n}, **values)[0])
        for n in (1000, 500)
    ]
    assert need[0] - need[1] == 2 * 3 * 4 * 500 * (10 * 64 + 65 * 64 + 65 * 15)

"""Agents with replay beyond the golden vectors: exploration, targets, weights, gradient steps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import bfdqn, ddqn, off_policy, presets, pt_dqn, sac
from lcpo.config import resolve
from lcpo.core import replay, stats
from lcpo.types import AnyAgent, ContextSlice, Spec, Transition

SPEC = Spec(4, ContextSlice(4, 0, 0), (5, 3))
"""Two action dimensions of unequal size."""
SMALL: dict[str, Any] = {
    "rollout_length": 8, "hidden": (16,), "batch_size": 32, "buffer_size": 64, "random_steps": 0,
}  # fmt: skip
MODULES: dict[str, Any] = {"ddqn": ddqn, "bfdqn": bfdqn, "pt-dqn": pt_dqn, "sac": sac}
ALL = pytest.mark.parametrize("agent", [m.agent for m in MODULES.values()], ids=MODULES)


def fresh(agent: AnyAgent, spec: Spec = SPEC, **config: Any) -> tuple[Any, Any]:
    chosen = resolve(agent.config(**{**SMALL, **config}), 8_000_000)
    return chosen, agent.init(chosen, spec, jax.random.key(0))


def random_data(count: int, spec: Spec = SPEC, key: int = 1) -> Transition:
    """Transitions [count], of which a fifth are terminated."""
    keys = jax.random.split(jax.random.key(key), 6)
    obs, next_obs = jax.random.normal(keys[0], (2, count, spec.obs_size))
    limits = jnp.array([spec.num_actions])
    action = jax.random.randint(keys[1], (count, spec.action_size), 0, limits)
    terminated, truncated = jax.random.bernoulli(keys[2], 0.2, (2, count))
    elapsed, weight = jax.random.uniform(keys[3], (2, count), minval=0.1, maxval=2.0)
    reward = jax.random.normal(keys[4], (count,))
    return Transition(obs, action, reward, next_obs, terminated, truncated, elapsed, weight, ())


def as_rollout(data: Transition) -> Transition:
    return jax.tree.map(lambda x: x[:, None], data)


def test_epsilon_is_the_published_schedule() -> None:
    """1 until the end of epoch 999, then 2e-4 less after every epoch, 0 from epoch 5999 on."""
    config, state = fresh(ddqn.agent, rollout_length=200, random_steps=200_000)
    published, found = 1.0, []
    for epoch in range(7000):
        found.append(published)
        if epoch >= 999:
            published = max(published - 2e-4, 0.0)
    steps = jnp.arange(7000) * 200
    ours = jax.vmap(lambda n: ddqn.epsilon(config, SPEC, state._replace(num_steps=n)))(steps)
    np.testing.assert_allclose(ours, found, atol=1e-6)


@ALL
@pytest.mark.parametrize("num_steps", [0, 40, 1000])
def test_probabilities_are_those_of_act(agent: AnyAgent, num_steps: int) -> None:
    """While all is random, while epsilon falls, and after; no action that does not exist."""
    epsilon_steps: dict[str, Any] = {} if agent is sac.agent else {"epsilon_steps": 100}
    config, state = fresh(agent, random_steps=8, **epsilon_steps)
    state = state._replace(num_steps=jnp.int32(num_steps))
    obs = jnp.tile(random_data(1).obs, (40_000, 1))
    actions, _ = jax.jit(agent.act, static_argnums=1)(config, SPEC, state, obs, jax.random.key(3))
    assert agent.probabilities is not None
    expected = agent.probabilities(config, SPEC, state, obs[:1])[0]
    np.testing.assert_allclose(expected.sum(-1), 1.0, atol=1e-6)
    for d, num_actions in enumerate(SPEC.num_actions):
        counts = np.bincount(np.asarray(actions[:, d]), minlength=5)
        assert counts[num_actions:].sum() == 0
        np.testing.assert_allclose(counts / 40_000, expected[d], atol=0.012)
    if num_steps == 0:
        np.testing.assert_allclose(expected[0], 0.2, atol=1e-6)
        np.testing.assert_allclose(expected[1, :3], 1 / 3, atol=1e-6)


def test_one_coin_decides_for_all_dimensions() -> None:
    """With epsilon = 1/2: all greedy in half of the draws, where two coins would give a quarter."""
    config, state = fresh(ddqn.agent, epsilon_steps=16)
    state = state._replace(num_steps=jnp.int32(0))
    assert ddqn.epsilon(config, SPEC, state) == 0.5
    obs = jnp.tile(random_data(1).obs, (20_000, 1))
    q = off_policy.make_network(config, SPEC).apply(state.learner.q, obs[:1])
    greedy = np.asarray(jnp.argmax(q[0], axis=-1))
    actions = np.asarray(ddqn.act(config, SPEC, state, obs, jax.random.key(0))[0])
    assert abs((actions == greedy).all(1).mean() - (0.5 + 0.5 / 15)) < 0.015


@ALL
def test_discount_is_gamma_to_the_elapsed_time(agent: AnyAgent) -> None:
    """y - r of a step of length 2 is gamma times that of a step of length 1."""
    config, state = fresh(agent, gamma=0.9, scale_rewards=False)
    data = random_data(50)._replace(terminated=jnp.zeros(50, bool))

    def future(elapsed: float) -> jax.Array:
        lasting = data._replace(elapsed=jnp.full(50, elapsed))
        return MODULES[agent.name].target(config, SPEC, state.learner, lasting) - data.reward

    np.testing.assert_allclose(future(2.0), 0.9 * future(1.0), rtol=1e-4, atol=1e-5)


def test_rewards_are_scaled_by_the_targets_before_them() -> None:
    """The first batch by 1 / sqrt(1 + 1); its targets enter the variance after the step."""
    config, state = fresh(ddqn.agent)
    step = jax.jit(ddqn.step, static_argnums=1)
    learner, moments, metrics = state.learner, stats.moments_init(), {}
    for k in range(3):
        data = random_data(64, key=k)
        y = ddqn.target(config, SPEC, learner, data)
        learner, metrics = step(config, SPEC, learner, data)
        assert metrics["reward_scale"] == pytest.approx(1.0 / np.sqrt(moments.var + 1.0), rel=1e-6)
        moments = stats.moments_add(moments, y)
        np.testing.assert_allclose(learner.target_stats, moments, rtol=1e-5)
    assert metrics["reward_scale"] != pytest.approx(0.5**0.5, rel=1e-3)


def test_overridden_steps_do_not_reach_the_policy() -> None:
    """The policy's loss and gradient are those of the steps with weight 1 alone."""
    config, state = fresh(sac.agent)
    data = random_data(60)._replace(weight=jnp.where(jnp.arange(60) < 20, 1.0, 0.0))
    part = jax.tree.map(lambda x: x[:20], data)
    found = sac.policy_gradient(config, SPEC, state.learner, data)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        found,
        sac.policy_gradient(config, SPEC, state.learner, part),
    )
    nothing = data._replace(weight=jnp.zeros(60))
    loss, grads = sac.policy_gradient(config, SPEC, state.learner, nothing)
    assert loss == 0.0
    assert all((leaf == 0.0).all() for leaf in jax.tree.leaves(grads))


@ALL
def test_many_gradient_steps_are_one_after_another(agent: AnyAgent) -> None:
    """Three steps of an update, and the same three by hand on the batches that were drawn."""
    config, state = fresh(agent, updates_per_rollout=3)
    batch, key = as_rollout(random_data(8)), jax.random.key(5)
    after, metrics = jax.jit(agent.update, static_argnums=1)(config, SPEC, state, batch, key)
    drawn = replay.replay_sample(replay.replay_add(state.memory, SPEC, batch), SPEC, 96, key)
    step = jax.jit(MODULES[agent.name].step, static_argnums=1)
    learner, losses = state.learner, []
    for i in range(3):
        data = jax.tree.map(lambda x, i=i: x[32 * i : 32 * (i + 1)], drawn)
        learner, found = step(config, SPEC, learner, data)
        losses.append(float(found["value_loss"]))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), after.learner, learner
    )
    assert metrics["value_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert after.num_steps == 8
    assert after.memory.added == 8


@ALL
def test_presets_suit_the_grid_world(agent: AnyAgent) -> None:
    config = agent.config(**presets.settings(agent, "grid-world"))
    assert (config.hidden, config.gamma) == ((32, 32), 0.95)
    assert config.reward_var_offset == 1e-8

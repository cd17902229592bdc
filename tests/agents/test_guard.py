"""Steps that a guard took over: what they are worth, and that no policy learns from them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import assert_same, random_batch, small_config, updater
from test_off_policy import ALL, MODULES, SPEC, fresh, random_data

from lcpo.agents import AGENTS, mbpo, off_policy, sac
from lcpo.core.replay import replay_rows
from lcpo.envs.pendulum import Pendulum
from lcpo.types import AnyAgent, Guard

KEY = jax.random.key(0)
WINDY = Pendulum().spec
GUARDED = WINDY._replace(unit_steps=False, guard=Guard(entry=2, action=(14,)))
"""A Pendulum that is pushed with all force where its speed is over 1/2."""


@ALL
def test_a_guarded_state_is_worth_what_the_guards_action_is(agent: AnyAgent) -> None:
    """By the target networks, and without an entropy bonus; other states as ever."""
    config, state = fresh(agent, gamma=0.9, scale_rewards=False)
    field = "targets" if agent is sac.agent else "target"
    other = jax.tree.map(lambda x: 1.5 * x, getattr(state.learner, field))
    learner, data = state.learner._replace(**{field: other}), random_data(60)
    network = off_policy.make_network(config, SPEC)
    q = [network.apply(p, data.next_obs) for p in (other if agent is sac.agent else (other,))]
    q = np.min(q, axis=0)
    if agent.name == "pt-dqn":
        q = q + network.apply(learner.permanent, data.next_obs)
    future = 0.9**data.elapsed * jnp.where(data.terminated, 0.0, 1.0)
    expected = data.reward + future * (q[:, 0, 4] + q[:, 1, 1])
    guarded = SPEC._replace(guard=Guard(entry=3, action=(4, 1)))
    plain, found = (
        MODULES[agent.name].target(config, spec, learner, data) for spec in (SPEC, guarded)
    )
    held = np.asarray(data.next_obs[:, 3] > 0.5)
    assert 10 < held.sum() < 50
    np.testing.assert_allclose(found[held], expected[held], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[~held], plain[~held], rtol=1e-5, atol=1e-6)
    assert np.abs(plain - expected)[held & ~np.asarray(data.terminated)].max() > 0.1


@pytest.mark.learn
def test_imagined_steps_obey_the_guard() -> None:
    """And keep the weight of the real step from there, which SAC's policy leaves out."""
    agent = AGENTS["ideal-mbpo"]
    config = jax.tree.map(jnp.float32, small_config(agent))
    batch = random_batch(GUARDED, KEY, False)
    batch = batch._replace(weight=jnp.where(batch.obs[..., 2] > 0.5, 0.0, 1.0))
    state = agent.init(config, GUARDED, KEY)
    state, _ = updater(agent)(config, GUARDED, state, batch, KEY)
    rows = jnp.arange(config.model_samples)
    found = replay_rows(state.memory.imagined, mbpo.imagined_spec(GUARDED), rows, 0 * rows)
    held = np.asarray(found.obs[:, 2] > 0.5)
    assert 20 < held.sum() < held.size - 20
    np.testing.assert_array_equal(found.weight, 1.0 - held)
    assert (found.action[held] == 14).all()
    assert (found.action[~held] != 14).any()


@pytest.mark.parametrize("name", ["a2c", "trpo", "ppo", "lcpo", "lcpo-p", "clear"])
def test_values_learn_from_a_step_of_weight_0_and_policies_do_not(name: str) -> None:
    """Another action in the first step, and another end of it, on which nothing else depends."""
    agent = AGENTS[name]
    config = jax.tree.map(jnp.float32, small_config(agent))
    spec = GUARDED if name == "clear" else WINDY  # whose replay has to keep weights
    start = agent.init(config, spec, KEY)
    batch = random_batch(spec, KEY, False)
    batch = batch._replace(truncated=batch.truncated.at[0].set(True))
    moved = batch._replace(
        action=batch.action.at[0].set((batch.action[0] + 1) % 15),
        next_obs=batch.next_obs.at[0, :, :3].add(3.0),
    )

    def learnt(weight: float) -> list[Any]:
        both = [b._replace(weight=b.weight.at[0].set(weight)) for b in (batch, moved)]
        states = [updater(agent)(config, spec, start, b, KEY)[0] for b in both]
        return [getattr(state, "learner", state) for state in states]

    before, after = learnt(0.0)
    assert_same(before.policy, after.policy)
    assert distance(before.value, after.value) > 0.0
    before, after = learnt(1.0)
    assert distance(before.policy, after.policy) > 0.0


def distance(one: Any, other: Any) -> float:
    """The largest difference between the parameters of two networks."""
    return float(jnp.max(jnp.abs(ravel_pytree(one)[0] - ravel_pytree(other)[0])))

"""With all published faults on, an agent still keeps its contract."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_contracts import faults_of
from small_agents import assert_close, assert_same, env_for, random_batch, small_config

from lcpo.agents import AGENTS
from lcpo.types import AnyAgent

pytestmark = pytest.mark.learn

FAULTY = [agent for agent in AGENTS.values() if agent.root is agent and faults_of(agent)]


@pytest.mark.parametrize("agent", FAULTY, ids=lambda agent: agent.name)
def test_an_agent_with_all_its_faults_keeps_the_contract(agent: AnyAgent) -> None:
    """The state's tree stays, metrics are finite, a key decides, and vmap equals a loop."""
    spec = env_for(agent).spec
    config = jax.tree.map(jnp.float32, small_config(agent, faults=faults_of(agent)))
    keys = jax.random.split(jax.random.key(0), 2)

    def run(key: jax.Array) -> tuple:
        state, metrics = agent.init(config, spec, key), {}
        for i in range(2):
            batch = random_batch(spec, jax.random.fold_in(key, i))
            state, metrics = agent.update(config, spec, state, batch, key)
        slim = state._replace(memory=None) if "memory" in state._fields else state
        return slim, metrics

    alone = jax.jit(run)
    state, metrics = alone(keys[0])
    fresh = jax.eval_shape(lambda key: agent.init(config, spec, key), keys[0])
    fresh = fresh._replace(memory=None) if "memory" in fresh._fields else fresh
    assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == jax.tree.map(
        lambda x: (x.shape, x.dtype), fresh
    )
    assert all(np.isfinite(value) for value in metrics.values())
    assert_same((state, metrics), alone(keys[0]))
    together = jax.jit(jax.vmap(run))(keys)
    assert_close(jax.tree.map(lambda x: x[0], together), (state, metrics), 2e-4)

"""BFDQN's chain: the formulas one by one, what it keeps, and a chain without flow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import assert_close, random_batch, small_config

from lcpo.agents import bfdqn, ddqn
from lcpo.types import ContextSlice, Spec

SPEC = Spec(4, ContextSlice(4, 0, 0), (5, 3))


def by_hand(chain: np.ndarray, change: np.ndarray, flow: float, t: int) -> np.ndarray:
    """Variable by variable, as in the docstring of the agent."""
    new = chain.copy()
    for k in range(len(chain)):
        volume, width = 2.0**k, flow / 2.0**k
        behind = chain[k + 1] if k + 1 < len(chain) else np.zeros_like(change)
        new[k] += change if k == 0 else 2 * width * (chain[k - 1] - chain[k]) / volume
        if t > volume / flow:
            new[k] += width * (behind - chain[k]) / volume
    return new


@pytest.mark.parametrize(
    ("flow", "t"), [(1e-3, 0), (1e-3, 1000), (1e-3, 1001), (1e-3, 2001), (0.5, 8192), (0.5, 8193)]
)
def test_the_chain_is_its_formulas(flow: float, t: int) -> None:
    """On both sides of the first gate, and of the last, behind which it leaks."""
    rng = np.random.default_rng(t)
    chain, change = rng.normal(size=(13, 40)), rng.normal(size=40)
    chain[-1] *= 1e3  # else its leak is below the rounding
    arrays = jnp.asarray(chain, jnp.float32), jnp.asarray(change, jnp.float32)
    found = bfdqn.seep(*arrays, jnp.float32(flow), jnp.int32(t))
    np.testing.assert_allclose(found, by_hand(chain, change, flow, t), rtol=2e-7, atol=1e-6)


def test_the_flows_keep_the_total_but_for_the_leak() -> None:
    """With every gate open sum_k C_k u_k changes by Adam's change and what the last one loses."""
    rng = np.random.default_rng(0)
    chain = jnp.asarray(rng.normal(size=(6, 50)), jnp.float32)
    change = jnp.asarray(rng.normal(size=50), jnp.float32)
    after = bfdqn.seep(chain, change, jnp.float32(0.3), jnp.int32(1000))
    total = jnp.sum(bfdqn.volumes(6) * (after - chain), axis=0)
    np.testing.assert_allclose(total, change - 0.3 / 2**5 * chain[-1], atol=2e-5)


@pytest.mark.learn
def test_a_chain_starts_as_noise_and_each_step_is_counted() -> None:
    config = small_config(bfdqn.agent, hidden=(64, 64), updates_per_rollout=3)
    state = bfdqn.init(config, SPEC, jax.random.key(0))
    found = jnp.std(state.learner.deeper, axis=1)
    np.testing.assert_allclose(found, [0.5, 0.25, 0.125], rtol=0.05)
    batch, key = random_batch(SPEC, jax.random.key(1)), jax.random.key(2)
    after, _ = jax.jit(bfdqn.update, static_argnums=1)(config, SPEC, state, batch, key)
    assert (state.learner.num_updates, after.learner.num_updates) == (0, 3)


def test_without_flow_it_is_ddqn() -> None:
    config = small_config(bfdqn.agent, flow=0.0)
    learner = bfdqn.init(config, SPEC, jax.random.key(0)).learner
    data = jax.tree.map(lambda x: x[:, 0], random_batch(SPEC, jax.random.key(1)))
    found, metrics = jax.jit(bfdqn.step, static_argnums=1)(config, SPEC, learner, data)
    plain = ddqn.QLearner(learner.q, learner.target, learner.opt, learner.target_stats)
    expected, _ = jax.jit(ddqn.step, static_argnums=1)(config, SPEC, plain, data)
    assert_close(ddqn.QLearner(*found[:4]), expected, 1e-6)
    assert metrics["chain_pull"] < 1e-6
    distance = np.linalg.norm(found.deeper[0] - ravel_pytree(found.q)[0])
    assert metrics["chain_distance"] == pytest.approx(distance, rel=1e-5)

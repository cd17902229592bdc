"""The learnt model against systems whose dynamics are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.core import dynamics
from lcpo.types import ContextSlice, Spec, Transition

SPEC = Spec(2, ContextSlice(2, 0, 1), (3,))
NOISE = 0.3


def linear(key: jax.Array, count: int) -> Transition:
    """next_obs = obs turned and pushed by the action; the reward is noisy, the rest is not."""
    keys = jax.random.split(key, 3)
    obs = 3.0 + jax.random.normal(keys[0], (count, 2))
    action = jax.random.randint(keys[1], (count, 1), 0, 3)
    turn = jnp.array([[0.9, -0.3], [0.3, 0.9]])
    push = jnp.array([[-1.0, 0.0], [0.0, 0.5], [1.0, 0.0]])
    next_obs = jnp.dot(obs, turn, precision="highest") + push[action[:, 0]]
    reward = obs[:, 0] + NOISE * jax.random.normal(keys[2], (count,))
    no, ones = jnp.zeros(count, bool), jnp.ones(count)
    return Transition(obs, action, reward, next_obs, no, no, ones, ones, ())


@pytest.mark.learn
def test_the_ensemble_learns_a_linear_system_and_its_noise() -> None:
    network = dynamics.make_network(SPEC, (32,), 2)
    model = dynamics.model_init(network, SPEC, jax.random.key(0))
    train = jax.jit(dynamics.train, static_argnums=(0, 1, 4, 5))
    losses = []
    for i in range(40):
        data = linear(jax.random.key(i), 640)
        model, loss = train(network, SPEC, model, data, 5, 5)
        losses.append(float(loss))
    assert losses[-1] < losses[0] - 2.0
    fresh = linear(jax.random.key(99), 512)
    found = dynamics.predict(network, SPEC, model, fresh.obs, fresh.action)
    y = dynamics.outputs(fresh)
    unexplained = jnp.mean((found.mean - y[None]) ** 2, axis=1) / jnp.var(y, axis=0)[None]
    assert (unexplained[:, 1:] < 0.01).all()
    assert (unexplained[:, 0] < 1.5 * NOISE**2).all()
    np.testing.assert_allclose(jnp.sqrt(found.var[..., 0]).mean(), NOISE, rtol=0.2)
    assert (found.var[..., 1:].mean((0, 1)) < 0.01).all()

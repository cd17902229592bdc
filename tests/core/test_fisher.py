"""Diagonals of Fisher matrices, against the gradient of each sample by itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import online_ewc
from lcpo.core import nets
from lcpo.types import ContextSlice, Spec

PLAIN = Spec(7, ContextSlice(7, 0, 0), (5, 3))
"""Two action dimensions of unequal size: some outputs do not exist."""
SPECS = {"mlp": PLAIN, "deep set": PLAIN._replace(elements=(2, 3))}


@pytest.mark.parametrize("kind", SPECS)
def test_mean_squares_are_those_of_single_samples(kind: str) -> None:
    network = nets.for_actions(SPECS[kind], (6, 4))
    assert (network.layer_inputs is None) == (kind == "deep set")
    params = network.init(jax.random.key(0))
    x, deltas = jax.random.normal(jax.random.key(1), (9, 7)), jnp.arange(90.0).reshape(9, 2, 5) - 40
    found = jax.jit(online_ewc.mean_square_gradient, static_argnums=0)(network, params, x, deltas)
    total = jax.tree.map(lambda p: np.zeros(p.shape), params)
    gradient = jax.jit(jax.grad(lambda p, x, d: jnp.sum(network.apply(p, x) * d)))
    for i in range(9):
        grads = gradient(params, x[i], deltas[i])
        total = jax.tree.map(lambda t, g: t + np.asarray(g, np.float64) ** 2, total, grads)
    jax.tree.map(
        lambda f, t: np.testing.assert_allclose(f, t / 9, rtol=1e-5, atol=1e-6), found, total
    )

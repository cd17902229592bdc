"""Diagonals of Fisher matrices: squared gradients of single samples, averaged.

    F = 1/B sum_i (grad f_i)^2, f_i(params) a function of sample i, such as log pi(a_i | s_i)
                                                                        `mean_square_gradient`

f_i is given by `deltas`, its gradient in the network's outputs. In an MLP, sample i's gradient in a
weight matrix is the outer product of the layer's inputs a_i and of the gradient d_i in its outputs,
so that F = 1/B (a^2)' (d^2): as much work as the gradient of the mean. Other networks need the
gradient of each sample (`sample_gradients`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from lcpo.core.nets import Layer, Layers, Network
from lcpo.types import Array


def mean_square_gradient(network: Network, params: Any, x: Array, deltas: Array) -> Any:
    """F, in the tree of `params`: x [B, inputs], deltas [B, *outputs]."""
    if network.layer_inputs is None:
        grads = sample_gradients(network, params, x, deltas)
        return jax.tree.map(lambda g: jnp.mean(g**2, axis=0), grads)

    def mean_square(seen: Array, delta: Array) -> Layer:
        a, d = seen**2, delta**2
        product = jnp.dot(a.T, d, precision=jax.lax.Precision.HIGHEST)
        return Layer(product / len(a), jnp.mean(d, axis=0))

    seen = network.layer_inputs(params, x)
    back = _layer_deltas(network, params, x, deltas)
    return tuple(mean_square(a, d) for a, d in zip(seen, back, strict=True))


def sample_gradients(network: Network, params: Any, x: Array, deltas: Array) -> Any:
    """grad f_i of each sample, leaves [B, ...]: B times the memory of the parameters."""

    def gradient(x: Array, delta: Array) -> Any:
        _, pull = jax.vjp(lambda params: network.apply(params, x), params)
        return pull(delta)[0]

    return jax.vmap(gradient)(x, deltas)


def _layer_deltas(network: Network, params: Layers, x: Array, deltas: Array) -> list[Array]:
    """d_i [B, outputs] of each layer: the gradient in a separate bias for each sample."""

    def apply(biases: list[Array], x: Array) -> Array:
        layers = zip(params, biases, strict=True)
        return network.apply(tuple(Layer(layer.w, b) for layer, b in layers), x)

    alone = [jnp.broadcast_to(layer.b[None], (len(x), *layer.b.shape)) for layer in params]
    _, pull = jax.vjp(lambda biases: jax.vmap(apply)(biases, x), alone)
    return pull(deltas)[0]

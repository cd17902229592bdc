"""Multi-layer perceptrons on plain pytrees."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lcpo.types import Array


class Layer(NamedTuple):
    """x @ w + b."""

    w: Array  # [inputs, outputs]
    b: Array  # [outputs]


Params = tuple[Layer, ...]


def mlp_init(key: Array, sizes: tuple[int, ...]) -> Params:
    """Weights and biases ~ U(-1/sqrt(inputs), 1/sqrt(inputs)), layer by layer."""
    layers = []
    for k, inputs, outputs in zip(
        jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True
    ):
        draw = jax.random.uniform(k, (inputs + 1, outputs), minval=-1.0, maxval=1.0)
        draw = draw / jnp.sqrt(float(inputs))
        layers.append(Layer(draw[:-1], draw[-1]))
    return tuple(layers)


def mlp(params: Params, x: Array) -> Array:
    """ReLU between layers, nothing after the last: [..., inputs] -> [..., outputs].

    Matrix products run at full float32 precision everywhere. On a GPU the default may be TF32,
    whose rounding is larger than the steps that the trust region takes.
    """
    for i, layer in enumerate(params):
        x = jnp.dot(x, layer.w, precision=jax.lax.Precision.HIGHEST) + layer.b
        if i < len(params) - 1:
            x = jax.nn.relu(x)
    return x

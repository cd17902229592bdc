"""Running statistics and reward scaling."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from lcpo.types import Array

LARGEST = 1e15
"""Values are clipped to +- this, so that sums of their squares stay finite."""


class RunningMoments(NamedTuple):
    """Mean, population variance and number of the values seen so far."""

    mean: Array
    var: Array
    weight: Array


def moments_init(shape: tuple[int, ...] = ()) -> RunningMoments:
    """Mean 0, variance 1 and almost no weight, for values of this shape."""
    return RunningMoments(
        jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32), jnp.float32(1e-4)
    )


def moments_add(moments: RunningMoments, values: Array) -> RunningMoments:
    """Merge a batch (Chan et al. 1979): values [..., *shape], of any finite size."""
    values = jnp.clip(values, -LARGEST, LARGEST)
    over = tuple(range(values.ndim - moments.mean.ndim))
    mean, var = jnp.mean(values, axis=over), jnp.var(values, axis=over)
    count = float(values.size // max(moments.mean.size, 1))
    total = moments.weight + count
    delta = mean - moments.mean
    share = count / total
    spread = moments.var * (1.0 - share) + var * share
    return RunningMoments(
        moments.mean + delta * share, spread + delta**2 * share * (1.0 - share), total
    )


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean of `values` under `weight`; 0 where all weights are 0."""
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(weight), 1e-8)

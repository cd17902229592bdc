"""Which past observations are out of distribution with respect to a recent batch?

A detector is a function `distances(context, recent [B, D], data [M, D]) -> [M]` of *squared*
distances; an observation is out of distribution (OOD) where the distance exceeds sigma^2.
`context` is the `ContextSlice` of the observation.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from lcpo.core import buffers
from lcpo.names import find
from lcpo.types import Array, ContextSlice

Detector = Callable[[ContextSlice, Array, Array], Array]

RIDGE = 1e-6
"""Added to the covariance of standardised columns. 1e-4 would change decisions."""


def l2(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared distance between history-mean contexts: each channel averaged over its lags."""
    centre = _history_mean(context, recent).mean(axis=0)
    return jnp.sum((_history_mean(context, data) - centre) ** 2, axis=-1)


def mahalanobis(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared Mahalanobis distance of the context entries, per dimension."""
    columns = slice(context.start, context.start + context.size)
    return _mahalanobis(recent[:, columns], data[:, columns])


def mahalanobis_full(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared Mahalanobis distance of whole observations, per dimension (the paper's MHD)."""
    del context
    return _mahalanobis(recent, data)


def everything(context: ContextSlice, recent: Array, data: Array) -> Array:
    """All of the past counts as OOD: anchors are drawn from the whole reservoir."""
    del context, recent
    return jnp.full(data.shape[0], jnp.inf)


DETECTORS: dict[str, Detector] = {
    "l2": l2,
    "mahalanobis": mahalanobis,
    "mahalanobis-full": mahalanobis_full,
    "everything": everything,
}


def detector(name: str) -> Detector:
    """A detector by name, or a user's own as 'package.module:function'."""
    return find("detector", name, DETECTORS)


def sample_ood(
    reservoir: buffers.Reservoir,
    distances: Callable[[Array], Array],
    sigma: Array | float,
    count: int,
    rounds: int,
    key: Array,
) -> tuple[Array, Array]:
    """Draw `rounds * count` items from the reservoir and keep the first `count` that are OOD.

    Returns (items [count, D], found): `found` is False where fewer than `count` were OOD, and the
    items are then of no use. So the work is bounded, and a history in which few states are OOD
    (under 1 / rounds of them) gives no anchors.
    """
    drawn = buffers.reservoir_sample(reservoir, rounds * count, key)  # [rounds * count, D]
    is_ood = (distances(drawn) > jnp.square(sigma)) & (reservoir.seen > 0)
    rank = jnp.cumsum(is_ood)  # 1-based rank among the OOD ones
    slot = jnp.where(is_ood & (rank <= count), rank - 1, count)
    index = jnp.zeros(count, jnp.int32).at[slot].set(jnp.arange(rounds * count), mode="drop")
    return drawn[index], rank[-1] >= count


def _history_mean(context: ContextSlice, obs: Array) -> Array:
    block = obs[:, context.start : context.start + context.size]
    return block.reshape(-1, context.channels, context.lags).mean(axis=-1)  # [M, channels]


def _mahalanobis(recent: Array, data: Array) -> Array:
    """Columns that do not vary in the recent batch are left out."""
    mean, std = recent.mean(axis=0), recent.std(axis=0, ddof=1)
    varies = std > 1e-12
    scale = jnp.where(varies, 1.0 / jnp.where(varies, std, 1.0), 0.0)
    recent, data = (recent - mean) * scale, (data - mean) * scale
    exact = jax.lax.Precision.HIGHEST
    covariance = jnp.matmul(recent.T, recent, precision=exact) / (recent.shape[0] - 1)
    covariance = covariance + jnp.diag(jnp.where(varies, RIDGE, 1.0))
    factor = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(factor, data.T, lower=True)
    return jnp.sum(white**2, axis=0) / jnp.maximum(varies.sum(), 1)

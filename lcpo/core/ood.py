"""Out-of-distribution detection: which past observations differ from a recent batch?

An observation is out of distribution (OOD) if a detector's squared distance exceeds sigma^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from lcpo.core import buffers
from lcpo.errors import InputError, tell
from lcpo.names import find, is_ours
from lcpo.types import Array, ContextSlice

Distance = Callable[[ContextSlice, Array, Array], Array]


class Detector(NamedTuple):
    """How far past observations are from the recent ones.

    distance(context, recent [B, D], data [M, D]) -> [M]    *squared* distances of each row of
        `data` from the batch `recent`; pure, for use under jit and vmap. `context` is the place of
        the context history in an observation. Infinity: OOD for any sigma.

    Name your own as "package.module:name", a Detector or a plain function: the
    distance of a detector that needs no context.
    """

    distance: Distance
    needs_context: bool = False
    """Observations must have a context history."""


RIDGE = 1e-6
"""Added to the covariance of standardised columns. 1e-4 would change decisions."""


def l2(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared distance between history-mean contexts: each channel averaged over its lags."""
    centre = _history_mean(context, recent).mean(axis=0, keepdims=True)
    return jnp.sum((_history_mean(context, data) - centre) ** 2, axis=-1)


def mahalanobis(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared Mahalanobis distance of the context entries, per dimension."""
    return _mahalanobis(context.entries(recent), context.entries(data))


def mahalanobis_full(context: ContextSlice, recent: Array, data: Array) -> Array:
    """Squared Mahalanobis distance of whole observations, per dimension (the paper's MHD)."""
    del context
    return _mahalanobis(recent, data)


def row_sum_filter(context: ContextSlice, recent: Array, data: Array) -> Array:
    """`mahalanobis_full` as in the published code (fault "row-sum-filter" of LCPO).

    If a column does not vary in the recent batch, all columns whose covariances sum to 0 or less
    are left out, even if they vary; the sum is divided by the number of all columns.
    """
    del context
    centred = recent - recent.mean(axis=0, keepdims=True)
    sums = jnp.sum(centred * centred.sum(axis=1, keepdims=True), axis=0)  # of each covariance row
    varies = _varies(recent)
    kept = jnp.where(varies.all(), varies, varies & (sums > 0.0))
    return _squared_distance(recent, data, kept) / recent.shape[1]


def everything(context: ContextSlice, recent: Array, data: Array) -> Array:
    """The whole past is OOD: anchors are drawn from the whole reservoir."""
    del context, recent
    return jnp.full(data.shape[0], jnp.inf)


DETECTORS: dict[str, Detector] = {
    "l2": Detector(l2, needs_context=True),
    "mahalanobis": Detector(mahalanobis, needs_context=True),
    "mahalanobis-full": Detector(mahalanobis_full),
    "everything": Detector(everything),
}


def find_detector(name: str) -> Detector:
    """A detector by name, or a user's own as "package.module:name"."""
    found = find("detector", name, DETECTORS)
    if isinstance(found, Detector):
        return found
    if not callable(found):
        raise InputError(
            f"detector {name!r} is a {type(found).__name__}: needs an lcpo.core.ood.Detector, or a "
            "function distance(context, recent, data)"
        )
    return Detector(cast(Distance, found))


def check_detector(name: str, context: ContextSlice, obs_size: int) -> None:
    """Raise InputError if a user's own detector breaks a rule, on small test arrays."""
    if not is_ours(name, DETECTORS):
        check_distance(f"detector {name!r}", find_detector(name).distance, context, obs_size)


def check_distance(name: str, distance: Distance, context: ContextSlice, obs_size: int) -> None:
    """Raise InputError if a function breaks a rule of distances; `name`: for the message."""
    key = jax.random.key(0)
    recent = jax.random.normal(key, (8, obs_size))
    data = jnp.concatenate([recent[:2], 10.0 + recent[:3]])
    signature = f"distance(context, recent [8, {obs_size}], data [5, {obs_size}])"
    try:
        found = jax.jit(lambda recent, data: distance(context, recent, data))(recent, data)
    except Exception as error:
        raise InputError(
            f"{name}: {signature} raised {tell(error)}: it must be a pure function of JAX arrays"
        ) from error
    if not isinstance(found, jax.Array) or found.shape != (5,):
        got = f"shape {list(found.shape)}" if isinstance(found, jax.Array) else type(found).__name__
        need = f"{signature} gives {got}: needs [5], a number for each row of data"
    elif not jnp.issubdtype(found.dtype, jnp.floating):
        need = f"distances are {found.dtype}: needs float32"
    elif bool((jnp.isnan(found) | (found < 0.0)).any()):
        given = [round(float(x), 4) for x in found]
        need = f"{signature} gives {given}: needs squared distances from 0 to infinity"
    else:
        return
    raise InputError(f"{name}: {need}")


def sample_ood(
    reservoir: buffers.Reservoir,
    distances: Callable[[Any], Array],
    sigma: Array | float,
    count: int,
    rounds: int,
    key: Array,
) -> tuple[Any, Array, Array]:
    """Algorithm 3: draw `rounds * count` items, keep the first `count` that are OOD.

    The paper draws one by one until it has b of at most s; drawing all s at once and keeping the
    first b is the same rule, without a loop. Returns `count` items, found, share: `found` is False
    if fewer than `count` were OOD, and the items are then invalid; `share` of the draws was OOD.
    """
    drawn = buffers.reservoir_sample(reservoir, rounds * count, key)  # lines 3-5, 9: z [s, D]
    is_ood = (distances(drawn) > jnp.square(sigma)) & (reservoir.seen > 0)  # line 6: omega(z, B_r)
    rank = jnp.cumsum(is_ood)  # 1-based rank among the OOD ones: |B_out|
    slot = jnp.where(is_ood & (rank <= count), rank - 1, count)  # line 4: the first b of them
    index = jnp.zeros(count, jnp.int32).at[slot].set(jnp.arange(rounds * count), mode="drop")
    share = rank[-1].astype(jnp.float32) / (rounds * count)
    kept = jax.tree.map(lambda items: items[index], drawn)
    return kept, rank[-1] >= count, share  # lines 2, 7: B_out; lines 11-14: is it full?


def _history_mean(context: ContextSlice, obs: Array) -> Array:
    return context.history(obs).mean(axis=-1)  # [M, channels]


def _mahalanobis(recent: Array, data: Array) -> Array:
    """Columns that do not vary in the recent batch are left out."""
    varies = _varies(recent)
    squared = _squared_distance(recent, data, varies)
    return squared / jnp.maximum(varies.sum(), 1).astype(jnp.float32)


def _varies(recent: Array) -> Array:
    """Which columns do, [D]. The mean of equal numbers may differ from them by rounding."""
    return (recent.max(axis=0) > recent.min(axis=0)) & (recent.std(axis=0, ddof=1) > 1e-12)


def _squared_distance(recent: Array, data: Array, kept: Array) -> Array:
    """Squared Mahalanobis distances of the rows of `data`, of the columns `kept` [D] alone."""
    mean = recent.mean(axis=0, keepdims=True)
    std = recent.std(axis=0, ddof=1, keepdims=True)
    scale = jnp.where(kept[None], 1.0 / jnp.where(kept[None], std, 1.0), 0.0)
    recent, data = (recent - mean) * scale, (data - mean) * scale
    exact = jax.lax.Precision.HIGHEST
    covariance = jnp.matmul(recent.T, recent, precision=exact) / (recent.shape[0] - 1)
    covariance = covariance + jnp.diag(jnp.where(kept, RIDGE, 1.0))
    factor = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(factor, data.T, lower=True)
    return jnp.sum(white**2, axis=0)

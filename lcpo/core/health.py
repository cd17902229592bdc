"""Signs that an agent can no longer learn, even if all its metrics are finite.

    OBSERVATION   a network sees a number so large that float32 loses the others next to it
    REWARD        one reward is so much larger than the others that these have no effect
    DIVISOR       rewards are divided by a number so large that they have no effect
    STATE         the agent's state holds NaN or infinity that was not there before

Each is 0 in a healthy update, and otherwise the number found. A driver checks them after every
update (`find`), stops the run or drops the update, and reports the reason (`explain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.buffers import Reservoir
from lcpo.core.replay import Replay
from lcpo.types import Array, Metrics, Transition, Tree

OBSERVATION, REWARD = "observation outlier", "reward outlier"
DIVISOR, STATE = "reward divisor", "agent state"
SIGNS = (OBSERVATION, REWARD, DIVISOR, STATE)
"""Agents must not use these names for their metrics."""

LARGEST = 1e8
"""Networks must not see larger numbers, and smaller ones are never outliers."""
OUTLIER = 1e4
"""An outlier is more than this many times as large as what is typical."""
SMALLEST, WIDE = 1e-6, 1e4
"""A typical reward has vanished if a division by more than `WIDE` leaves less than `SMALLEST`."""
UNSCALED = 1e14
"""A typical reward above this after the division is too large for `core.stats`."""

_ADVICE = {
    OBSERVATION: (
        "float32 networks cannot learn from it: correct it at its source, or rescale observations "
        "with `normalise` and contexts with `scale`"
    ),
    REWARD: (
        f"it is more than {OUTLIER:,.0f} times as large as a typical reward of its batch, so that "
        "all other rewards would have no effect: correct or clip it at its source"
    ),
    DIVISOR: (
        "rewards are divided by it, the spread of all returns so far, and the rewards of this "
        "batch are then too small or too large to learn from: clip outliers, or rescale the rewards"
    ),
    STATE: "the agent holds NaN or infinity: lower its learning rate, or rescale its inputs",
}


def outlier(values: Array, size: Array | float = 0.0, columns: int = 0) -> Array:
    """The largest magnitude in values [...] if it is an outlier, else 0; NaN where one is NaN.

    `size`: a known typical magnitude. The last `columns` axes are kept. If all other values are 0
    and no size is known, nothing is an outlier.
    """
    largest = jnp.max(jnp.abs(values), axis=tuple(range(values.ndim - columns)))
    logs, count = _log_sizes(values, columns)
    rest = logs - jnp.log(jnp.where(count > 0.0, largest, 1.0))
    usual = jnp.maximum(_mean_size(rest, count - 1.0), size)
    beside = (largest <= OUTLIER * usual) | (usual == 0.0)
    return jnp.where((largest <= LARGEST) | beside, 0.0, largest)


def typical(values: Array) -> Array:
    """Geometric mean of the magnitudes that are not 0, which is robust to outliers."""
    return _mean_size(*_log_sizes(values, 0))


def _log_sizes(values: Array, columns: int) -> tuple[Array, Array]:
    """Sum of the logarithms of the magnitudes that are not 0, and their number."""
    over, size = tuple(range(values.ndim - columns)), jnp.abs(values)
    found = size > 0.0
    logs = jnp.sum(jnp.where(found, jnp.log(jnp.where(found, size, 1.0)), 0.0), axis=over)
    return logs, jnp.sum(found, axis=over).astype(jnp.float32)


def _mean_size(logs: Array, count: Array) -> Array:
    return jnp.where(count > 0.0, jnp.exp(logs / jnp.maximum(count, 1.0)), 0.0)


def too_large(*seen: Array) -> Array:
    """The largest magnitude if networks cannot read it, else 0; NaN where one is NaN."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in seen]))
    return jnp.where(largest <= LARGEST, 0.0, largest)


def signs(batch: Transition, metrics: Metrics, reads_obs: bool) -> Metrics:
    """All signs but STATE, after an update from `batch` that reported `metrics`.

    An agent whose networks see other numbers than the batch's reports OBSERVATION itself.
    `reads_obs`: whether it has networks.
    """
    seen = metrics.get(OBSERVATION)
    if seen is None:
        seen = too_large(batch.obs, batch.next_obs) if reads_obs else jnp.float32(0.0)
    found = {OBSERVATION: seen, REWARD: outlier(batch.reward), DIVISOR: jnp.float32(0.0)}
    if "reward_scale" in metrics:
        scale = metrics["reward_scale"]
        left = typical(batch.reward) * scale
        gone = (left < SMALLEST) & (scale * WIDE < 1.0) & jnp.any(batch.reward != 0.0)
        found[DIVISOR] = jnp.where(gone | (left > UNSCALED), 1.0 / scale, 0.0)
    return found


def num_unusable(state: Tree) -> Array:
    """The number of NaNs and infinities in an agent's state, without its large memory.

    Reading the memory would keep a compiled run from updating it in place. Its observations are
    checked as they arrive, and the rest of it shows in the metrics.
    """
    if hasattr(state, "memory") and hasattr(state, "_replace"):
        state = state._replace(memory=())

    def is_memory(x: Any) -> bool:
        return isinstance(x, Replay | Reservoir)

    counts = [
        jnp.sum(~jnp.isfinite(x), dtype=jnp.int32)
        for x in jax.tree.leaves(state, is_leaf=is_memory)
        if not is_memory(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)
    ]
    return jnp.sum(jnp.stack(counts)) if counts else jnp.int32(0)


def state_sign(before: Array, state: Tree) -> Array:
    """STATE, given `num_unusable` of the state before."""
    return jnp.where(num_unusable(state) > before, jnp.nan, 0.0)


def find(metrics: Mapping[str, np.ndarray]) -> tuple[str, int] | None:
    """Name and index of the first metric [updates] that is not finite, or sign that is not 0."""
    bad: dict[str, int] = {}
    for name in (*SIGNS, *metrics):
        values = metrics.get(name)
        if values is not None and name not in bad:
            healthy = np.equal(values, 0.0) if name in SIGNS else np.isfinite(values)
            if not healthy.all():
                bad[name] = int(np.argmin(healthy))
    first = min(bad, key=lambda name: bad[name], default=None)
    return None if first is None else (first, bad[first])


def without_signs(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's own metrics."""
    return {name: values for name, values in metrics.items() if name not in SIGNS}


def explain(name: str) -> str:
    """The meaning of a sign and what to do, to follow its value; nothing for a metric."""
    return f": {_ADVICE[name]}" if name in _ADVICE else ""

"""Reservoir sampling (Algorithm 2 of the LCPO paper): a uniform sample of all that was seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.types import Array


class Reservoir(NamedTuple):
    """A uniform sample of the items seen, which are trees of arrays, in fixed memory."""

    items: Any  # leaves [capacity, ...]: B_a
    seen: Array  # number of items offered so far, int32: n_s

    @property
    def capacity(self) -> int:
        """n_b."""
        return jax.tree.leaves(self.items)[0].shape[0]


def reservoir_init(capacity: int | None, item_shape: tuple[int, ...]) -> Reservoir:
    """An empty reservoir of capacity n_b (lines 1 to 3 of Algorithm 2)."""
    assert capacity is not None, "resolve the config first: lcpo.config.resolve"
    return Reservoir(jnp.zeros((capacity, *item_shape), jnp.float32), jnp.int32(0))


def reservoir_add(
    reservoir: Reservoir, items: Any, key: Array, keep: Array | None = None
) -> Reservoir:
    """Offer a batch, leaves [B, ...] (lines 4 to 14 of Algorithm 2, for all items at once).

    The n-th item fills slot n - 1 while there is room; after that it draws a slot from
    {0, ..., n - 1} and replaces its item if the slot exists. If two items of a batch draw one slot,
    the later one wins. Items without `keep` ([B] bool; None: all) are skipped.
    """
    capacity, batch = reservoir.capacity, jax.tree.leaves(items)[0].shape[0]
    if keep is None:
        keep = jnp.ones(batch, bool)
    total = jnp.cumsum(keep, dtype=jnp.int32)
    position = reservoir.seen + total - keep.astype(jnp.int32)  # lines 4, 5: n_s - 1 of each item
    drawn = jax.random.randint(key, (batch,), 0, position + 1)  # line 7
    slot = jnp.where(position < capacity, position, drawn)  # lines 6, 13: is there room?
    slot = jnp.where(keep & (slot < capacity), slot, capacity)  # lines 8, 10, 11: else dropped
    later_same = jnp.triu(slot[:, None] == slot[None, :], k=1).any(axis=1)
    slot = jnp.where(later_same, capacity, slot)
    stored = jax.tree.map(  # lines 9, 14
        lambda old, new: old.at[slot].set(new, mode="drop"), reservoir.items, items
    )
    return Reservoir(stored, reservoir.seen + total[-1])


def reservoir_sample(reservoir: Reservoir, count: int, key: Array) -> Any:
    """Draw `count` items uniformly with replacement (zeros from an empty reservoir)."""
    filled = jnp.minimum(reservoir.seen, reservoir.capacity)
    index = jax.random.randint(key, (count,), 0, jnp.maximum(filled, 1))
    return jax.tree.map(lambda items: items[index], reservoir.items)

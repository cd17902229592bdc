"""A replay in which every rollout is somebody's: who draws, draws from his own.

One ring for all, instead of a replay for each of a fixed number of owners, of which any may come to
hold the whole run. A block is a rollout; entry i below is about rows i * T .. (i + 1) * T - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lcpo.core import replay
from lcpo.types import Array, Spec, Transition


class Blocks(NamedTuple):
    """Whose the rollouts of a replay are."""

    owner: Array  # [num_blocks] int32
    first: Array  # [num_blocks] int32, rows of the block before this one are nobody's
    size: Array  # [num_blocks] int32, so many rows from there on can be drawn


class OwnedReplay(NamedTuple):
    """All rollouts, and whose they are."""

    replay: replay.Replay
    blocks: Blocks

    @property
    def num_blocks(self) -> int:
        """Rollouts of which the ring has a trace."""
        return self.blocks.size.shape[-1]

    @property
    def length(self) -> int:
        """Steps of a rollout."""
        return self.replay.num_rows // self.num_blocks

    @property
    def num_added(self) -> Array:
        """Rollouts so far."""
        return self.replay.added // self.length


def owned_init(spec: Spec, capacity: int, rollout_length: int) -> OwnedReplay:
    """Room for `capacity` transitions, which come `rollout_length` steps at a time."""
    # A rollout more than asked for: the oldest is given up before the newest touches its history.
    ring = replay.replay_init(spec, capacity + rollout_length * spec.num_worlds, rollout_length)
    nothing = jnp.zeros(ring.num_rows // rollout_length, jnp.int32)
    return OwnedReplay(ring, Blocks(nothing, nothing, nothing))


def owned_add(
    memory: OwnedReplay, spec: Spec, batch: Transition, owner: Array, first: Array, forget: Array
) -> OwnedReplay:
    """Append a rollout, leaves [T, N, ...]: its steps from `first` on are `owner`'s.

    `forget`: so many steps before those become nobody's; in the rollout itself, all of them.
    """
    blocks, block = memory.blocks, memory.num_added % memory.num_blocks
    before, after = (block - 1) % memory.num_blocks, (block + 1) % memory.num_blocks
    kept = blocks.size[before] - jnp.clip(forget - first, 0, blocks.size[before])
    count = blocks.size.at[before].set(kept).at[block].set(memory.length - first)
    blocks = Blocks(
        blocks.owner.at[block].set(owner),
        blocks.first.at[block].set(first),
        count.at[after].set(0),
    )
    return OwnedReplay(replay.replay_add(memory.replay, spec, batch), blocks)


def owned_sample(
    memory: OwnedReplay, spec: Spec, mine: Array, count: int, key: Array, newest: int | None = None
) -> Transition:
    """Draw `count` transitions from the blocks that are `mine` [num_blocks]: leaves [count, ...].

    Uniformly with replacement; `newest`: among the newest so many of them.
    """
    # From the oldest block, which the next rollout will take, to the newest.
    order = (memory.num_added + jnp.arange(memory.num_blocks)) % memory.num_blocks
    rows = jnp.where(mine, memory.blocks.size, 0)[order]
    end = jnp.cumsum(rows)
    total = end[-1]
    first = jnp.int32(0)
    if newest is not None:
        first = jnp.maximum(total - -(-newest // spec.num_worlds), 0)
    # As integers: see `replay_sample`.
    low, high = (spec.num_worlds * x for x in (first, jnp.maximum(total, 1)))
    drawn = jax.random.randint(key, (count,), low, high)
    row, world = drawn // spec.num_worlds, drawn % spec.num_worlds
    place = jnp.searchsorted(end, row, side="right")
    block = order[place]
    row = row - (end - rows)[place] + memory.blocks.first[block] + memory.length * block
    return replay.replay_rows(memory.replay, spec, row, world)


def added_since(memory: OwnedReplay, number: Array) -> Array:
    """Which blocks [num_blocks] hold rollouts from `number` (counted from 0) on."""
    newest = memory.num_added - 1
    age = (newest - jnp.arange(memory.num_blocks)) % memory.num_blocks
    return newest - age >= number

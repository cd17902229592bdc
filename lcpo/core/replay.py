"""Replay: the transitions of a run, or the newest of them, in few bytes (docs/replay.md).

Where contexts move on by one row per step (`spec.contiguous_contexts`), the history in an
observation consists of its neighbours' newest contexts. Then each transition stores one context,
and draws reassemble the histories. Otherwise observations are stored whole. The spec decides in
`replay_init`; later the arrays' shapes do. `OwnedReplay` is a replay whose rollouts have owners.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.errors import InputError
from lcpo.types import Array, ContextSlice, Spec, Transition


class ReplayRows(NamedTuple):
    """Step t of world n is at [t % num_rows, n]."""

    floats: Array  # [num_rows, N, V]: obs, next_obs, reward, extra; elapsed, weight if they vary
    small: Array  # [num_rows, N, A + 1]: action, then terminated + 2 * truncated
    context: Array  # [num_rows + lags, N, channels]: the newest one after step t is at t + lags


class Replay(NamedTuple):
    """A ring. Checkpoints rely on it: `added` only grows, and `replay_add` alone writes rows."""

    rows: ReplayRows
    added: Array  # steps so far, of each world, int32
    capacity: Array  # steps that can be drawn, of each world, int32

    @property
    def num_rows(self) -> int:
        """Steps that the ring stores; more than the capacity, see `replay_init`."""
        return self.rows.floats.shape[-3]

    @property
    def lags(self) -> int:
        """Contexts that precede the first row's; 0 where observations are stored whole."""
        return self.rows.context.shape[-3] - self.num_rows


def replay_init(
    spec: Spec, capacity: int | None, rollout_length: int, num_extra: int = 0
) -> Replay:
    """Room for `capacity` transitions, which come `rollout_length` steps at a time.

    `num_extra`: how many numbers of a transition's `extra` [..., num_extra] are kept with it.

    The rows are a multiple of the rollout, so that no rollout wraps around, and `lags` more than
    the capacity, so that the newest rollout does not overwrite the oldest row's history.
    """
    assert capacity is not None, "resolve the config first: lcpo.config.resolve"
    context = spec.context if spec.contiguous_contexts else ContextSlice(0, 0, 0)
    steps = -(-capacity // spec.num_worlds)
    num_rows = -(-(steps + context.lags) // rollout_length) * rollout_length
    num_floats = 2 * (spec.obs_size - context.size) + 1 + num_extra + _num_varying(spec)

    def zeros(rows: int, width: int, dtype: Any = jnp.float32) -> Array:
        return jnp.zeros((rows, spec.num_worlds, width), dtype)

    rows = ReplayRows(
        zeros(num_rows, num_floats),
        zeros(num_rows, spec.action_size + 1, spec.actions.stored_dtype),
        zeros(num_rows + context.lags, context.channels),
    )
    return Replay(rows, jnp.int32(0), jnp.int32(steps))


def replay_add(replay: Replay, spec: Spec, batch: Transition) -> Replay:
    """Append a rollout, leaves [T, N, ...], over the oldest steps."""
    length, num_rows = batch.reward.shape[0], replay.num_rows
    if num_rows % length:
        raise InputError(
            f"a rollout of {length} steps does not fit {num_rows} rows: give `replay_init` the "
            "length of the rollouts that will be added"
        )
    context = _context(replay, spec)
    terminated, truncated = (
        x.astype(batch.action.dtype) for x in (batch.terminated, batch.truncated)
    )
    reward, *varying = (x[..., None] for x in (batch.reward, batch.elapsed, batch.weight))
    fields = [context.remove(batch.obs), context.remove(batch.next_obs), reward]
    fields += [batch.extra] * (_num_extra(replay, spec) > 0) + varying[: _num_varying(spec)]
    before = jnp.moveaxis(context.history(batch.obs[0]), -1, 0)[::-1]  # [lags, N, channels]
    block = ReplayRows(
        jnp.concatenate(fields, axis=-1),
        jnp.concatenate([batch.action, (terminated + 2 * truncated)[..., None]], axis=-1),
        jnp.concatenate([before, context.newest(batch.next_obs)]),
    )
    start = replay.added % num_rows

    def write(rows: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(rows, new.astype(rows.dtype), start, 0)

    rows = jax.tree.map(write, replay.rows, block)
    return replay._replace(rows=rows, added=replay.added + length)


def replay_sample(replay: Replay, spec: Spec, count: int, key: Array) -> Transition:
    """Draw `count` transitions uniformly with replacement: leaves [count, ...]."""
    step, world = replay_draw(replay, spec, count, key)
    return replay_rows(replay, spec, step % replay.num_rows, world)


def replay_draw(replay: Replay, spec: Spec, count: int, key: Array) -> tuple[Array, Array]:
    """Steps and worlds [count] of `replay_sample`; steps are counted from the first ever added."""
    live = jnp.minimum(replay.added, replay.capacity)
    # As integers: uniform numbers in float32 have fewer levels than a long run has steps.
    drawn = jax.random.randint(key, (count,), 0, jnp.maximum(live * spec.num_worlds, 1))
    step = replay.added - live + drawn // spec.num_worlds
    return step, drawn % spec.num_worlds


def replay_blocks(replay: Replay, spec: Spec, count: int, length: int, key: Array) -> Transition:
    """Draw `count` blocks of `length` consecutive steps of each world: [count, length, N, ...].

    All blocks are equally likely; episodes may end within them. The replay must hold `length`
    steps of each world.
    """
    live, shape = jnp.minimum(replay.added, replay.capacity), (count, length, spec.num_worlds)
    first = jax.random.randint(key, (count, 1, spec.num_worlds), 0, live - length + 1)
    step = replay.added - live + first + jnp.arange(length)[None, :, None]
    world = jnp.broadcast_to(jnp.arange(spec.num_worlds), shape)
    found = replay_rows(replay, spec, step.ravel() % replay.num_rows, world.ravel())
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def replay_rows(replay: Replay, spec: Spec, row: Array, world: Array) -> Transition:
    """The transitions at rows [B] of worlds [B], with their histories."""
    context, rows = _context(replay, spec), replay.rows
    window = (context.lags + 1, 1, context.channels)
    cut = jax.vmap(lambda r, w: jax.lax.dynamic_slice(rows.context, (r, w, 0), window))
    seen = cut(row, world)[:, ::-1, 0].swapaxes(1, 2)  # [B, channels, lags + 1], newest first
    small, floats = rows.small[row, world], rows.floats[row, world]
    size = spec.obs_size - context.size
    reward, rest = floats[:, 2 * size], floats[:, 2 * size + 1 :]
    elapsed, weight = (jnp.ones_like(reward),) * 2 if spec.unit_steps else rest[:, -2:].T
    extra = _num_extra(replay, spec)
    flags = small[:, -1].astype(jnp.int32)
    return Transition(
        context.insert(floats[:, :size], seen[..., 1:]),
        small[:, :-1].astype(spec.actions.dtype),
        reward,
        context.insert(floats[:, size : 2 * size], seen[..., :-1]),
        flags % 2 == 1,
        flags >= 2,
        elapsed,
        weight,
        rest[:, :extra] if extra else (),
    )


def _num_extra(replay: Replay, spec: Spec) -> int:
    """How many numbers of a transition's `extra` are kept."""
    rest = spec.obs_size - _context(replay, spec).size
    return replay.rows.floats.shape[-1] - 2 * rest - 1 - _num_varying(spec)


def _num_varying(spec: Spec) -> int:
    """Elapsed and weight are stored unless both are always 1."""
    return 0 if spec.unit_steps else 2


def _context(replay: Replay, spec: Spec) -> ContextSlice:
    """The part of an observation that is not stored with it."""
    return ContextSlice(spec.context.start, replay.rows.context.shape[-1], replay.lags)


class Blocks(NamedTuple):
    """The owners of the rollouts of a replay: entry i describes rows i * T .. (i + 1) * T - 1."""

    owner: Array  # [num_blocks] int32
    first: Array  # [num_blocks] int32, rows of the block before this one have no owner
    size: Array  # [num_blocks] int32, so many rows from there on can be drawn


class OwnedReplay(NamedTuple):
    """One ring of rollouts for several owners, each of which draws from its own."""

    replay: Replay
    blocks: Blocks

    @property
    def num_blocks(self) -> int:
        return self.blocks.size.shape[-1]

    @property
    def length(self) -> int:
        return self.replay.num_rows // self.num_blocks

    @property
    def num_added(self) -> Array:
        return self.replay.added // self.length


def owned_init(spec: Spec, capacity: int, rollout_length: int) -> OwnedReplay:
    """Room for `capacity` transitions, which come `rollout_length` steps at a time."""
    # One more rollout: the oldest is dropped before the newest touches its history.
    ring = replay_init(spec, capacity + rollout_length * spec.num_worlds, rollout_length)
    nothing = jnp.zeros(ring.num_rows // rollout_length, jnp.int32)
    return OwnedReplay(ring, Blocks(nothing, nothing, nothing))


def owned_add(
    memory: OwnedReplay, spec: Spec, batch: Transition, owner: Array, first: Array, forget: Array
) -> OwnedReplay:
    """Append a rollout, leaves [T, N, ...]: its steps from `first` on are `owner`'s.

    `forget`: this many steps before the rollout lose their owner.
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
    return OwnedReplay(replay_add(memory.replay, spec, batch), blocks)


def owned_sample(
    memory: OwnedReplay, spec: Spec, mine: Array, count: int, key: Array, newest: int | None = None
) -> Transition:
    """Draw `count` transitions from the blocks that are `mine` [num_blocks]: leaves [count, ...].

    Uniformly with replacement; `newest`: only among this many of the newest.
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
    return replay_rows(memory.replay, spec, row, world)


def added_since(memory: OwnedReplay, number: Array) -> Array:
    """Which blocks [num_blocks] hold rollouts from `number` (counted from 0) on."""
    newest = memory.num_added - 1
    age = (newest - jnp.arange(memory.num_blocks)) % memory.num_blocks
    return newest - age >= number

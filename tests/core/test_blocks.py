"""A replay in which every rollout is somebody's, against lists."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.core import replay
from lcpo.types import ContextSlice, Spec, Transition

LENGTH, WORLDS, OWNERS = 4, 2, 3
SPEC = Spec(
    3, ContextSlice(1, 1, 2), (2,), num_worlds=WORLDS, contiguous_contexts=True, unit_steps=True
)


def rollout(number: int) -> Transition:
    """Rewards are the numbers of the transitions, contexts those of the steps."""
    step = number * LENGTH + np.arange(LENGTH)[:, None] + np.zeros((1, WORLDS))
    obs, next_obs = (np.stack([step, step + k, step + k - 1], -1) for k in (0, 1))
    reward = WORLDS * step + np.arange(WORLDS)
    no, ones = jnp.zeros(reward.shape, bool), jnp.ones(reward.shape)
    action = jnp.zeros((*reward.shape, 1), jnp.int32)
    obs, next_obs, reward = (jnp.asarray(x, jnp.float32) for x in (obs, next_obs, reward))
    return Transition(obs, action, reward, next_obs, no, no, ones, ones, ())


add = jax.jit(replay.owned_add, static_argnums=1)
sample = jax.jit(replay.owned_sample, static_argnums=(1, 3, 5))


@pytest.mark.parametrize("newest", [None, 6])
def test_who_draws_draws_from_his_own(newest: int | None) -> None:
    """Changes of owner within a rollout, steps before them forgotten, and a ring that closes."""
    rng, kept = np.random.default_rng(0), 5
    memory = replay.owned_init(SPEC, kept * LENGTH * WORLDS, LENGTH)
    num_blocks, mine = memory.num_blocks, [[] for _ in range(OWNERS)]  # steps, in order
    for number in range(4 * num_blocks):
        owner, is_change = int(rng.integers(OWNERS)), rng.random() < 0.6
        first, forget = (int(rng.integers(LENGTH)), 3) if is_change else (0, 0)
        memory = add(memory, SPEC, rollout(number), *(jnp.int32(x) for x in (owner, first, forget)))
        start = number * LENGTH
        gone = set(range(start + first - forget, start)) & set(range(start - LENGTH, start))
        oldest = (number - num_blocks + 2) * LENGTH  # one rollout is given up early
        mine = [[step for step in steps if step not in gone and step >= oldest] for steps in mine]
        mine[owner] += range(start + first, start + LENGTH)
        for owner, steps in enumerate(mine):
            expected = {WORLDS * step + world for step in steps for world in range(WORLDS)}
            expected = set(sorted(expected)[-newest:] if newest else expected)
            drawn = sample(
                memory, SPEC, memory.blocks.owner == owner, 400, jax.random.key(number), newest
            )
            if expected:
                assert set(np.asarray(drawn.reward, int)) == expected
                close = np.testing.assert_array_equal
                close(drawn.obs[:, 0], drawn.reward // WORLDS)
                close(drawn.obs[:, 1], drawn.obs[:, 0])  # the history, put together again
                close(drawn.next_obs[:, 2], drawn.obs[:, 0])


def test_blocks_since() -> None:
    """Rollouts from a number on, also where the ring has closed."""
    memory = replay.owned_init(SPEC, 2 * LENGTH * WORLDS, LENGTH)
    zero = jnp.int32(0)
    for number in range(memory.num_blocks + 2):
        memory = add(memory, SPEC, rollout(number), zero, zero, zero)
    newest = memory.num_blocks + 1
    found = replay.added_since(memory, jnp.int32(newest - 1))
    assert set(np.flatnonzero(found)) == {b % memory.num_blocks for b in (newest - 1, newest)}

"""Anchors beyond the golden vectors: what may become one, and what counts as recent."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import T, random_batch, small_config, updater

from lcpo.agents import AGENTS, anchors
from lcpo.core import buffers, ood
from lcpo.envs.pendulum import Pendulum
from lcpo.types import ContextSlice

KEY = jax.random.key(0)
SPEC = Pendulum().spec
LASTING = SPEC._replace(unit_steps=False)
"""Steps may have a weight of 0."""


def test_a_reservoir_passes_over_what_is_not_to_be_kept() -> None:
    """Against a loop over items, from before it is full to long after."""
    reservoir = buffers.reservoir_init(30, (1,))
    slots, seen, rng = np.zeros(30), 0, np.random.default_rng(0)
    add = jax.jit(buffers.reservoir_add)
    for number in range(12):
        items = 1.0 + 20 * number + np.arange(20.0)
        keep, key = rng.random(20) < (0.0 if number == 3 else 0.6), jax.random.key(number)
        before = seen + np.cumsum(keep) - keep
        drawn = jax.random.randint(key, (20,), 0, jnp.asarray(before + 1))
        for item, kept, slot in zip(items, keep, np.asarray(drawn), strict=True):
            if kept:
                slot = seen if seen < 30 else slot
                seen += 1
                if slot < 30:
                    slots[slot] = item
        reservoir = add(reservoir, jnp.asarray(items, jnp.float32)[:, None], key, jnp.asarray(keep))
        np.testing.assert_array_equal(reservoir.items[:, 0], slots)
        assert reservoir.seen == seen
    assert 100 < seen < 180


@pytest.mark.parametrize("name", ["lcpo", "lcpo-p"])
def test_states_under_a_guard_do_not_become_anchors(name: str) -> None:
    agent = AGENTS[name]
    config = jax.tree.map(jnp.float32, small_config(agent))
    batch = random_batch(LASTING, KEY)
    batch = batch._replace(weight=jnp.where(jnp.arange(T) % 3 > 0, 1.0, 0.0)[:, None])
    state = agent.init(config, LASTING, KEY)
    state, _ = updater(agent)(config, LASTING, state, batch, KEY)
    kept = batch.obs[np.flatnonzero(np.arange(T) % 3 > 0), 0]
    np.testing.assert_array_equal(state.memory.past.items[: len(kept)], kept)
    assert state.memory.past.seen == len(kept)


SEEN: list[np.ndarray] = []


def noted(context: ContextSlice, recent: jax.Array, data: jax.Array) -> jax.Array:
    """Distances of a detector that writes down what it is told is recent."""
    jax.debug.callback(lambda x: SEEN.append(np.asarray(x[:, 0])), recent)
    return ood.everything(context, recent, data)


@pytest.mark.parametrize("name", ["lcpo", "lcpo-p"])
def test_the_newest_rollouts_count_as_recent(name: str) -> None:
    """Exactly the last three; before, the first as often as there are some to come."""
    agent = AGENTS[name]
    config = small_config(agent, recent_batches=3, detector=f"{__name__}:noted")
    config = jax.tree.map(jnp.float32, config)
    state, batch = agent.init(config, SPEC, KEY), random_batch(SPEC, KEY)
    SEEN.clear()
    shares = []
    for number in range(1, 6):
        batch = batch._replace(obs=jnp.full_like(batch.obs, number))
        state, metrics = updater(agent)(config, SPEC, state, batch, KEY)
        jax.effects_barrier()
        shares.append(float(metrics["ood_share"]))
    expected = [[1, 1, 1], [2, 1, 1], [3, 2, 1], [4, 3, 2], [5, 4, 3]]
    assert [sorted(rows) for rows in SEEN] == [sorted(np.repeat(e, T)) for e in expected]
    assert shares == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert state.memory.past.seen == 5 * T, "each rollout enters the reservoir once"


def counted(context: ContextSlice, recent: jax.Array, data: jax.Array) -> jax.Array:
    """Distances of a detector that writes down how much it is asked to judge."""
    jax.debug.callback(lambda: ASKED.append((len(recent), len(data))))
    return ood.everything(context, recent, data)


ASKED: list[tuple[int, int]] = []


@pytest.mark.parametrize(("rounds", "batches"), [(1, 1), (3, 1), (7, 4)])
def test_a_batch_of_anchors_is_wanted_from_so_many_draws_each(rounds: int, batches: int) -> None:
    """However much counts as recent; and a share 1/rounds that is OOD is enough to find them."""
    config = small_config(
        AGENTS["lcpo"], sampling_rounds=rounds, recent_batches=batches,
        detector=f"{__name__}:counted", buffer_size=4000,
    )  # fmt: skip
    past = buffers.reservoir_init(4000, (SPEC.obs_size,))
    past = buffers.reservoir_add(past, jnp.ones((4000, SPEC.obs_size)), KEY)
    batch, recent = jnp.zeros((T, SPEC.obs_size)), jnp.zeros((batches * T, SPEC.obs_size))
    ASKED.clear()
    found, _ = anchors.recall(config, SPEC, past, batch, recent, KEY, KEY)
    jax.effects_barrier()
    assert set(ASKED) == {(batches * T, rounds * T)}
    assert found.obs.shape == batch.shape
    np.testing.assert_array_equal(found.obs, 1.0)
    assert bool(found.found)

"""Anchors beyond the golden vectors: what may become one, and what counts as recent."""

from __future__ import annotations

from typing import Any

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
    memory, recent = anchors.memory_init(config, SPEC), jnp.zeros((batches * T, SPEC.obs_size))
    memory = anchors.remember(memory, jnp.ones((4000, SPEC.obs_size)), None, KEY)
    ASKED.clear()
    found = anchors.recall(config, SPEC, memory, recent, T, KEY)
    jax.effects_barrier()
    assert set(ASKED) == {(batches * T, rounds * T)}
    assert found.obs.shape == (T, SPEC.obs_size)
    np.testing.assert_array_equal(found.obs, 1.0)
    assert bool(found.found)


def test_what_was_read_does_not_decide_what_is_kept() -> None:
    """The draws of the reservoir are those of its key, whatever the anchors were."""
    config = small_config(AGENTS["lcpo"])
    obs = jnp.arange(4.0 * T * SPEC.obs_size).reshape(-1, SPEC.obs_size)
    full = anchors.remember(anchors.memory_init(config, SPEC), obs, None, KEY)
    found = [
        anchors.remember(full, 1000.0 + obs, None, KEY, read)
        for read in (
            None,
            anchors.Anchors(obs, jnp.bool_(True)),
            anchors.Anchors(-obs, jnp.bool_(0)),
        )
    ]
    plain = buffers.reservoir_add(full.past, 1000.0 + obs, KEY)
    for memory in found:
        np.testing.assert_array_equal(memory.past.items, plain.items)
        assert memory.past.seen == 8 * T


@pytest.mark.parametrize(
    ("name", "runs"),
    [("lcpo", None), ("lcpo", 3), pytest.param("lcpo-plus", 3, marks=pytest.mark.learn)],
)
def test_the_reservoir_is_written_in_place(name: str, runs: int | None) -> None:
    """Updates in a loop, of one run and of several, need far less memory than a copy of it."""
    agent = AGENTS[name]
    config = small_config(agent, buffer_size=100_000)

    def several(state: Any, batch: Any) -> Any:
        def one(state: Any, key: jax.Array) -> tuple[Any, None]:
            return agent.update(config, SPEC, state, batch, key)[0], None

        return jax.lax.scan(one, state, jax.random.split(KEY, 3))[0]

    state = jax.eval_shape(lambda: agent.init(config, SPEC, KEY))
    batch = jax.eval_shape(lambda: random_batch(SPEC, KEY))
    if runs is not None:
        several = jax.vmap(several)
        state, batch = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((runs, *x.shape), x.dtype), (state, batch)
        )
    compiled = jax.jit(several, donate_argnums=0).lower(state, batch).compile()
    used = compiled.memory_analysis()
    assert used is not None
    assert used.temp_size_in_bytes < 0.5 * state.memory.past.items.size * 4


def test_a_reservoir_holds_trees() -> None:
    """Each leaf as a reservoir of that leaf alone would; one draw gives whole items."""
    tree = {"obs": jnp.arange(40.0).reshape(20, 2), "reward": jnp.arange(20.0)}
    items = {"obs": jnp.zeros((8, 2)), "reward": jnp.zeros(8)}
    both = buffers.Reservoir(items, jnp.int32(0))
    alone = buffers.reservoir_init(8, (2,))
    for number in range(3):
        key = jax.random.key(number)
        both = buffers.reservoir_add(both, tree, key)
        alone = buffers.reservoir_add(alone, tree["obs"], key)
    np.testing.assert_array_equal(both.items["obs"], alone.items)
    drawn, found, _ = ood.sample_ood(both, lambda row: row["reward"], -1.0, 30, 5, KEY)
    assert bool(found)
    np.testing.assert_array_equal(drawn["obs"][:, 0], 2.0 * drawn["reward"])

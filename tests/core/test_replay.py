"""Replay gives back what it was given: layouts, worlds, episode ends, the ring, the draw."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from replay_cases import COMPACT, SPECS, T, add, rollout, stream

from lcpo.agents import AGENTS
from lcpo.config import resolve
from lcpo.core import replay
from lcpo.envs.pendulum import Pendulum
from lcpo.run.drive import rollout as drive
from lcpo.run.drive.base import Program, Run
from lcpo.types import Spec, Transition

rows_of = jax.jit(replay.replay_rows, static_argnums=1)


def filled(spec: Spec, data: Transition, capacity: int, num_extra: int = 0) -> replay.Replay:
    """A replay that was given `data`, rollout by rollout."""
    memory = replay.replay_init(spec, capacity * spec.num_worlds, T, num_extra)
    for number in range(len(data.reward) // T):
        memory = add(memory, spec, rollout(data, number))
    return memory


def assert_rows(memory: replay.Replay, spec: Spec, data: Transition, steps: np.ndarray) -> None:
    """Steps `steps` of all worlds come back, bit for bit."""
    for world in range(spec.num_worlds):
        row = jnp.asarray(steps % memory.num_rows)
        found = rows_of(memory, spec, row, jnp.full(len(steps), world))
        expected = jax.tree.map(lambda x, w=world: x[steps, w], data)
        for name, a, b in zip(Transition._fields, found, expected, strict=True):
            if name not in ("extra", "readings", "running"):
                assert a.dtype == b.dtype, name
                np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_was_given_comes_back(spec: Spec) -> None:
    """From row 0, whose history lies before the run, to the newest, whose successor lies ahead."""
    data = stream(spec, 5 * T)
    memory = filled(spec, data, 5 * T)
    assert_rows(memory, spec, data, np.arange(5 * T))


@pytest.mark.parametrize("name", ["two worlds", "elapsed and weight"])
def test_blocks_are_consecutive_and_bring_what_was_kept_with_them(name: str) -> None:
    """In a ring that has closed: every block of the newest 9 steps, in time's order, is drawn."""
    spec = SPECS[name]
    data = stream(spec, 5 * T)
    extra = jnp.arange(float(2 * data.reward.size)).reshape(*data.reward.shape, 2)
    data = data._replace(extra=extra)
    memory = filled(spec, data, 9, num_extra=2)
    drawn = replay.replay_blocks(memory, spec, 200, 6, jax.random.key(0))
    step = np.asarray(drawn.extra[..., 0] // (2 * spec.num_worlds)).astype(int)  # [200, 6, N]
    np.testing.assert_array_equal(step - step[:, :1], np.zeros_like(step) + np.arange(6)[:, None])
    for world in range(spec.num_worlds):
        starts, counts = np.unique(step[:, 0, world], return_counts=True)
        np.testing.assert_array_equal(starts, 5 * T - 9 + np.arange(4))
        assert counts.min() > 25, "each start has a probability of 1/4"
        expected = jax.tree.map(lambda x, w=world: x[step[..., w], w], data)
        found = jax.tree.map(lambda x, w=world: x[:, :, w], drawn)
        jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("name", ["compact", "two worlds", "whole"])
@pytest.mark.parametrize("capacity", [8, 9])
def test_a_ring_keeps_the_newest(name: str, capacity: int) -> None:
    """All of the newest `capacity` steps, at every point of the way, and no others are drawn."""
    spec = SPECS[name]
    data = stream(spec, 12 * T)
    memory, live = replay.replay_init(spec, capacity * spec.num_worlds, T), np.arange(0)
    for number in range(12):
        memory = add(memory, spec, rollout(data, number))
        steps = (number + 1) * T
        live = np.arange(max(steps - capacity, 0), steps)
        assert_rows(memory, spec, data, live)
    drawn = replay.replay_sample(memory, spec, 2000, jax.random.key(0))
    assert set(np.asarray(drawn.reward)) == set(np.asarray(data.reward[live]).ravel())


def test_the_layout_is_that_of_init() -> None:
    """What a later spec says of contexts does not matter."""
    for made, later in ((True, False), (False, True)):
        spec = COMPACT._replace(contiguous_contexts=made)
        data = stream(spec, 3 * T)
        memory = filled(spec, data, 3 * T)
        assert_rows(memory, spec._replace(contiguous_contexts=later), data, np.arange(3 * T))


def test_whole_observations_survive_a_jump_of_the_trace() -> None:
    """What the compact layout cannot do: contexts that are no neighbours'."""
    spec = COMPACT._replace(contiguous_contexts=False)
    data = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), stream(spec, T), stream(spec, T, 1))
    memory = filled(spec, data, 2 * T)
    assert_rows(memory, spec, data, np.arange(2 * T))


def test_the_draw_is_uniform() -> None:
    """Over steps and worlds: chi-squared with 39 degrees of freedom, 99.9 % below 72."""
    spec = SPECS["two worlds"]
    data = stream(spec, 9 * T)
    memory = filled(spec, data, 20)
    drawn = replay.replay_sample(memory, spec, 40_000, jax.random.key(1))
    live = np.sort(np.asarray(data.reward[-20:]).ravel())
    counts = np.bincount(np.searchsorted(live, np.asarray(drawn.reward)), minlength=40)
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 72.0


def test_every_one_of_20_million_steps_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 2^24 float32 has even numbers only: half of the newest steps would never be seen."""
    count = 20_000_000
    shape = jax.eval_shape(lambda: replay.replay_init(COMPACT, count, 200))
    memory = shape._replace(added=jnp.int32(count), capacity=jnp.int32(count))
    monkeypatch.setattr(replay, "replay_rows", lambda memory, spec, row, world: row)
    rows: Any = replay.replay_sample(memory, COMPACT, 100_000, jax.random.key(2))
    late = np.asarray(rows)[np.asarray(rows) > 2**24]
    assert 0.15 < len(late) / 100_000 < 0.18
    assert 0.48 < (late % 2).mean() < 0.52
    assert 0 <= rows.min() < rows.max() < count


def test_a_transition_of_the_pendulum_takes_38_bytes() -> None:
    shapes = jax.eval_shape(lambda: replay.replay_init(Pendulum().spec, 20_000_000, 200))
    total = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))
    assert 38.0 <= total / 20_000_000 < 38.01


def test_rollouts_that_do_not_fit_are_refused() -> None:
    memory = replay.replay_init(COMPACT, 100, T)
    with pytest.raises(ValueError, match="a rollout of 5 steps does not fit"):
        replay.replay_add(memory, COMPACT, stream(COMPACT, 5))


@pytest.mark.learn
def test_the_pendulum_keeps_its_promise() -> None:
    """Through the driver: resets in mid-rollout, and a trace that ends and starts again."""
    agent, env = AGENTS["ddqn"], Pendulum(max_steps=7)
    config = resolve(agent.config(rollout_length=10, buffer_size=60, hidden=(4,)), 8_000_000)
    trace = np.random.default_rng(0).normal(size=(35, 2)).astype(np.float32)
    contexts = drive.load_contexts(trace, 0, 61, env.spec.context.lags)
    program, run = Program(agent, env.spec), Run(config, env, jnp.int32(0))
    state = drive.init_run(program, run, contexts)
    memory, batches = state.agent.memory, []
    for i in range(6):
        first, key = jnp.int32(10 * i), jax.random.key(i)
        worlds, batch = drive.rollout(program, run, state, contexts, first, key)
        state = state._replace(worlds=worlds)
        memory = replay.replay_add(memory, env.spec, batch)
        batches.append(batch)
    data = jax.tree.map(lambda *x: jnp.concatenate(x), *batches)
    assert data.truncated.sum() >= 8
    assert_rows(memory, env.spec, data, np.arange(60))

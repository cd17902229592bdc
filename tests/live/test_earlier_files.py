"""Learners that the version before has saved.

`files/`: a2c.npz and ddqn.npz are learners of one stream after 20 acts, the last without its
reward; two.npz is one of two streams (`num_worlds=2`). EXPECTED: what that version made of the
next 31 steps, on a CPU.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from small_agents import assert_same

from lcpo import InputError, Learner
from lcpo.run.store.checkpoint import flatten, without_memory

FILES = Path(__file__).parent / "files"
EXPECTED = {"a2c": "3c3ca450257e9a1a", "ddqn": "bfc2d84371cfab9f"}


def numbers(t: int) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(t)
    return rng.normal(size=1), rng.normal(size=2), float(rng.normal())


def checksum(learner: Learner) -> str:
    """Of all that is not rounded in the last digits: machines differ in these."""
    found = hashlib.sha256()
    for name, x in sorted(flatten(without_memory(learner.state.agent)).items()):
        found.update(f"{name}{x.shape}{np.round(x.astype(float), 3) + 0.0}".encode())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("agent", EXPECTED)
def test_one_stream_continues_as_it_would_have(agent: str) -> None:
    learner = Learner.load(FILES / f"{agent}.npz")
    assert (learner.updates, learner.stats().waiting, learner.stats().open) == (2, 3, 1)
    learner.observe(numbers(191)[2])
    for t in range(20, 50):
        x, context, reward = numbers(t * 10 + 1)
        learner.act(x, context)
        if t % 7 == 6:
            learner.observe(reward, x, truncated=True, next_context=context)
        else:
            learner.observe(reward)
    assert learner.updates == 6
    assert checksum(learner) == EXPECTED[agent]


def test_two_streams_continue_in_one_sequence(tmp_path: Path) -> None:
    """The replay keeps the steps of both worlds."""
    learner = Learner.load(FILES / "two.npz")
    stats = learner.stats()
    assert (learner.spec.num_worlds, learner.config.rollout_length) == (1, 16)
    assert (stats.streams, stats.updates, stats.waiting, stats.open) == (2, 2, 2, 2)
    memory = learner.state.agent.memory
    assert (int(memory.added), int(memory.capacity), memory.rows.floats.shape[1]) == (32, 40, 1)
    obs = np.asarray(memory.rows.floats)[:32, 0, 0]
    # That version left out the step with which the first stream was ahead of the second.
    times = [(t, t) if t < 8 else (t + 1, t) for t in range(16)]
    expected = [numbers(10 * t + n)[0][0] for pair in times for n, t in enumerate(pair, start=1)]
    np.testing.assert_allclose(obs, expected, 1e-6)
    learner.save(tmp_path / "x.npz")
    again = Learner.load(tmp_path / "x.npz")
    assert_same(again.state, learner.state)
    learner.observe(1.0, stream="bb")
    for t in range(20, 40):
        for name in ("a", "bb", "new"):
            x, context, reward = numbers(10 * t)
            learner.act(x, context, name)
            learner.observe(reward, stream=name)
    assert learner.updates == 5


def test_a_schema_of_the_future_is_refused(tmp_path: Path) -> None:
    from lcpo.run.store.files import load_about, save_bundle

    about, arrays = load_about(FILES / "a2c.npz")
    rest = {k: v for k, v in about.items() if k not in ("schema", "digest", "arrays")}
    save_bundle(tmp_path / "x.npz", 3, rest, arrays)
    with pytest.raises(InputError, match="has schema 3, this version reads 2"):
        Learner.load(tmp_path / "x.npz")

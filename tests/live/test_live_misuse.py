"""300 wrong calls of a live agent: one line each, and nothing changes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_examples import SMALL, SPEC, Clock, World, opened, play

from lcpo.errors import InputError
from lcpo.live import Learner, Switchback

OBS: list[Any] = [
    None, "x", [], [1.0], [1.0, 2.0, 3.0], [math.nan, 0.0], [math.inf, 0.0], [[0.0, 0.0]], {}, 1,
    ["a", "b"], [None, 0.0], np.zeros((2, 2)), [1e39, 0.0], [1j, 0.0],
]  # fmt: skip
CONTEXTS: list[Any] = ["x", [1.0, 2.0], [math.nan], {}, [[1.0]], [None]]
STREAMS: list[Any] = [None, "", 3, [], b"0", 1.5]
IDS: list[Any] = [-1, 1.5, "0", 10**9, True, [0], math.nan, 2**70]
NUMBERS: list[Any] = [math.nan, math.inf, "1", [1.0], 1e39, True, {}, 1j]
NOT_TEXT: list[Any] = [3, b"x", object(), ["x"]]
ACTIONS: list[Any] = [4, -1, [0, 1], 0.5, "x", math.nan, [], {}]


def calls(agent: Any, rng: random.Random) -> list[Callable[[], object]]:
    """One wrong call of each kind, with random values."""
    pick, good = rng.choice, ([0.0, 0.0], [1.0])
    return [
        lambda: agent.act(pick(OBS), [1.0], stream="new"),
        lambda: agent.act([0.0, 0.0], pick(CONTEXTS), stream="new"),
        lambda: agent.act(*good, stream=pick(STREAMS)),
        lambda: agent.act(*good, stream="new", taken=pick([0, *ACTIONS])),
        lambda: agent.act(*good, stream="new", deterministic=pick([1, "yes", None])),
        lambda: agent.act(*good),  # it waits for its reward
        lambda: agent.observe(pick(NUMBERS)),
        lambda: agent.observe(1.0, pick(OBS[1:]), next_context=[1.0]),
        lambda: agent.observe(1.0, [0.0, 0.0], next_context=pick(CONTEXTS)),
        lambda: agent.observe(1.0, id=pick(IDS)),
        lambda: agent.observe(1.0, stream=pick(["nobody", *STREAMS])),
        lambda: agent.observe(1.0, terminated=pick([True, 1, "no"])),
        lambda: agent.observe(1.0, action=pick(ACTIONS)),
        lambda: agent.observe(1.0, elapsed=pick([-1.0, *NUMBERS])),
        lambda: agent.observe(1.0, readings=pick([[1.0], "x", 3])),
        lambda: agent.observe(),
        lambda: agent.observe(2.0, id=0),  # another reward than before
        lambda: agent.discard(pick(["nobody", *STREAMS])),
        lambda: agent.discard(id=pick(IDS)),
        lambda: agent.end(pick(["nobody", *STREAMS])),
        lambda: agent.set_mode(pick(["Live", "", None, 3, []])),
        lambda: agent.set_mode("switchback", pick([None, 3, "1h"])),
        lambda: agent.set_mode("switchback", Switchback(pick(NUMBERS))),
        lambda: agent.rollback(pick([3, -1, "x", 1.5, 10**9])),
        lambda: agent.act(*good, stream="new", trace=pick(NOT_TEXT)),
        lambda: agent.observe(1.0, trace=pick(NOT_TEXT)),
        lambda: agent.set_mode("live", why=pick([None, *NOT_TEXT])),
        lambda: agent.set_mode("live", pick([3, "1h"])),
        lambda: agent.rollback(0, pick([None, *NOT_TEXT])),
    ]


def test_300_wrong_calls_change_nothing(tmp_path: Path) -> None:
    agent, world, rng = opened(tmp_path), World(), random.Random(0)
    play(agent, world, 12)
    agent.act(*world.seen)
    digest, stats = agent.digest(), agent.stats()
    count = 0
    while count < 300:
        for call in calls(agent, rng):
            with pytest.raises(InputError) as refused:
                call()
            assert "\n" not in str(refused.value)
            assert len(str(refused.value)) > 15
            count += 1
            assert agent.digest() == digest, count
    assert agent.stats() == stats
    assert agent.observe(world.play(1)) == "ok"
    agent.close()


@pytest.mark.parametrize("time", [math.nan, math.inf, "noon", None])
def test_a_clock_without_a_time_is_refused_before_anything_is_written(
    tmp_path: Path, time: Any
) -> None:
    clock, world = Clock(), World()
    agent, learner = opened(tmp_path, clock), Learner("a2c", SPEC, SMALL, clock=clock)
    agent.act(*world.seen)
    learner.act(*world.seen)
    digest, sequence, clock.now = agent.digest(), agent.stats().sequence, time
    for wrong in (
        lambda: agent.act(*world.seen), lambda: agent.observe(1.0, id=0), agent.discard, agent.end,
        lambda: agent.set_mode("frozen"), lambda: agent.rollback(0), agent.checkpoint,
        lambda: learner.observe(1.0),
    ):  # fmt: skip
        with pytest.raises(InputError, match="the time of clock"):
            wrong()
    clock.now = 1.0
    assert (agent.digest(), agent.stats().sequence) == (digest, sequence)
    agent.close()

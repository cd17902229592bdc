"""Streams that come, fall silent and go, and rewards that are late, lost, repeated or reordered."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest
from live_agents import ONE, SEES
from oracle import Oracle

from lcpo import InputError, Learner
from lcpo.live import Event
from lcpo.live.state import Where
from lcpo.run.store.checkpoint import flatten

SIZE = 4


class Pair:
    """A learner and the oracle, which hear the same."""

    def __init__(self, rng: np.random.Generator, late: int | None, seconds: float | None) -> None:
        self.rng, self.now, self.events = rng, 0.0, list[Event]()
        missing = None if late is None or rng.random() < 0.5 else -3.0
        self.settings: dict[str, Any] = {"late": late, "late_seconds": seconds}
        self.settings["missing"] = "cut" if missing is None else missing
        self.learner = Learner(
            SEES, ONE, clock=lambda: self.now, record=self.events.append, **self.settings
        )
        self.oracle = Oracle(SIZE, late, seconds, missing)
        self.results: dict[str, int] = {}

    def numbers(self) -> tuple[float, list[float]]:
        """Features and context, different every time."""
        x, y, z = self.rng.integers(0, 10_000, 3).tolist()
        return float(x), [float(y), float(z)]

    def act(self, name: str) -> None:
        x, context = self.numbers()
        decision = self.learner.act([x], context, name)
        self.oracle.act(name, x, context, decision.action, self.now)
        assert decision.id == len(self.oracle.made) - 1
        self.check_batch()

    def observe(self, number: int, reward: float | None, successor: Any, end: str | None) -> str:
        expected = self.oracle.observe(number, reward, successor, end, self.now)
        given: dict[str, Any] = {}
        if successor is not None:
            given = {"next_obs": [successor[0]], "next_context": successor[1]}
        if end is not None:
            given[end] = True
        if expected == "error":
            with pytest.raises(InputError):
                self.learner.observe(reward, id=number, **given)
        else:
            assert self.learner.observe(reward, id=number, **given) == expected
        self.results[expected] = self.results.get(expected, 0) + 1
        self.check_batch()
        return expected

    def discard(self, name: str, number: int | None = None) -> None:
        self.learner.discard(name) if number is None else self.learner.discard(id=number)
        self.oracle.discard(name, number, self.now)
        self.check_batch()

    def end(self, name: str) -> None:
        self.learner.end(name)
        self.oracle.end(name, self.now)
        self.check_batch()

    def check_batch(self) -> None:
        """The newest update's steps, and the number of those that wait."""
        updates, stats = self.learner.updates, self.learner.stats()
        assert stats.closed == len(self.oracle.closed)
        assert (updates, stats.waiting) == divmod(stats.closed, SIZE)
        assert stats.open == sum(m.fate == "open" for m in self.oracle.made)
        if updates and stats.waiting == 0:
            expected = self.oracle.batch(updates - 1)
            steps = [m for m, _ in expected]
            batch = jax.tree.map(lambda x: np.asarray(x)[:, 0], self.learner.state.agent.batch)
            np.testing.assert_array_equal(batch.obs, [m.obs for m in steps])
            np.testing.assert_array_equal(batch.next_obs, [m.successor for m in steps])
            np.testing.assert_array_equal(batch.action, [m.action for m in steps])
            np.testing.assert_array_equal(batch.reward, [m.reward for m in steps])
            np.testing.assert_array_equal(batch.terminated, [m.ended[0] for m in steps])
            np.testing.assert_array_equal(batch.truncated, [cut for _, cut in expected])
            if not self.oracle.is_alone(updates - 1):
                np.testing.assert_allclose(batch.running, [m.running for m in steps], 1e-6)

    def check_replay(self) -> None:
        """The recorded events make the same learner."""
        again = Learner(SEES, ONE, **self.settings)
        again.replay(self.events)
        assert again.state.digest() == self.learner.state.digest()


def end_of(rng: np.random.Generator) -> str | None:
    return [None, None, None, "terminated", "truncated"][rng.integers(5)]


def test_twenty_streams_that_fall_silent_restart_and_end() -> None:
    """In lock step, each with its own rewards; whoever is silent holds nobody up."""
    rng = np.random.default_rng(0)
    pair = Pair(rng, None, None)
    waiting: dict[str, int] = {}
    awake = {f"s{i}": True for i in range(20)}
    for _ in range(1500):
        name = f"s{rng.integers(20)}"
        if rng.random() < 0.03:
            awake[name] = not awake[name]
        if not awake[name]:
            continue
        if rng.random() < 0.03 and name in pair.oracle.lives:
            pair.end(name)
            waiting.pop(name, None)
        elif name in waiting and rng.random() < 0.04:
            pair.discard(name)
            del waiting[name]
        elif name in waiting:
            number, end = waiting.pop(name), end_of(rng)
            given = pair.numbers() if end or rng.random() < 0.3 else None
            assert pair.observe(number, float(rng.integers(100)), given, end) == "ok"
        else:
            pair.act(name)
            waiting[name] = len(pair.oracle.made) - 1
    assert pair.learner.updates > 100
    assert pair.oracle.begun > 30
    pair.check_replay()


def play_schedule(seed: int) -> Pair:
    """Some streams, whose rewards are late, lost, repeated or reordered."""
    rng = np.random.default_rng(seed)
    seconds = [None, 3.0, 10.0][rng.integers(3)]
    pair = Pair(rng, int(rng.integers(0, 6)), seconds)
    names = [f"s{i}" for i in range(rng.integers(1, 4))]
    for _ in range(50):
        pair.now += float(rng.exponential(0.5))
        name, dice = names[rng.integers(len(names))], rng.random()
        if dice < 0.45 or not pair.oracle.made:
            pair.act(name)
            continue
        # Mostly a recent decision: duplicates and late ones among them.
        number = max(0, len(pair.oracle.made) - 1 - int(rng.geometric(0.35) - 1))
        made = pair.oracle.made[number]
        if dice < 0.9:
            is_last = made.place == made.life.places - 1 and made.successor is None
            is_alive = pair.oracle.lives.get(made.name) is made.life
            end = end_of(rng) if is_last and is_alive else None
            given = pair.numbers() if end or (is_last and rng.random() < 0.3) else None
            reward = float(rng.integers(3)) if given is None or rng.random() < 0.7 else None
            pair.observe(number, reward, given, end)
            if rng.random() < 0.2:
                pair.observe(number, reward, given, end)
        elif dice < 0.95 and made.fate == "open" and not pair.oracle.seconds:
            pair.discard(made.name, number)
        elif dice > 0.98 and made.name in pair.oracle.lives:
            pair.end(made.name)
    return pair


def check_schedules(first: int, last: int) -> None:
    results: dict[str, int] = {}
    for seed in range(first, last):
        pair = play_schedule(seed)
        for result, count in pair.results.items():
            results[result] = results.get(result, 0) + count
        if seed % 10 == 0:
            pair.check_replay()
    assert results.keys() == {"ok", "late", "duplicate", "expired", "discarded", "error"}


def test_schedules_of_rewards() -> None:
    check_schedules(0, 60)


@pytest.mark.learn
def test_a_thousand_schedules_of_rewards() -> None:
    check_schedules(60, 1060)


def test_open_decisions_cost_the_same_however_many_there_are() -> None:
    """A change shares all parts but one with what was before, and is otherwise that of a dict."""
    rng, plain, found = random.Random(0), dict[int, str](), Where()
    for number in range(2000):
        before, old = found, dict(plain)
        plain[number] = f"s{number % 7}"
        found = found.added(number, plain[number])
        if rng.random() < 0.3:
            gone = rng.sample(sorted(plain), min(2, len(plain)))
            found = found.without(gone)
            plain = {name: x for name, x in plain.items() if name not in gone}
        assert before == old
    assert found == plain
    assert len(found) == len(plain)
    assert not [number for number in range(2000) if (number in found) != (number in plain)]
    assert flatten(found) == flatten(plain)  # so digests are those of a dict
    assert found == Where(plain) == jax.tree.map(str, found)
    for changed in (found.added(2000, "s"), found.without([max(plain)])):
        mine, others = found._parts, changed._parts.items()
        assert sum(part is not mine.get(place) for place, part in others) <= 1
    assert Where({5: "s"}).without([5]) == {}

"""Calls of the wrong order, type, shape or id: an error of one line, and an unchanged state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from live_agents import ONE, SEES

from lcpo import InputError, Learner

NAN, INF = float("nan"), float("inf")
NO_NUMBERS: list[Any] = ["1", b"1", [], {}, object(), [[1.0, 2.0], [3.0]], 1j, [None]]
NO_SCALARS: list[Any] = [*NO_NUMBERS, NAN, INF, -INF, 1e40, True, np.zeros(2), [1.0, 2.0]]
NO_FLAGS: list[Any] = [2, "no", None, [], 0.5, np.zeros(2)]
NO_NAMES: list[Any] = ["", 0, None, b"a", [], {}, 1.5, ("a",)]
NO_IDS: list[Any] = [-1, 99, 10**30, 0.5, "0", [], {}, True, NAN, np.zeros(2)]
NO_OBS: list[Any] = [*NO_NUMBERS, NAN, [NAN], [INF], [1e39], [0.0, 1.0], [[0.0]], 0.0]
NO_CONTEXTS: list[Any] = [*NO_NUMBERS, [NAN, 0.0], [0.0], [0.0, 0.0, 0.0], 0.0, [[0.0, 0.0]]]
NO_ACTIONS: list[Any] = ["0", [3], [-1], [0.5], [0, 0], [NAN], {}, object(), [[0]]]

NOW: dict[str, Any] = {"obs": [0.0], "context": [0.0, 0.0]}
NEXT: dict[str, Any] = {"next_obs": [0.0], "next_context": [0.0, 0.0]}
TARGETS: list[dict[str, Any]] = [{"stream": "a"}, {"id": 2}]
Call = Callable[[Learner], Any]


def wrong_calls() -> list[Call]:
    """About a learner whose stream "a" waits for the reward of decision 2."""
    calls: list[Call] = []

    def each(bad: list[Any], call: Callable[[Learner, Any], Any]) -> None:
        calls.extend(lambda learner, x=x: call(learner, x) for x in bad)

    for stream in ("b", "new"):
        each([*NO_OBS, None], lambda x, bad, s=stream: x.act(bad, [0.0, 0.0], s))
        each(NO_CONTEXTS, lambda x, bad, s=stream: x.act([0.0], bad, s))
        each(NO_ACTIONS, lambda x, bad, s=stream: x.act(**NOW, stream=s, taken=bad))
        each(NO_FLAGS, lambda x, bad, s=stream: x.act(**NOW, stream=s, deterministic=bad))
    each(NO_NAMES, lambda x, bad: x.act(**NOW, stream=bad))
    each([{}], lambda x, bad: x.act(**NOW, stream="a"))
    each([{}], lambda x, bad: x.act(**NOW, stream="b", deterministic=True))
    for target in TARGETS:
        each(NO_SCALARS, lambda x, bad, t=target: x.observe(bad, **t))
        each(NO_OBS, lambda x, bad, t=target: x.observe(0.0, bad, next_context=[0.0, 0.0], **t))
        each(NO_CONTEXTS, lambda x, bad, t=target: x.observe(0.0, [0.0], next_context=bad, **t))
        each(NO_FLAGS, lambda x, bad, t=target: x.observe(0.0, terminated=bad, **NEXT, **t))
        each(NO_FLAGS, lambda x, bad, t=target: x.observe(0.0, truncated=bad, **NEXT, **t))
        each(NO_ACTIONS, lambda x, bad, t=target: x.observe(0.0, action=bad, **t))
        each([*NO_SCALARS, -1.0], lambda x, bad, t=target: x.observe(0.0, elapsed=bad, **t))
        each([[1.0], "x"], lambda x, bad, t=target: x.observe(0.0, readings=bad, **t))
        ends: list[Any] = [{"terminated": True}, {"truncated": True}, {"next_context": [0.0, 0.0]}]
        each(ends, lambda x, bad, t=target: x.observe(0.0, **bad, **t))
        alone: list[Any] = [{}, {"elapsed": 2.0}, {"action": [0]}, {"readings": [1.0]}]
        each(alone, lambda x, bad, t=target: x.observe(None, **bad, **t))
    each([*NO_NAMES, "b", "c", "new"], lambda x, bad: x.observe(0.0, stream=bad))
    each(NO_IDS, lambda x, bad: x.observe(0.0, id=bad))
    each([5.0, -5.0], lambda x, bad: x.observe(bad, id=0))  # it was 1.0
    each([NEXT, {**NEXT, "terminated": True}], lambda x, bad: x.observe(1.0, id=0, **bad))
    each(NO_IDS, lambda x, bad: x.discard(id=bad))
    each([0, 1], lambda x, bad: x.discard(id=bad))  # closed before
    each([*NO_NAMES, "c", "new"], lambda x, bad: x.discard(bad))
    each([*NO_NAMES, "c", "new"], lambda x, bad: x.end(bad))
    return calls


def test_misuse_is_told_in_a_line_and_changes_nothing() -> None:
    learner = Learner(SEES, ONE)
    learner.act(**NOW, stream="a")
    learner.observe(1.0, stream="a")
    learner.act(**NOW, stream="a")
    learner.observe(1.0, stream="a", terminated=True, **NEXT)
    learner.act(**NOW, stream="a")
    learner.act(**NOW, stream="b")
    learner.observe(1.0, stream="b")
    learner.observe(None, stream="b", **NEXT)
    before, calls = learner.state.digest(), wrong_calls()
    assert len(calls) >= 300
    for number, call in enumerate(calls):
        with pytest.raises(InputError) as caught:
            call(learner)
        assert len(str(caught.value).splitlines()) == 1, number
        assert learner.state.digest() == before, (number, str(caught.value))
    learner.observe(1.0, stream="a")  # it still works
    assert learner.stats().open == 1


BAD_SETTINGS: list[dict[str, Any]] = [
    {"learn": "later"}, {"learn": None}, {"late": -1}, {"late": 0.5}, {"late": "x"},
    {"late_seconds": 1.0}, {"late": 1, "late_seconds": -1.0}, {"late": 1, "late_seconds": NAN},
    {"missing": 0.0}, {"late": 1, "missing": NAN}, {"late": 1, "missing": "drop"},
    {"late": 1, "missing": None}, {"clock": 3}, {"clock": None}, {"record": 3},
]  # fmt: skip


def test_wrong_settings_are_told() -> None:
    for given in BAD_SETTINGS:
        with pytest.raises(InputError) as caught:
            Learner(SEES, ONE, **given)
        assert len(str(caught.value).splitlines()) == 1, given


def test_an_event_that_cannot_be_recorded_does_not_happen() -> None:
    """Such as an `OSError` of a full disk."""
    full = False

    def record(event: Any) -> None:
        if full:
            raise OSError("no space left")

    learner = Learner(SEES, ONE, late=3, record=record)
    learner.act(**NOW)
    learner.act(**NOW, stream="b")
    before, full = learner.state.digest(), True
    calls: list[Call] = [
        lambda x: x.act(**NOW), lambda x: x.act(**NOW, stream="c"), lambda x: x.observe(1.0),
        lambda x: x.observe(1.0, id=1), lambda x: x.discard(), lambda x: x.end("b"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(OSError, match="no space left"):
            call(learner)
        assert learner.state.digest() == before
    full = False
    assert learner.observe(1.0) == "ok"


def test_a_wild_reward_does_not_end_learning() -> None:
    """Its rollout is dropped, which is told; the next one is learned from."""
    learner = Learner("a2c", ONE, {"rollout_length": 8, "hidden": (4,)})
    rng = np.random.default_rng(0)

    def play() -> None:
        for t in range(40):
            learner.act(**NOW)
            learner.observe(1e19 if t == 11 else float(rng.normal()))

    with pytest.warns(RuntimeWarning, match="reward outlier is 1e"):
        play()
    learner.act(**NOW)
    assert (learner.updates, learner.stats().dropped_updates) == (4, 1)
    assert 0.1 < learner.metrics["reward_scale"] < 1.0


@pytest.mark.filterwarnings("ignore:update .* was dropped:RuntimeWarning")
def test_a_wild_reward_of_one_of_several_streams_ends_with_its_stream() -> None:
    """As the runbook says: until then its running return spoils rollouts."""
    dropped = []
    for does_end in (False, True):
        learner = Learner("a2c", ONE, {"rollout_length": 8, "hidden": (4,)})
        rng = np.random.default_rng(0)
        for t in range(300):
            for stream in "ab":
                learner.act(**NOW, stream=stream)
                wild = (t, stream) == (50, "a")
                learner.observe(1e19 if wild else float(rng.normal()), stream=stream)
            if does_end and t == 60:
                learner.end("a")
        dropped.append(learner.stats().dropped_updates)
    assert dropped[0] > 50
    assert 1 <= dropped[1] <= 5

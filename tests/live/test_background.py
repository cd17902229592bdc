"""Learning in a thread of its own: nobody waits for it, and it makes the same learner."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_agents import FRAGILE, ONE, SEES

from lcpo import InputError, Learner
from lcpo.live import Event, core
from lcpo.live.learning import Learning

SMALL = {"rollout_length": 8, "hidden": (4,)}


def play(learner: Learner, steps: int, stream: str = "0", seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        learner.act(rng.normal(size=1), rng.normal(size=2), stream)
        learner.observe(float(rng.normal()), stream=stream)


class Gate:
    """Updates wait until it opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.entered, compute = threading.Event(), threading.Event(), Learning.compute

        def gated(*arguments: Any) -> Any:
            self.entered.set()
            assert self.opened.wait(60.0)
            return compute(*arguments)

        monkeypatch.setattr(Learning, "compute", gated)


def test_nobody_waits_for_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    learner = Learner("a2c", ONE, SMALL, learn="background")
    play(learner, 12)
    assert gate.entered.wait(60.0)
    play(learner, 60)  # while the first update goes on
    decision = learner.act([0.0], [0.0, 0.0])
    assert (decision.policy_version, learner.updates, learner.stats().waiting) == (0, 0, 72)
    gate.opened.set()
    assert learner.wait(60.0)
    assert learner.updates == 9
    learner.observe(0.0)
    assert learner.act([0.0], [0.0, 0.0]).policy_version == 9
    learner.close()
    with pytest.raises(InputError, match="the learner is closed"):
        learner.observe(0.0)


@pytest.mark.parametrize("agent", ["a2c", "ddqn"])
def test_events_make_the_same_learner_whatever_the_timing(agent: str, tmp_path: Path) -> None:
    """Four threads and learning beside them; then the events alone, one after the other."""
    more: dict[str, Any] = {}
    if agent == "ddqn":
        more = {"buffer_size": 40, "batch_size": 16, "random_steps": 8, "epsilon_steps": 400}
    events: list[Event] = []
    learner = Learner(agent, ONE, SMALL | more, learn="background", record=events.append)
    threads = [threading.Thread(target=play, args=(learner, 60, f"s{i}", i)) for i in range(4)]
    for thread in threads:
        thread.start()
    learner.save(tmp_path / "x.npz")  # in the middle of it
    for thread in threads:
        thread.join()
    assert learner.wait(60.0)
    assert learner.updates == (4 * 60 - 4) // 8
    again = Learner(agent, ONE, SMALL | more)
    again.replay(events)
    assert again.state.digest() == learner.state.digest()
    assert 0 <= Learner.load(tmp_path / "x.npz").updates <= learner.updates


def test_a_failed_update_in_the_background_is_dropped() -> None:
    """It is counted and explained, even where warnings are errors."""
    learner = Learner(FRAGILE, ONE, learn="background")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reward in (1.0, 666.0, 1e6, 1.0):
            for _ in range(4):
                learner.act([0.0], [0.0, 0.0])
                learner.observe(reward, [0.0], next_context=[0.0, 0.0])
        assert learner.wait(60.0)
    stats = learner.stats()
    assert (stats.updates, stats.dropped_updates) == (2, 2)
    assert "broken is inf" in str(stats.problem)
    assert float(learner.state.agent.total) == 8.0


def test_observations_wait_where_learning_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "BACKLOG", 3)
    gate = Gate(monkeypatch)
    learner = Learner(SEES, ONE, learn="background")
    done = threading.Event()

    def run() -> None:
        for _ in range(40):
            learner.act([0.0], [0.0, 0.0])
            learner.observe(0.0, [0.0], next_context=[0.0, 0.0])
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert gate.entered.wait(60.0)
    assert not done.wait(0.2)
    assert learner.stats().waiting == 12
    learner.act([0.0], [0.0, 0.0], "another")  # acting does not wait
    gate.opened.set()
    thread.join()
    assert learner.wait(60.0)
    assert learner.updates == 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise ValueError("mine")

    monkeypatch.setattr(core, "BACKLOG", 2)
    monkeypatch.setattr(core.Core, "_update", fails)
    learner = Learner("a2c", ONE, SMALL, learn="background")
    thread = threading.Thread(target=play, args=(learner, 40), daemon=True)
    thread.start()
    thread.join(60.0)
    assert not thread.is_alive()
    assert not learner.wait(60.0)
    assert "learning has ended: ValueError: mine" in str(learner.problem)
    learner.close()


def test_a_policy_that_cannot_be_read_is_a_failed_update(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner("a2c", ONE, SMALL, learn="background")
    with monkeypatch.context() as patch:
        patch.setattr(Learning, "snapshot", lambda *_: 1 / 0)
        play(learner, 9)
        assert learner.wait(60.0)
    play(learner, 9, seed=1)
    assert learner.wait(60.0)
    assert (learner.updates, learner.stats().dropped_updates) == (1, 1)
    assert "ZeroDivisionError" in str(learner.problem)
    learner.close()


def test_a_learner_that_is_dropped_ends_its_thread() -> None:
    learner = Learner(SEES, ONE, learn="background")
    (thread,) = [t for t in threading.enumerate() if t.name == "lcpo-learner" and t.is_alive()][-1:]
    gone = weakref.ref(learner)
    del learner
    gc.collect()
    assert gone() is None
    thread.join(60.0)
    assert not thread.is_alive()


def test_everything_is_compiled_before_it_is_used() -> None:
    """Nothing is traced after `warm_up`: neither for one stream nor for several."""
    learner = Learner("a2c", ONE, SMALL | {"gamma": 0.97})
    learner.warm_up()
    learn: Any = learner._core.learning.functions.learn
    traced = learn._cache_size()
    play(learner, 20, "a")
    play(learner, 20, "b")
    assert learner.updates == 4
    assert learn._cache_size() == traced

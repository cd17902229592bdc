"""What an operator meets: rollbacks in a row, a crash in the middle, rewards after a change."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_examples import SMALL, SPEC, Clock, World, crash, opened, play

from lcpo.errors import InputError
from lcpo.live import (
    Decide,
    Limits,
    LiveAgent,
    NotWritten,
    Rule,
    Switchback,
    core,
    replay,
    segments,
)
from lcpo.live import ledger as ledgers
from lcpo.live import log as logs
from lcpo.live import open as open_live
from lcpo.live.journal import Opened, Rollback, decode
from lcpo.live.log import Log, read
from lcpo.live.shadow import ServedLearning


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def earn(agent: LiveAgent, world: World, reward: float, steps: int) -> None:
    for _ in range(steps):
        agent.observe(reward, id=agent.act(*world.seen).id)


@pytest.mark.filterwarnings("ignore:rollback to version:RuntimeWarning")
def test_a_second_rollback_does_not_return_to_what_the_first_one_replaced(tmp_path: Path) -> None:
    world, rule = World(), Rule(margin=1.0, window=10)
    agent = opened(
        tmp_path, rollback=rule, version_every=1, mode="shadow", incumbent=lambda _: 1
    )  # fmt: skip
    earn(agent, world, 1.0, 20)
    agent.set_mode("live")
    earn(agent, world, 1.0, 24)
    while not agent.num_rollbacks:
        earn(agent, world, -1.0, 1)
    first = agent.policy_version
    assert first in agent.version_numbers()
    assert first - 1 in agent.version_numbers()  # a bad one
    agent.set_mode("frozen")
    earn(agent, world, 1.0, 10)
    assert agent.stats().good_version == first
    agent.set_mode("live")
    while agent.num_rollbacks < 2:
        earn(agent, world, -9.0, 1)
    found = [decode(record) for record in read(tmp_path / "log")]
    assert [x.version for x in found if isinstance(x, Rollback)][1] == first
    digest = agent.digest()
    agent.close()
    (tmp_path / "versions" / f"{first:010}.npz").unlink()
    assert replay(tmp_path).state.digest() == digest  # it is made again


def test_a_crash_in_a_rollback_loses_nothing_that_recovery_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, options = World(), dict[str, Any](version_every=1, keep_versions=1)
    agent = opened(tmp_path, **options)
    play(agent, world, 33)
    last = agent.policy_version
    with monkeypatch.context() as patch:  # killed after the event was written
        patch.setattr(LiveAgent, "_keep_version", lambda *_: None)
        patch.setattr(LiveAgent, "_try_checkpoint", lambda _: None)
        assert agent.rollback(last) == last + 1
    crash(agent)
    agent = opened(tmp_path, **options)
    assert agent.version_numbers() == [0, last, last + 1]
    play(agent, world, 30)
    crash(agent)
    agent = opened(tmp_path, **options)
    play(agent, world, 30)
    assert last in agent.version_numbers()  # the older of two checkpoints needs it
    digest = agent.digest()
    crash(agent)
    newest = max((tmp_path / "checkpoints").glob("*.npz"))
    newest.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="damaged"):
        agent = opened(tmp_path, **options)
    assert agent.digest() == digest
    agent.checkpoint()
    agent.checkpoint()
    play(agent, world, 30)
    assert last not in agent.version_numbers()
    agent.close()


def test_a_version_stays_until_two_checkpoints_include_the_return_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, options = World(), dict[str, Any](version_every=1, keep_versions=1)
    agent = opened(tmp_path, **options)
    play(agent, world, 33)
    last = agent.policy_version
    with monkeypatch.context() as patch:
        patch.setattr("lcpo.live.checkpoints.Checkpoints.save", full)
        with pytest.warns(RuntimeWarning, match="could not be written .No space left"):
            agent.rollback(last)
    for _ in range(2):
        play(agent, world, 20)
        assert last in agent.version_numbers()
        agent.checkpoint()
    play(agent, world, 20)
    assert last not in agent.version_numbers()
    agent.close()


def test_rewards_from_before_an_experiment_are_not_in_it(tmp_path: Path) -> None:
    clock, world, design = Clock(), World(), Switchback(300.0, seed=1)
    agent = opened(tmp_path, clock, mode="shadow", incumbent=lambda _: 1, late=50)

    def act(steps: int) -> list[int]:
        found = []
        for _ in range(steps):
            clock.now += 60.0
            found.append(agent.act(*world.seen).id)
        return found

    def observe(reward: float, numbers: list[int]) -> None:
        for number in numbers:
            agent.observe(reward, id=number)

    before = act(20)
    agent.set_mode("switchback", Switchback(300.0, seed=9))
    other = act(10)
    agent.set_mode("switchback", design)
    observe(-100.0, before + other)
    mine = act(40)
    crash(agent)
    agent = opened(tmp_path, clock, incumbent=lambda _: 1)
    observe(1.0, mine[:15])
    agent.set_mode("live")
    observe(1.0, mine[15:] + act(10))  # of the experiment, though it is over; and others
    assert sum(total.number for total in agent._core.desk.blocks.values()) == 40
    agent.set_mode("switchback")
    found = agent.stats().switchback
    assert found is not None
    assert (found.policy, found.incumbent, found.difference.mean) == (1.0, 1.0, 0.0)
    assert ledgers.load(tmp_path).experiments[-1].result == found
    agent.close()


def test_a_design_that_returns_is_another_experiment(tmp_path: Path) -> None:
    """In a report as for the agent, which begins to count again."""
    clock, world, design = Clock(), World(), Switchback(300.0, seed=1)
    agent = opened(tmp_path, clock, mode="shadow", incumbent=lambda _: 1)
    for given in (design, Switchback(300.0, seed=2), design):
        agent.set_mode("switchback", given)
        play(agent, world, 40)
    agent.set_mode("shadow")
    play(agent, world, 7)
    agent.set_mode("switchback", design)  # and this continues
    play(agent, world, 13)
    found = ledgers.load(tmp_path).experiments
    assert [experiment.design.seed for experiment in found] == [1, 2, 1]
    assert found[-1].result == agent.stats().switchback
    agent.close()


def test_a_report_leaves_out_rewards_that_came_too_late(tmp_path: Path) -> None:
    """Even if the successor that came with it was taken."""
    clock, options = Clock(), {"late": 5, "late_seconds": 10.0, "missing": -1.0}
    agent = opened(tmp_path, clock, **options)
    first = agent.act([0.0, 0.0], [1.0])
    clock.now = 20.0
    late = {"next_obs": [1.0, 0.0], "next_context": [1.0], "elapsed": 2.0, "id": first.id}
    assert agent.observe(100.0, **late) == "expired"
    assert agent.observe(100.0, **late) == "expired"
    assert (agent.stats().expired, agent.stats().mean_reward) == (1, {})
    assert np.isnan(ledgers.load(tmp_path).rewards).all()
    digest = agent.digest()
    agent.close()
    assert replay(tmp_path).state.digest() == digest


def test_a_report_takes_no_mode_for_granted_that_came_later(tmp_path: Path) -> None:
    clock, world, design = Clock(), World(), Switchback(300.0, seed=1)
    agent = opened(
        tmp_path, clock, mode="shadow", incumbent=lambda _: 1, keep_log=False, segment_bytes=8000
    )  # fmt: skip
    play(agent, world, 60)
    agent.set_mode("switchback", design)
    for _ in range(2):
        agent.checkpoint()
        play(agent, world, 1)
    agent.close()
    kept = ledgers.load(tmp_path)
    assert kept.first > 1
    assert len(kept.times) > 5  # those in shadow mode among them
    (found,) = kept.experiments
    blocks = {design.block(60.0 * step) for step in (61, 62)}
    assert found.result.num_left_out + 2 * found.result.difference.n <= len(blocks)


def test_a_report_can_begin_between_an_observation_and_its_decision(tmp_path: Path) -> None:
    """Where an update comes between the two, they are not written at once."""
    kinds = set()
    for size in (700, 1100, 1500):
        agent = opened(
            tmp_path / str(size), config={**SMALL, "rollout_length": 1}, keep_log=False,
            segment_bytes=size,
        )  # fmt: skip
        for _ in range(4):
            play(agent, World(), 7)
            agent.checkpoint()
        agent.close()
        first = next(read(tmp_path / str(size) / "log", agent.first - 1))
        kinds.add(type(decode(first)))
        found = ledgers.load(tmp_path / str(size))
        assert len(found.times) == len(found.rewards) == len(found.contexts)
        assert np.isfinite(found.contexts).all()
    assert Decide in kinds


def test_a_report_is_made_while_the_agent_drops_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, first = World(), ledgers.first_sequence
    agent = opened(tmp_path, keep_log=False, segment_bytes=2000)
    play(agent, world, 40)

    def and_drop(folder: Path) -> int:
        found = first(folder)
        monkeypatch.undo()
        monkeypatch.setattr(segments, "_content", drop_and_read)
        return found

    def drop_and_read(*arguments: Any) -> bytes:
        monkeypatch.undo()
        for _ in range(2):
            play(agent, world, 20)
            agent.checkpoint()
        return content(*arguments)

    content = segments._content
    monkeypatch.setattr(ledgers, "first_sequence", and_drop)
    found = ledgers.load(tmp_path)
    assert found.first == agent.first > 1
    agent.close()


@pytest.mark.parametrize("name", ["act", "observe", "set_mode", "rollback"])
def test_ctrl_c_between_the_log_and_the_agent_leaves_a_folder_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    agent, world, write = opened(tmp_path, late=5), World(), Log.write
    play(agent, world, 20)
    made = agent.act(*world.seen)
    calls: dict[str, Any] = {
        "act": lambda: agent.act(*world.seen), "observe": lambda: agent.observe(1.0, id=made.id),
        "set_mode": lambda: agent.set_mode("frozen"), "rollback": lambda: agent.rollback(0),
    }  # fmt: skip

    def interrupted(log: Log, events: Any) -> int:
        write(log, events)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls[name]()
    last = agent._log.last
    for call in calls.values():
        with pytest.raises((InputError, NotWritten), match="open its folder again"):
            call()
    agent.close()
    agent = opened(tmp_path)
    assert agent._log.last > last  # it was opened
    play(agent, world, 20, "another")
    digest = agent.digest()
    agent.close()
    assert replay(tmp_path).state.digest() == digest


def test_streams_that_leave_take_no_memory(tmp_path: Path) -> None:
    agent = opened(tmp_path, guard=Limits(change=1))
    for number in range(3):
        made = agent.act([0.0, 1.0], [1.0], stream=str(number))
        agent.observe(1.0, [0.0, 1.0], next_context=[1.0], id=made.id)
        agent.end(str(number))
    assert not agent._core.desk.memories
    crash(agent)
    agent = opened(tmp_path, guard=Limits(change=1))
    assert not agent._core.desk.memories
    agent.close()


def test_a_folder_that_is_not_opened_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    before = threading.active_count()
    with pytest.raises(InputError, match="a design"):
        open_live(tmp_path, mode="switchback", learn="background")
    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "write", full)
        with pytest.raises(NotWritten, match="No space left"):
            open_live(tmp_path, learn="background")
    assert threading.active_count() == before
    opened(tmp_path).close()


def test_a_power_cut_leaves_a_log_that_reaches_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []  # sizes of the file on the disk
    monkeypatch.setattr(logs, "_sync", lambda file: flushed.append(os.fstat(file).st_size))
    agent, world = opened(tmp_path), World()
    play(agent, world, 20)
    assert not flushed
    agent.checkpoint()
    digest = agent.digest()
    play(agent, world, 5)
    crash(agent)
    (segment,) = (tmp_path / "log").glob("*.log")
    os.truncate(segment, flushed[-1])
    agent = opened(tmp_path)
    assert agent.digest() == digest
    agent.close()


def test_a_call_waits_for_its_own_event_though_another_thread_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that wrote earlier, and continues later, must not hide what is to be flushed."""
    agent, world = opened(tmp_path, durability="power"), World()
    wrote, done, write, finish = threading.Event(), threading.Event(), Log.write, agent._finish

    def slow(log: Log, events: Any) -> int:
        last = write(log, events)
        if threading.current_thread() is other:
            wrote.set()
            done.wait(60)
        return last

    def finish_late(may_wait: bool = True) -> None:
        done.set()
        other.join()
        finish(may_wait)

    other = threading.Thread(target=lambda: agent._record(Opened("", 0.0)))
    monkeypatch.setattr(Log, "write", slow)
    monkeypatch.setattr(agent, "_finish", finish_late)
    other.start()
    wrote.wait(60)
    agent.act(*world.seen)
    assert agent._log._synced == agent._log.last
    monkeypatch.undo()
    agent.close()


@pytest.mark.parametrize("lost", ["*.log", "*"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_log_that_was_deleted_is_not_begun_again(tmp_path: Path, lost: str, saved: bool) -> None:
    """Before the first checkpoint, nothing else names an event that is missing."""
    agent, world = opened(tmp_path), World()
    play(agent, world, 5)
    if saved:
        agent.checkpoint()
    crash(agent)
    for file in (tmp_path / "log").glob(lost):
        file.unlink()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="has no segments, though the agent has served: restore"):
        opened(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_closed_agent_writes_nothing(tmp_path: Path) -> None:
    agent, world = opened(tmp_path), World()
    play(agent, world, 20)
    agent.close()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    agent.close()
    with pytest.raises(NotWritten, match="it is closed"):
        agent.checkpoint()
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


def test_a_call_succeeds_though_what_follows_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> str:
        raise InputError("the state holds NaN")

    agent = opened(tmp_path, checkpoint_every=10)
    monkeypatch.setattr("lcpo.live.checkpoints.Checkpoints.save", refuse)
    with pytest.warns(RuntimeWarning, match="holds NaN"):
        assert len(play(agent, World(), 6)) == 6
    assert agent.stats().checkpoint == 0
    crash(agent)


def test_the_size_of_a_log_is_known_while_segments_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, threads, sizes = Path.unlink, list[threading.Thread](), list[int]()

    def and_look(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        threads.append(threading.Thread(target=lambda: sizes.append(log.num_bytes)))
        threads[-1].start()
        threads[-1].join(0.2)

    with Log(tmp_path, segment_bytes=100) as log:
        for _ in range(9):
            log.append(1, b"x" * 60)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", and_look)
            log.drop(log.last)
        for thread in threads:
            thread.join()
        assert len(sizes) == len(threads) > 2


def test_late_rewards_of_a_version_that_has_gone_do_not_count(tmp_path: Path) -> None:
    world, rule = World(), Rule(margin=1.0, window=10)
    agent = opened(tmp_path, rollback=rule, mode="shadow", incumbent=lambda _: 1, late=50)
    earn(agent, world, 1.0, 10)
    agent.set_mode("live")
    waiting = [agent.act(*world.seen).id for _ in range(30)]
    with pytest.warns(RuntimeWarning, match="rollback to version 0"):
        assert {agent.observe(-9.0, id=number) for number in waiting} == {"ok", "late"}
    assert agent.num_rollbacks == 1
    crash(agent)
    agent = opened(tmp_path, rollback=rule)
    earn(agent, world, -9.0, 9)
    assert agent.num_rollbacks == 0
    with pytest.warns(RuntimeWarning, match="rollback to version 0"):
        earn(agent, world, -9.0, 1)
    agent.close()


@pytest.mark.learn
def test_an_agent_that_learns_more_slowly_than_it_acts_is_saved_and_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both need a moment at which learning has caught up: callers that observe wait for it."""
    compute, stop = ServedLearning.compute, threading.Event()

    def slow(*arguments: Any) -> Any:
        stop.wait(0.02)
        return compute(*arguments)

    def work(stream: str) -> None:
        world = World()
        while not stop.is_set():
            play(agent, world, 1, stream)

    monkeypatch.setattr(core, "PATIENCE", 0.1)
    monkeypatch.setattr(ServedLearning, "compute", slow)
    agent = opened(tmp_path, learn="background")
    workers = [threading.Thread(target=work, args=(str(i),)) for i in range(4)]
    for worker in workers:
        worker.start()
    while agent.num_waiting < 8 * (core.BACKLOG - 2):
        stop.wait(0.01)
    task = threading.Thread(target=lambda: (agent.checkpoint(), agent.rollback(0)))
    task.start()
    task.join(30.0)
    done = not task.is_alive()
    stop.set()
    for thread in (*workers, task):
        thread.join()
    assert done
    digest = agent.digest()
    agent.close()
    assert replay(tmp_path).state.digest() == digest


@pytest.mark.filterwarnings("ignore:rollback to version:RuntimeWarning")
def test_a_decision_does_not_wait_for_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may become due while another thread saves a checkpoint; then the next call starts it."""
    compute, gate = ServedLearning.compute, threading.Event()

    def gated(*arguments: Any) -> Any:
        gate.wait(30.0)
        return compute(*arguments)

    rule, world = Rule(margin=1.0, window=10), World()
    agent = opened(tmp_path, learn="background", rollback=rule, incumbent=lambda _: 1)
    monkeypatch.setattr(ServedLearning, "compute", gated)
    play(agent, world, 10)
    agent._core.desk.due = True
    task = threading.Thread(target=agent.act, args=world.seen)
    task.start()
    task.join(10.0)
    waited = task.is_alive()
    gate.set()
    task.join()
    assert not waited
    assert agent._tender is not None
    agent._tender.join()
    assert (agent.num_rollbacks, agent._core.desk.due) == (1, False)
    digest = agent.digest()
    agent.close()
    assert replay(tmp_path).state.digest() == digest


@pytest.mark.parametrize("saved", [False, True])
def test_after_a_return_to_the_first_policy_the_fallback_answers(
    tmp_path: Path, saved: bool
) -> None:
    """That policy is random: it must not decide because its number is not 0 any more."""
    world = World()
    rest: dict[str, Any] = {"fallback": 3, "version_every": 1}
    agent = opened(tmp_path, **rest)
    play(agent, world, 20)
    again = agent.rollback(agent.rollback(0))  # to what is the same policy
    made = play(agent, world, 1)
    agent.close() if saved else crash(agent)
    agent = opened(tmp_path, **rest)
    made += play(agent, world, 1)
    assert [(x.source, x.policy_version) for x in made] == 2 * [("fallback", again)]
    sources = [x.source for x in play(agent, world, 20)]
    assert sources == sorted(sources, key=["fallback", "policy"].index), "until it has learned"
    assert sources[-1] == "policy"
    agent.close()


def test_a_rollback_passes_over_versions_that_cannot_be_read(tmp_path: Path) -> None:
    world, rule = World(), Rule(margin=1.0, window=10)
    agent = opened(
        tmp_path, rollback=rule, version_every=1, mode="shadow", incumbent=lambda _: 1
    )  # fmt: skip
    earn(agent, world, 1.0, 20)
    agent.set_mode("live")
    earn(agent, world, 1.0, 24)
    good = agent.stats().good_version
    assert good
    (tmp_path / "versions" / f"{good:010}.npz").write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning) as warned:
        earn(agent, world, -1.0, 10)
    assert any(f"{good:010}.npz" in str(x.message) for x in warned)
    assert any(f"rollback to version {good - 1}" in str(x.message) for x in warned)
    assert agent.num_rollbacks == 1
    for path in (tmp_path / "versions").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="no version to return to"):
        agent.rollback()
    agent.close()


def test_settings_of_a_switchback_are_checked_in_any_mode(tmp_path: Path) -> None:
    wrong: Any = 3600
    with pytest.raises(InputError, match="switchback = 3600: needs a design"):
        open_live(tmp_path / "new", "a2c", SPEC, SMALL, switchback=wrong)
    agent = opened(tmp_path / "old")
    with pytest.raises(InputError, match="switchback = 3600: needs a design"):
        agent.set_mode("live", wrong)
    agent.close()

"""A live agent: what it has acknowledged survives, and its log makes the same learner again."""

from __future__ import annotations

import contextlib
import errno
import math
import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from live_examples import SMALL, SPEC, Clock, World, crash, opened, play

import lcpo
from lcpo.errors import InputError
from lcpo.live import Budget, Learner, Limits, NotWritten, Rule, Switchback, checkpoints, replay
from lcpo.live import ledger as ledgers
from lcpo.live import log as logs
from lcpo.live import open as open_live
from lcpo.live.journal import decode
from lcpo.live.log import read
from lcpo.live.switchback import estimate, gather
from lcpo.run.store.checkpoint import flatten


def entries(folder: Path, kind: str) -> list[Any]:
    found = [decode(record) for record in read(folder / "log")]
    return [entry for entry in found if type(entry).__name__ == kind]


def test_an_agent_continues_where_it_was(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    with opened(tmp_path, clock) as agent:
        play(agent, world, 45)
        digest, updates = agent.digest(), agent.stats().updates
    assert updates == 5
    agent = opened(tmp_path, clock)
    assert agent.digest() == digest
    last = play(agent, world, 30)[-1]
    digest, before = agent.digest(), agent.stats()
    crash(agent)
    agent = opened(tmp_path, clock)
    assert agent.digest() == digest
    assert agent.stats()._replace(sequence=0, log_bytes=0) == before._replace(
        sequence=0, log_bytes=0
    )
    assert last.id == 74
    assert agent.act(*world.seen).id == 75
    agent.close()
    found = replay(tmp_path)
    assert (found.first, found.checked) == (0, 2)
    assert found.state.digest() == agent._core.state.digest()
    assert entries(tmp_path, "Learned")[-1].number == agent.stats().updates == 9


def test_the_same_calls_make_the_same_learner_with_and_without_restarts(tmp_path: Path) -> None:
    digests = []
    for name, every in (("one", 1000), ("some", 13)):
        clock, world, agent = Clock(), World(), opened(tmp_path / name)
        crash(agent)
        for step in range(60):
            if step % every == 0:
                crash(agent)
                agent = opened(tmp_path / name, clock, checkpoint_every=30)
            play(agent, world, 1)
        digests.append(agent.digest())
        agent.close()
    assert digests[0] == digests[1]


REPLAY = {"batch_size": 8, "random_steps": 8, "buffer_size": 64}
SIZES: dict[str, dict[str, Any]] = {
    "a2c": {}, "lcpo": {}, "lcpo-plus": {}, "ppo": {"minibatches": 4}, "ddqn": REPLAY,
    "sac": REPLAY,
}  # fmt: skip


def test_one_stream_is_a_plain_learner(tmp_path: Path) -> None:
    lock_step(tmp_path, "a2c")


@pytest.mark.learn
@pytest.mark.parametrize("agent", list(SIZES)[1:])
def test_one_stream_is_a_plain_learner_of_any_agent(tmp_path: Path, agent: str) -> None:
    lock_step(tmp_path, agent)


def lock_step(folder: Path, agent: str) -> None:
    """The same loop through a learner, a live agent, a restart and a replay."""
    config, digests = {**SMALL, **SIZES[agent]}, []
    for name in ("learner", "live", "restarted"):
        clock, world = Clock(), World()
        rest = {"config": config, "steps": 1000}
        if name == "learner":
            made: Any = Learner(agent, SPEC, **rest, clock=clock)
        else:
            made = opened(folder / name, clock, agent=agent, **rest)
        for step in range(50):
            clock.now += 60.0
            made.observe(world.play(int(made.act(*world.seen).action[0])))
            if name == "restarted" and step % 17 == 0:
                crash(made)
                made = opened(folder / name, clock)
        digests.append(made._core.state.digest())
        made.close()
    assert digests == digests[:1] * 3
    assert replay(folder / "live").state.digest() == digests[0]


def schedule(agent: Any, clock: Clock, rng: random.Random, restart: Any) -> Any:
    """Calls in random order: late, repeated, lost and discarded rewards, streams that end."""
    waiting: list[tuple[int, float]] = []
    for step in range(120):
        clock.now += rng.choice([1.0, 30.0])
        stream, chance = rng.choice("abc"), rng.random()
        if chance < 0.55:
            made = agent.act([rng.random(), step], [rng.choice([0.5, 2.0])], stream=stream)
            waiting.append((made.id, rng.gauss(0.0, 1.0)))
        elif chance < 0.95 and waiting:
            number, reward = waiting[place := rng.randrange(len(waiting))]
            with contextlib.suppress(InputError):  # forgotten meanwhile
                agent.observe(reward, id=number)
            if rng.random() < 0.8:  # else it comes again
                del waiting[place]
        elif stream in agent._core.state.streams:
            agent.end(stream) if chance < 0.97 else agent.discard(stream)
        if rng.random() < 0.03:
            agent = restart(agent)
    return agent


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.learn) for n in range(1, 8))]
)
def test_random_schedules_with_restarts_are_those_of_a_learner(tmp_path: Path, seed: int) -> None:
    clock = Clock()
    waits: dict[str, Any] = {"late": 4, "late_seconds": 200.0, "missing": -1.0}
    plain = Learner("a2c", SPEC, SMALL, clock=clock, **waits)
    plain = schedule(plain, clock, random.Random(seed), lambda learner: learner)
    again = Clock()

    def restart(agent: Any) -> Any:
        crash(agent)
        return opened(tmp_path, again, checkpoint_every=50)

    live = opened(tmp_path, again, checkpoint_every=50, **waits)
    live = schedule(live, again, random.Random(seed), restart)
    assert live.digest() == plain.state.digest()
    live.close()
    assert replay(tmp_path).state.digest() == plain.state.digest()


def test_replays_stop_and_check_what_they_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, world = Clock(), World()
    with opened(tmp_path, clock) as agent:
        play(agent, world, 20)
        sequence, digest = agent.checkpoint(), agent.digest()
        play(agent, world, 20)
    found = replay(tmp_path, until=sequence)
    assert (found.last, found.checked, found.state.digest()) == (sequence, 1, digest)
    monkeypatch.setattr("lcpo.live.rebuild._marks", lambda *_: ({sequence: "0"}, frozenset()))
    with pytest.raises(InputError, match=f"learner of sequence {sequence} differs"):
        replay(tmp_path)


def test_exactly_once(tmp_path: Path) -> None:
    agent = opened(tmp_path, late=5)
    first = agent.act([0.0, 1.0], [1.0])
    assert agent.observe(1.0, id=first.id) == "ok"
    agent.act([1.0, 1.0], [1.0])
    for _ in range(2):
        sequence, digest = agent.stats().sequence, agent.digest()
        assert agent.observe(1.0, id=first.id) == "duplicate"
        with pytest.raises(InputError, match="another reward"):
            agent.observe(2.0, id=first.id)
        with pytest.raises(InputError, match="never made"):
            agent.observe(1.0, id=77)
        assert (agent.stats().sequence, agent.digest()) == (sequence, digest)
        crash(agent)
        agent = opened(tmp_path)
    agent.close()


@pytest.mark.parametrize("name", ["a2c", pytest.param("lcpo", marks=pytest.mark.learn)])
def test_shadow_mode_learns_without_deciding(tmp_path: Path, name: str) -> None:
    clock, world = Clock(), World()
    rest = {"agent": name, "steps": 1000, "normalise": "running" if name == "lcpo" else None}
    agent = opened(tmp_path, clock, mode="shadow", **rest)
    before = flatten(agent._core.state.agent)
    for step in range(24):
        made = agent.act(*world.seen, taken=step % 3)
        assert (made.action.tolist(), made.source) == ([step % 3], "incumbent")
        assert made.probability is None
        agent.observe(world.play(step % 3))
    after = flatten(agent._core.state.agent)
    assert agent.stats().updates == 2
    for name, value in after.items():
        if "policy" in name and "opt" not in name:
            assert np.array_equal(value, before[name]), name
    assert any(not np.array_equal(x, before[n]) for n, x in after.items() if "value" in n)
    with pytest.raises(InputError, match="needs `taken`"):
        agent.act(*world.seen)
    assert len(entries(tmp_path, "Choice")) == 24
    agent.close()


def test_frozen_mode_acts_and_learns_nothing(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    agent = opened(tmp_path, clock, mode="frozen")
    before = jax.tree.map(np.array, agent._core.state.agent)
    assert {made.source for made in play(agent, world, 30)} == {"policy"}
    jax.tree.map(np.testing.assert_array_equal, before, agent._core.state.agent)
    assert agent.stats().updates == 0
    agent.set_mode("live")
    play(agent, world, 30)
    assert agent.stats().updates == 3
    agent.close()
    assert replay(tmp_path).checked == 1


def test_switchback_mode_takes_turns(tmp_path: Path) -> None:
    clock, world, design = Clock(), World(), Switchback(300.0, burn_in=60.0, seed=1)
    with pytest.raises(InputError, match="a design"):
        opened(tmp_path, clock, mode="switchback")
    agent = opened(tmp_path, clock, mode="switchback", switchback=design, incumbent=lambda _: 1)
    for step in range(1, 61):
        made = play(agent, world, 1)[0]
        policys = design.is_policys(step * 60 // 300)
        assert made.source == ("policy" if policys else "incumbent")
        assert policys or made.action.tolist() == [1]
        if step == 33:
            crash(agent)
            agent = opened(tmp_path, clock, incumbent=lambda _: 1)
    found = agent.stats().switchback
    assert found is not None
    assert found.difference.n == 6
    assert math.isfinite(found.difference.low)
    kept = ledgers.load(tmp_path)
    under_way = design.block(clock.now)
    assert found == estimate(design, gather(design, kept.times, kept.rewards), under_way)
    agent.set_mode("shadow")
    assert agent.act(*world.seen).source == "incumbent"
    agent.close()


def poison(agent: Any, value: float | None = None, seed: int = 1) -> None:
    """Weights of noise, or of a value."""
    rng = np.random.default_rng(seed)

    def spoilt(x: Any) -> Any:
        noise = 5.0 * rng.normal(size=x.shape) if value is None else np.full(x.shape, value)
        return jnp.asarray(noise, x.dtype)

    state = agent._core.state
    policy = jax.tree.map(spoilt, state.agent.policy)
    agent._core.take(state._replace(agent=state.agent._replace(policy=policy)))


def test_limits_hold_on_every_action_of_a_poisoned_policy(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    limits = Limits(low=1, change=1, budget=Budget((0, 0, 1, 2), 4, 5))
    agent = opened(tmp_path, clock, guard=limits)
    actions = []
    for step in range(40):
        poison(agent, seed=step)
        made = play(agent, world, 1)[0]
        actions.append(int(made.action[0]))
        assert made.source in ("guard", "policy")
        assert (made.probability is None) == (made.source == "guard")
        if step == 20:
            crash(agent)
            agent = opened(tmp_path, clock, guard=limits)
    assert min(actions) >= 1
    assert max(abs(np.diff(actions))) <= 1
    extra = np.maximum(np.array(actions) - 1, 0)
    assert max(extra[i : i + 5].sum() for i in range(36)) <= 4
    assert agent.stats().decisions["guard"] > 5
    weights = {entry.id: entry.weight for entry in entries(tmp_path, "Decide")}
    sources = {entry.id: entry.source for entry in entries(tmp_path, "Decide")}
    assert all(weights[i] == (source == "policy") for i, source in sources.items())
    agent.close()


def test_the_fallback_answers_where_the_policy_cannot(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    agent = opened(tmp_path, clock, fallback=lambda obs: 3)
    assert {d.source for d in play(agent, world, 8)} == {"fallback"}  # there is no policy yet
    assert {d.source for d in play(agent, world, 7)} == {"policy"}
    poison(agent, math.nan)
    made = agent.act(*world.seen)
    assert (made.source, made.action.tolist()) == ("fallback", [3])
    agent.observe(world.play(3))
    crash(agent)
    agent = opened(tmp_path, clock, guard=lambda obs, action: 99, fallback=2)
    made = agent.act(*world.seen)
    assert (made.source, made.action.tolist()) == ("fallback", [2])
    assert "guard" in str(agent.stats().problem)
    agent.close()


def until_rollback(agent: Any, world: World) -> int:
    """Steps until a policy with bad rewards is gone."""
    for step in range(100):
        if entries(agent.folder, "Rollback"):
            return step
        agent.act(*world.seen)
        agent.observe(-9.0)
    raise AssertionError("it was not rolled back")


def test_a_poisoned_policy_is_rolled_back_within_the_window(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    rule = Rule(margin=1.0, window=10)
    agent = opened(tmp_path, clock, rollback=rule, version_every=1, mode="shadow")
    for _ in range(20):
        agent.act(*world.seen, taken=1)
        agent.observe(1.0)
    agent.set_mode("live")
    for _ in range(24):
        agent.act(*world.seen)
        agent.observe(1.0)
    good, updates = agent.stats().good_version, agent.stats().updates
    assert good is not None
    poison(agent)
    with pytest.warns(RuntimeWarning, match=f"rollback to version {good}"):
        steps = until_rollback(agent, world)
    assert steps < 10
    assert agent.stats().updates == updates + 1
    kept = agent._versions.load(good)[1]
    now = flatten(agent._core.state.agent)
    for name, value in kept.items():
        np.testing.assert_array_equal(now[name], value)
    for _ in range(5):  # the rewards before do not count against the version that returned
        agent.act(*world.seen)
        agent.observe(-9.0)
    assert len(entries(tmp_path, "Rollback")) == 1
    digest = agent.digest()
    crash(agent)
    agent = opened(tmp_path, clock, rollback=rule)
    assert agent.digest() == digest
    agent.close()


def test_any_version_can_return_by_hand(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    agent = opened(tmp_path, clock, version_every=2, keep_versions=2)
    play(agent, world, 60)
    assert [about.version for about in agent.versions()] == [0, 4, 6]
    assert agent.rollback(4) == 8
    with pytest.raises(InputError, match="version 5 is not kept"):
        agent.rollback(5)
    play(agent, world, 30)
    digest = agent.digest()
    agent.close()
    found = replay(tmp_path)  # version 4 is no longer on the disk
    assert found.state.digest() == digest
    assert [entry.version for entry in entries(tmp_path, "Rollback")] == [4]


def test_a_full_disk_acknowledges_nothing_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, world = Clock(), World()
    agent = opened(tmp_path, clock)
    play(agent, world, 7)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    made, digest = agent.act(*world.seen), agent.digest()
    with monkeypatch.context() as patch:
        patch.setattr(logs.os, "write", full)
        for call in (
            lambda: agent.observe(1.0, [0.0, 0.0], next_context=[1.0]),
            lambda: agent.discard(id=made.id),
            lambda: agent.act([0.0, 0.0], [1.0], stream="other"),
            lambda: agent.set_mode("frozen"),
            lambda: agent.rollback(),
            lambda: agent.end(),
        ):
            with pytest.raises(NotWritten, match="No space left"):
                call()
            assert agent.digest() == digest
    assert agent.mode == "live"
    assert agent.observe(1.0, id=made.id) == "ok"
    play(agent, world, 20)
    digest = agent.digest()
    crash(agent)
    agent = opened(tmp_path, clock)
    assert agent.digest() == digest
    agent.close()


def test_a_decision_is_written_at_once_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen, what the policy would have done, and the decision: one write."""
    works = True

    def rule(obs: np.ndarray) -> int:
        if works:
            return 1
        raise ZeroDivisionError("mine")

    agent, world = opened(tmp_path, mode="shadow", incumbent=rule), World()
    play(agent, world, 3)
    works, digest, sequence = False, agent.digest(), agent.stats().sequence
    for stream in ("0", "new"):
        with pytest.raises(ZeroDivisionError, match="mine"):
            agent.act(*world.seen, stream=stream)
    assert (agent.digest(), agent.stats().sequence) == (digest, sequence)
    works, written, write = True, list[int](), logs.os.write
    monkeypatch.setattr(logs.os, "write", lambda *x: written.append(1) or write(*x))
    agent.act(*world.seen)
    assert (len(written), agent.stats().sequence) == (1, sequence + 3)
    agent.close()


def test_a_rollback_counts_though_its_checkpoint_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = opened(tmp_path)
    play(agent, World(), 30)
    with monkeypatch.context() as patch:

        def full(*_: Any) -> str:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("lcpo.live.checkpoints.Checkpoints.save", full)
        with pytest.warns(RuntimeWarning, match="could not be written .No space left"):
            assert agent.rollback(0) == 4
    digest = agent.digest()
    crash(agent)
    agent = opened(tmp_path)
    assert agent.digest() == digest
    agent.close()


def test_checkpoints_are_saved_beside_calls(tmp_path: Path) -> None:
    """With learning in a thread, no call waits for a checkpoint; replays find them all equal."""
    agent, world = opened(tmp_path, learn="background", late=3, checkpoint_every=40), World()
    for _ in range(3):
        play(agent, world, 20)
        assert agent._tender is not None
        agent._tender.join()
    play(agent, world, 20)
    tender = agent._tender
    agent.close()
    assert tender is not None
    assert not tender.is_alive()
    assert replay(tmp_path).checked >= 4


def test_disk_and_checkpoints_are_bounded(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    options = {"keep_log": False, "checkpoint_every": 40, "segment_bytes": 2000}
    agent = opened(tmp_path, clock, **options)
    sizes = []
    for _ in range(12):
        play(agent, world, 20)
        sizes.append(agent.stats().log_bytes)
    assert max(sizes[3:]) < 2 * 40 * 300
    assert len(list((tmp_path / "checkpoints").iterdir())) == 4
    digest = agent.digest()
    crash(agent)
    agent = opened(tmp_path, clock, **options)
    assert agent.digest() == digest
    agent.close()
    found = replay(tmp_path)  # from the oldest checkpoint that is left
    assert found.first > 0
    assert found.state.digest() == digest
    with pytest.raises(InputError, match="until = 5: needs at least"):  # not a later state
        replay(tmp_path, until=5)


@pytest.mark.parametrize("keep_log", [True, False])
def test_a_damaged_checkpoint_has_a_predecessor(tmp_path: Path, keep_log: bool) -> None:
    clock, world = Clock(), World()
    agent, newest = opened(tmp_path, clock, keep_log=keep_log, segment_bytes=1000), 0
    for _ in range(3):
        play(agent, world, 10)
        newest = agent.checkpoint()
    digest = agent.digest()
    crash(agent)
    for kind in ("npz", "json"):
        path = tmp_path / "checkpoints" / f"{newest:020}.{kind}"
        content = path.read_bytes()
        path.write_bytes(content[:-20])
        with pytest.warns(RuntimeWarning, match=path.name):
            agent = opened(tmp_path, clock)
        assert agent.digest() == digest
        crash(agent)
        path.write_bytes(content)


def test_half_a_checkpoint_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its two files one was written: the disk was full, or the process was killed."""

    def no_space(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    agent, world = opened(tmp_path, keep_log=False), World()
    for _ in range(3):
        play(agent, world, 5)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "save_document", no_space)
            with pytest.raises(NotWritten, match="No space"):
                agent.checkpoint()
    folder = tmp_path / "checkpoints"
    assert len(list(folder.glob("*.npz"))) == 4
    play(agent, world, 5)
    agent.checkpoint()
    assert len(list(folder.glob("*.json"))) == len(list(folder.glob("*.npz"))) == 2
    digest = agent.digest()
    crash(agent)
    agent = opened(tmp_path)
    assert agent.digest() == digest
    agent.close()


def test_an_exchanged_checkpoint_is_refused(tmp_path: Path) -> None:
    agent, world = opened(tmp_path), World()
    for _ in range(2):
        play(agent, world, 10)
        agent.checkpoint()
    crash(agent)
    one, other = sorted((tmp_path / "checkpoints").glob("*.npz"))[-2:]
    other.write_bytes(one.read_bytes())
    with pytest.warns(RuntimeWarning, match="it was exchanged"):
        agent = opened(tmp_path)
    assert agent.stats().decisions == {"policy": 20}
    crash(agent)


def test_learning_in_the_background_makes_the_same_learner(tmp_path: Path) -> None:
    clock, world = Clock(), World()
    with opened(tmp_path, clock, learn="background", late=3) as agent:
        play(agent, world, 60)
        assert agent.wait(60)
        digest = agent.digest()
        assert agent.stats().updates == 7
    found = replay(tmp_path)
    assert (found.state.digest(), found.checked) == (digest, 1)


def test_updates_that_fail_end_in_frozen_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, world = Clock(), World()
    agent = opened(tmp_path, clock, max_drops=2)
    monkeypatch.setattr(
        "lcpo.live.learning.Learning._update", lambda *_: (_ for _ in ()).throw(ValueError("mine"))
    )
    with pytest.warns(RuntimeWarning, match="mine"):
        play(agent, world, 40)
    assert agent.mode == "frozen"
    assert agent.stats().dropped_updates == 2
    assert "2 updates in a row were dropped" in entries(tmp_path, "Mode")[-1].why
    agent.close()


@pytest.mark.learn
def test_an_agent_can_start_with_a_trained_policy(tmp_path: Path) -> None:
    (run,) = lcpo.train(
        "a2c", "pendulum", trace="revisit", steps=400, seeds=1, workers=0, out=tmp_path / "out",
        config={"rollout_length": 40, "hidden": (8, 8)}, progress=False,
    )  # fmt: skip
    with pytest.raises(InputError, match="is of a2c, not of 'lcpo'"):
        open_live(tmp_path / "live", "lcpo", policy=run.folder)
    with pytest.raises(InputError, match="another spec"):
        open_live(tmp_path / "live", spec=SPEC, policy=run.folder)
    agent = open_live(tmp_path / "live", policy=run.folder, mode="live", fallback=0)
    trained = lcpo.load(run.folder).state
    for name, value in flatten(trained.policy).items():
        np.testing.assert_array_equal(flatten(agent._core.state.agent.policy)[name], value)
    made = agent.act(np.zeros(agent.settings.spec.obs_size))
    assert made.source == "policy"  # there is one from the start
    agent.close()
    assert replay(tmp_path / "live").checked == 1


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(InputError, match="in use by process"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_other_settings_than_before_are_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    same = {"agent": "a2c", "spec": SPEC, "config": SMALL}
    open_live(tmp_path, **same).close()
    for other, message in (
        ({"agent": "lcpo", "steps": 100}, "agent = 'a2c'"),
        ({"spec": SPEC._replace(num_actions=(3,))}, "spec"),
        ({"config": {}}, "config"),
        ({"seed": 1}, "seed = 0"),
        ({"late": 3}, "late = None"),
        ({"spec": None}, "both agent= and spec="),
        ({"mode": "fast"}, "mode"),
        ({"guards": 1}, "guards"),
        ({"learn": "later"}, "learn"),
        ({"rollback": 3}, "rollback"),
        ({"incumbent": 3}, "incumbent"),
        ({"guard": Limits(low=9)}, "leave none"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"keep_versions": 0}, "keep_versions = 0"),
        ({"durability": "disk"}, "'process' or 'power'"),
    ):
        with pytest.raises(InputError, match=message):
            open_live(tmp_path, **{**same, **other})
    contradicting: list[tuple[dict[str, Any], str]] = [
        ({"late": 3}, "late = None .given: 3"),
        ({"seed": 1}, "seed = 0"),
        ({"missing": 0.0, "late": 1}, "missing = 'cut'"),
        ({"steps": 9}, "steps= is given without"),
        ({"config": {"gamma": 0.5}}, "config= is given without"),
    ]
    for alone, message in contradicting:
        with pytest.raises(InputError, match=message):
            open_live(tmp_path, **alone)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    for folder, message in (("other", "not the folder of a live agent"), ("new", "is new")):
        with pytest.raises(InputError, match=message):
            open_live(tmp_path / folder)
    refused: list[dict[str, Any]] = [
        {"guard": Limits(low=9)}, {"fallback": 9}, {"segment_bytes": 1},
    ]  # fmt: skip
    for wrong in refused:
        with pytest.raises(InputError):
            open_live(tmp_path / "new", **same, **wrong)
    assert not (tmp_path / "new").exists()

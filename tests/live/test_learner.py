"""A learner in a loop of one's own: in lock step it is `lcpo train`; what is saved goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from each import for_each
from live_agents import FRAGILE, ONE, SEES, SPEC, Total
from live_examples import crash
from small_agents import SMALL as SIZES
from small_agents import assert_same, random_batch, small_config, spec_for, started, updater

import lcpo
from lcpo import Learner
from lcpo.agents import AGENTS
from lcpo.errors import InputError
from lcpo.live import Decide, Decision, LiveAgent, Observe, See, replay
from lcpo.live import open as open_live
from lcpo.live.learning import Learning
from lcpo.live.loop import Loop as Events
from lcpo.live.settings import Settings
from lcpo.live.state import Backup
from lcpo.run.store.checkpoint import flatten, without_memory
from lcpo.run.store.files import load_arrays, save_arrays, save_bundle
from lcpo.types import ContextSlice, Spec, Transition

STEPS, LENGTH = 80, 16
WIND = np.sin(np.arange(2 * 97).reshape(97, 2)).astype(np.float32).tolist()
WORLDS = {
    "pendulum": lcpo.from_gymnasium(
        "lcpo/WindyPendulum-v0", arguments={"trace": WIND, "max_steps": 13},
        context="slice:3:9", lags=3, history=True,
    ),
    "grid-world": lcpo.from_gymnasium(
        "lcpo/GridWorld-v0", arguments={"trace": [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]},
        context="info", one_hot=False,
    ),
}  # fmt: skip


def small(agent: str) -> dict[str, Any]:
    fields = {field.name for field in dataclasses.fields(AGENTS[agent].Config)}
    return {name: value for name, value in SIZES.items() if name in fields}


def policy_of(learner: Learner) -> dict[str, np.ndarray]:
    return flatten(without_memory(learner.state.agent))


class Loop:
    """A user's own loop: an environment, and the features and context of now."""

    def __init__(self, world: str) -> None:
        self.num_features = {"pendulum": 3, "grid-world": 4}[world]
        self.env, self.decode = WORLDS[world].make(), WORLDS[world].action_form.decode
        self.look(*self.env.reset(seed=7))

    def look(self, obs: np.ndarray, info: dict[str, Any]) -> None:
        self.seen = obs[: self.num_features].astype(np.float32), info["context"]

    def play(self, learner: Learner | LiveAgent, steps: int, late: bool = False) -> None:
        """`late`: the successor is left to the next `act`, wherever that is allowed."""
        for _ in range(steps):
            action = self.decode(learner.act(*self.seen).action)
            obs, reward, terminated, truncated, info = self.env.step(action)
            self.look(obs, info)
            if late and not (terminated or truncated):
                learner.observe(float(reward))
                continue
            learner.observe(float(reward), self.seen[0], terminated, truncated, self.seen[1])
            if terminated or truncated:
                self.look(*self.env.reset())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of a run of an agent in a world; each is trained once."""
    out = tmp_path_factory.mktemp("runs")

    @cache
    def trained(agent: str, world: str) -> Path:
        lcpo.train(
            agent, WORLDS[world], steps=STEPS, seeds=[7], config=small(agent), workers=0,
            out=out / f"{agent}-{world}", progress=False,
        )  # fmt: skip
        return out / f"{agent}-{world}"

    return trained


CASES = [
    ("a2c", "pendulum"),
    ("ddqn", "grid-world"),
    *(
        pytest.param(agent, world, marks=pytest.mark.learn)
        for agent, world in (
            ("lcpo", "pendulum"), ("lcpo", "grid-world"), ("a2c", "grid-world"),
            ("ddqn", "pendulum"), ("lcpo-plus", "pendulum"), ("ppo", "pendulum"),
            ("sac", "pendulum"), ("lcpo-plus", "grid-world"), ("ppo", "grid-world"),
            ("sac", "grid-world"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "world"), CASES)
def test_in_lock_step_it_is_lcpo_train(
    agent: str, world: str, runs: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """Saved and loaded on the way, and with successors that come late."""
    learner, loop = Learner(agent, WORLDS[world].spec, small(agent), seed=7), Loop(world)
    loop.play(learner, 37)
    learner.save(tmp_path / "learner.npz")
    learner = Learner.load(tmp_path / "learner.npz")
    loop.play(learner, STEPS - 38, late=True)
    loop.play(learner, 1)
    assert learner.updates == STEPS // LENGTH
    trained = flatten(lcpo.load(runs(agent, world)).state)
    assert_same(policy_of(learner), trained)
    assert_same(flatten(without_memory(live_state(agent, world, tmp_path / "live"))), trained)


def live_state(agent: str, world: str, folder: Path) -> Any:
    """The same loop with a live agent, whose process dies on the way."""
    live = open_live(folder, agent, WORLDS[world].spec, small(agent), seed=7, mode="live")
    loop = Loop(world)
    loop.play(live, 37)
    crash(live)
    live = open_live(folder)
    loop.play(live, STEPS - 38, late=True)
    loop.play(live, 1)
    state = live._core.state
    live.close()
    assert replay(folder).state.digest() == state.digest()
    return state.agent


@pytest.mark.learn
def test_statistics_of_a_normalised_run_are_its_own(tmp_path: Path) -> None:
    world, out = WORLDS["pendulum"], tmp_path / "o"
    lcpo.train("a2c", world, steps=STEPS, seeds=[7], config=small("a2c"), normalise="running",
               workers=0, out=out, progress=False)  # fmt: skip
    rest: dict[str, Any] = {"advance": "own", "normalise": "running"}
    learner, loop = Learner("a2c", world.spec, small("a2c"), seed=7, **rest), Loop("pendulum")
    loop.play(learner, 37)
    learner.save(tmp_path / "x.npz")
    learner = Learner.load(tmp_path / "x.npz")
    loop.play(learner, STEPS - 37)
    expected = flatten(lcpo.load(out).state)
    assert_same(policy_of(learner), expected)
    assert_same(policy_of(Learner.from_run(out)), expected)


@pytest.mark.learn
@pytest.mark.parametrize("agent", sorted({agent.root.name for agent in AGENTS.values()}))
def test_any_agent_of_the_library_can_be_saved_in_the_middle(agent: str, tmp_path: Path) -> None:
    chosen = AGENTS[agent]
    spec = spec_for(chosen)
    learner = Learner(agent, spec, small_config(chosen), steps=100)
    rng = np.random.default_rng(0)

    def play(learner: Learner, reward: float) -> None:
        obs = rng.integers(0, 2, spec.obs_size).astype(np.float32)
        learner.act(obs)
        learner.observe(reward, readings=np.ones(len(spec.readings)))

    for t in range(2 * LENGTH + 5):
        play(learner, float(t % 3))
    learner.save(tmp_path / "x.npz")
    other = Learner.load(tmp_path / "x.npz")
    rng, again = np.random.default_rng(1), np.random.default_rng(1)
    for t in range(LENGTH):
        play(learner, float(t))
    rng = again
    for t in range(LENGTH):
        play(other, float(t))
    assert learner.updates == other.updates == 3
    assert_same(flatten(learner.state.agent), flatten(other.state.agent))


def step(learner: Learner, x: float, stream: str = "0", **outcome: Any) -> Decision:
    decision = learner.act([x], [x, -x], stream)
    learner.observe(x, stream=stream, **outcome)
    return decision


def batch_of(learner: Learner) -> Transition:
    return jax.tree.map(np.asarray, learner.state.agent.batch)


def test_the_next_act_brings_the_successor() -> None:
    learner = Learner(SEES, ONE)
    decisions = [step(learner, float(t)) for t in range(5)]
    assert [decision.policy_version for decision in decisions] == [0, 0, 0, 0, 1]
    batch = batch_of(learner)
    np.testing.assert_array_equal(batch.obs[:, 0, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(batch.next_obs[:, 0, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(batch.obs[2, 0], [2, 2, 1, -2, -1])
    np.testing.assert_array_equal(batch.next_obs[3, 0], [4, 4, 3, -4, -3])
    np.testing.assert_array_equal(batch.extra[:, 0, 0], [0, 2, 4, 6])
    np.testing.assert_array_equal(batch.reward[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(batch.action[:, 0], [d.action for d in decisions[:4]])
    np.testing.assert_array_equal(batch.weight, np.ones((4, 1)))


def test_successors_are_never_of_another_episode() -> None:
    learner = Learner(SEES, ONE)
    step(learner, 1.0)
    ends: list[dict[str, Any]] = [{"terminated": True}, {"truncated": True}]
    for end in ends:
        learner.act([2.0], [2.0, -2.0])
        with pytest.raises(InputError, match="ends without next_obs"):
            learner.observe(0.0, **end)
        learner.observe(0.0, [9.0], next_context=[9.0, -9.0], **end)
    step(learner, 5.0)
    learner.act([0.0], [0.0, 0.0])
    batch = batch_of(learner)
    np.testing.assert_array_equal(batch.next_obs[:, 0, 0], [2, 9, 9, 0])
    np.testing.assert_array_equal(batch.terminated[:, 0], [False, True, False, False])
    np.testing.assert_array_equal(batch.truncated[:, 0], [False, False, True, False])
    # A reset takes no time: the successor's context gives way to that of the new episode.
    np.testing.assert_array_equal(batch.obs[2, 0, 1:3], [2, 2])
    np.testing.assert_array_equal(batch.obs[3, 0, 1:3], [5, 2])


@pytest.mark.parametrize("reloaded", [False, True])
def test_contexts_may_move_by_episode(reloaded: bool, tmp_path: Path) -> None:
    """All steps of an episode, its last successor too, have the contexts of it and of the last."""
    learner = Learner(SEES, ONE, advance="episode")
    ends: list[dict[str, Any]] = [{"terminated": True}, {"truncated": True}, {}]
    for number, end in enumerate(ends, start=1):
        now, before = float(number), max(1.0, number - 1.0)
        for last in (False, False, True):
            learner.act([0.0], [now, -now])
            seen = [0.0, now, before, -now, -before]
            np.testing.assert_array_equal(learner.state.streams["0"].open[-1].obs, seen)
            if not last or not end:
                learner.observe(0.0)
            else:
                learner.observe(0.0, [0.0], next_context=[now, -now], **end)
            if learner.updates == 1:  # after the first step of the second episode
                np.testing.assert_array_equal(batch_of(learner).next_obs[2, 0], [0, 1, 1, -1, -1])
        if reloaded:
            learner.save(tmp_path / "learner.npz")
            learner = Learner.load(tmp_path / "learner.npz", SEES)


def test_streams_stay_apart() -> None:
    """Their steps are grouped, and cut where the next step is of another stream."""
    learner = Learner(SEES, SPEC)
    for t in range(4):
        for stream, x in (("a", 10.0 + t), ("b", 20.0 + t)):
            step(learner, x, stream, next_obs=[x + 1.0], next_context=[x + 1.0, -x - 1.0])
    batch = batch_of(learner)
    assert learner.updates == 1
    expected = np.array([10, 11, 12, 13, 20, 21, 22, 23])
    np.testing.assert_array_equal(batch.obs[:, 0, 0], expected)
    np.testing.assert_array_equal(batch.next_obs[:, 0, 0], expected + 1)
    np.testing.assert_array_equal(batch.extra[..., 0], 2.0 * batch.obs[..., 0])
    np.testing.assert_array_equal(batch.obs[[1, 5], 0, 1:3], [[11, 10], [21, 20]])
    np.testing.assert_array_equal(np.flatnonzero(batch.truncated), [3, 7])
    assert not batch.terminated.any()
    assert learner.metrics["episodes"] == 0.0


def test_a_silent_stream_holds_nobody_up() -> None:
    learner = Learner(SEES, ONE)
    learner.act([100.0], [1.0, 1.0], "silent")
    for t in range(9):
        step(learner, float(t), "busy")
    assert learner.updates == 2
    np.testing.assert_array_equal(batch_of(learner).obs[:, 0, 0], [4, 5, 6, 7])
    learner.observe(7.0, stream="silent")
    step(learner, 101.0, "silent")  # its first step closes, among those of the other
    for t in range(9, 13):
        step(learner, float(t), "busy")
    batch = batch_of(learner)
    assert learner.updates == 3
    np.testing.assert_array_equal(batch.obs[:, 0, 0], [100, 8, 9, 10])
    np.testing.assert_array_equal(batch.truncated[:, 0], [True, False, False, True])


def test_what_was_played_instead_weighs_nothing() -> None:
    learner = Learner(SEES, ONE)
    first = learner.act([0.0], [0.0, 0.0]).action
    learner.observe(0.0, action=(first + 1) % 3, elapsed=2.5)
    second = learner.act([0.0], [0.0, 0.0]).action
    learner.observe(0.0, action=second)
    for _ in range(3):
        step(learner, 0.0)
    batch = batch_of(learner)
    np.testing.assert_array_equal(batch.weight[:, 0], [0, 1, 1, 1])
    np.testing.assert_array_equal(batch.elapsed[:, 0], [2.5, 1, 1, 1])
    np.testing.assert_array_equal(batch.action[0, 0], (first + 1) % 3)


def test_what_the_policy_did_not_draw_weighs_nothing() -> None:
    """Neither `taken` nor the most probable action; both are recorded."""
    spec = WORLDS["grid-world"].spec
    learner = Learner("a2c", spec, small("a2c"))
    own = learner.act(np.zeros(spec.obs_size))
    learner.observe(0.0)
    taken = learner.act(np.zeros(spec.obs_size), taken=[2])
    learner.observe(0.0)
    best = learner.act(np.zeros(spec.obs_size), deterministic=True)
    assert (own.id, own.source, own.policy_version) == (0, "policy", 0)
    assert own.probability is not None
    assert 0.0 < own.probability < 1.0
    assert (taken.id, taken.source, taken.probability) == (1, "incumbent", None)
    np.testing.assert_array_equal(taken.action, [2])
    assert (best.id, best.source, best.probability) == (2, "policy", 1.0)
    state = learner.state
    steps = (*state.closed, *state.streams["0"].open)
    assert [step.weight for step in steps] == [1.0, 0.0, 0.0]
    np.testing.assert_array_equal(steps[1].action, [2])


@pytest.mark.parametrize("cut", range(1, 40, 4))
def test_it_can_be_saved_between_any_two_calls(cut: int, tmp_path: Path) -> None:
    """With two streams, successors of both kinds, and an end."""

    def calls(learner: Learner) -> Iterator[Learner]:
        for t in range(12):
            x = float(t)
            yield learner
            learner.act([x], [x, x], "a")
            yield learner
            end = {"next_obs": [x], "next_context": [x, x], "truncated": True} if t == 2 else {}
            learner.observe(x, stream="a", **end)
            if t > 2:
                for y in (10.0 * t, 10.0 * t + 5.0):
                    yield learner
                    step(learner, y, "b")

    whole, cut_one = Learner(SEES, SPEC, seed=3), Learner(SEES, SPEC, seed=3)
    for _ in calls(whole):
        pass
    # The generator's own learner cannot be exchanged: play it call by call.
    played = calls(Forwarder(cut_one))  # pyright: ignore[reportArgumentType]
    for number, forwarder in enumerate(played):
        if number == cut:
            forwarder.learner.save(tmp_path / "x.npz")  # pyright: ignore
            forwarder.learner = Learner.load(tmp_path / "x.npz", SEES)  # pyright: ignore
    assert whole.updates == 3
    assert repr(forwarder.learner) == repr(whole)  # pyright: ignore
    assert_same(forwarder.learner.state, whole.state)  # pyright: ignore


def test_a_learner_without_context_is_saved(tmp_path: Path) -> None:
    learner = Learner("a2c", Spec(3, ContextSlice(3, 0, 0), (4,)))
    learner.act(np.ones(3))
    learner.save(tmp_path / "x.npz")
    assert_same(Learner.load(tmp_path / "x.npz").state, learner.state)


class Forwarder:
    """A learner that can be exchanged for another on the way."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)


def test_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    file, learner = tmp_path / "x.npz", Learner(SEES, ONE)
    step(learner, 1.0)
    learner.save(file)
    content = file.read_bytes()
    for place in range(0, len(content), len(content) // 40):
        broken = bytearray(content)
        broken[place] ^= 1
        file.write_bytes(broken)
        with contextlib.suppress(InputError):
            other = Learner.load(file, SEES)
            assert_same(other.state, learner.state)  # a bit that means nothing
    file.write_bytes(content)
    arrays = load_arrays(file)
    arrays["['steps']['reward']"] = arrays["['steps']['reward']"] + 1.0
    save_arrays(file, arrays)
    with pytest.raises(InputError, match="damaged"):
        Learner.load(file, SEES)


def test_files_that_are_no_learners_are_refused(tmp_path: Path) -> None:
    learner, file = Learner(SEES, ONE), tmp_path / "x.npz"
    learner.save(file)
    with pytest.raises(InputError, match="not part of lcpo: pass it as agent="):
        Learner.load(file)
    with pytest.raises(InputError, match="not a learner of this agent"):
        Learner.load(file, "constant")
    save_arrays(file, {"x": np.zeros(3)})
    with pytest.raises(InputError, match="does not describe its arrays"):
        Learner.load(file, SEES)
    with pytest.raises(InputError, match="is missing"):
        Learner.load(tmp_path / "none.npz", SEES)


def test_it_begins_with_what_a_run_has_learnt(runs: Callable[[str, str], Path]) -> None:
    out = runs("ddqn", "grid-world")
    learner, policy = Learner.from_run(out, config={"learning_rate": 0.5}), lcpo.load(out)
    assert_same(policy_of(learner), flatten(policy.state))
    assert int(learner.state.agent.memory.added) == 0
    assert (learner.config.learning_rate, learner.config.hidden) == (0.5, (8, 8))
    Loop("grid-world").play(learner, LENGTH)
    assert learner.updates == 1
    assert int(learner.state.agent.num_steps) == STEPS + LENGTH


def test_an_update_that_is_not_finite_is_dropped(tmp_path: Path) -> None:
    """The state stays, the file stays good, and the next rollout is learnt from."""
    learner = Learner(FRAGILE, ONE)
    for t in range(4):
        step(learner, 1.0 + t)
    learner.act([5.0], [0.0, 0.0])
    good = flatten(learner.state.agent)
    for t in range(3):
        learner.observe(t if t else 1e6)
        learner.act([6.0 + t], [0.0, 0.0])
    learner.observe(1.0)
    with pytest.warns(RuntimeWarning, match="update 2 was dropped.* broken is inf") as told:
        learner.act([9.0], [0.0, 0.0])
    assert told[0].filename == __file__
    assert (learner.updates, learner.dropped) == (1, 1)
    assert np.isfinite(learner.metrics["broken"])
    assert repr(learner) == "Learner('fragile': 1 updates (1 dropped), streams: 0)"
    learner.save(tmp_path / "x.npz")
    other = Learner.load(tmp_path / "x.npz", FRAGILE)
    assert (other.updates, other.dropped) == (1, 1)
    assert_same(flatten(other.state.agent), good)
    for one in (learner, other):
        one.observe(2.0)
        for t in range(4):
            step(one, float(t))
        assert (one.updates, one.dropped) == (2, 1)
    assert_same(other.state, learner.state)


def test_a_state_that_is_not_finite_is_dropped_though_metrics_are() -> None:
    learner = Learner(FRAGILE, ONE)
    for t in range(4):
        step(learner, -1e6 if t == 2 else 1.0)
    with pytest.warns(RuntimeWarning, match="agent state is nan: the agent holds NaN or infinity"):
        learner.act([4.0], [0.0, 0.0])
    assert (learner.updates, learner.dropped) == (0, 1)
    assert np.isfinite(learner.state.agent.total)


def test_an_update_that_raises_is_dropped(tmp_path: Path) -> None:
    """Its buffers were donated by then: later updates and `save` need those of before."""
    learner = Learner(FRAGILE, ONE)
    for round_number in range(3):
        for t in range(4):
            learner.act([float(t)], [0.0, 0.0])
            last: dict[str, Any] = {"next_obs": [0.0], "next_context": [0.0, 0.0]}
            end = last if t == 3 else {}
            if t == 3 and round_number == 1:
                with pytest.warns(RuntimeWarning, match="was dropped.* disk of the user's is full"):
                    learner.observe(666.0, **end)
            else:
                learner.observe(1.0, **end)
        learner.save(tmp_path / "x.npz")
    assert (learner.updates, learner.dropped) == (2, 1)
    assert float(learner.state.agent.total) == 8.0
    assert_same(Learner.load(tmp_path / "x.npz", FRAGILE).state, learner.state)


@pytest.mark.parametrize(
    "agent",
    ["ddqn", *(pytest.param(name, marks=pytest.mark.learn) for name in ("clear", "mbpo", "mbcd"))],
)
def test_the_backup_keeps_up_with_a_replay(agent: str) -> None:
    """Of which it copies the new rows only, also where the ring closes."""
    config, spec, state = started(AGENTS[agent])
    backup = Backup(state)
    for i in range(9):
        if i % 4:  # now and then by several updates at a time
            backup.follow(state)
            assert_same(flatten(backup.restore()), flatten(state))
        batch = random_batch(spec, jax.random.key(i))
        state, _ = updater(AGENTS[agent])(config, spec, state, batch, jax.random.key(i))


@pytest.mark.parametrize("agent", ["a2c", pytest.param("ddqn", marks=pytest.mark.learn)])
def test_a_state_is_a_value(agent: str) -> None:
    """No later call changes it, and what follows from it is the same again."""
    learner = Learner(agent, WORLDS["grid-world"].spec, small(agent), steps=200)

    def play(steps: int) -> str:
        rng = np.random.default_rng(learner.updates)
        for _ in range(steps):
            learner.act(rng.integers(0, 2, learner.spec.obs_size))
            learner.observe(float(rng.normal()))
        return learner.state.digest()

    play(LENGTH + 5)
    state = learner.state
    kept = state.digest()
    ends = [play(2 * LENGTH)]
    assert state.digest() == kept != ends[0]
    learner.state = state
    assert (learner.updates, learner.state.digest()) == (1, kept)
    ends.append(play(2 * LENGTH))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("agent", ["a2c", pytest.param("ddqn", marks=pytest.mark.learn)])
def test_the_functions_of_the_loop_are_pure(agent: str) -> None:
    """A log of what was seen, and of what came of it, makes the same learner again."""
    settings = Settings.make(agent, WORLDS["grid-world"].spec, small(agent), 0, 200)
    loop, learning = Events(settings), Learning(settings)
    learner = Learner(agent, settings.spec, settings.config, clock=lambda: 0.0)
    rng, state = np.random.default_rng(0), learning.begin()
    for _ in range(2 * LENGTH + 3):
        obs, reward = rng.integers(0, 2, settings.spec.obs_size), float(rng.normal())
        before, fingerprint = state, state.digest()
        state = loop.see(state, See("0", obs))
        if learning.is_full(state):
            state, problem = learning.learn(state)
            assert problem is None
        number, seen = state.decisions, state.streams["0"].obs
        assert seen is not None
        snapshot = learning.snapshot(state)
        action, probability, _ = learning.propose(snapshot, seen, number)
        version = snapshot.version
        state = loop.decide(state, Decide("0", number, action, probability, version, "policy", 1.0))
        state, result = loop.observe(state, Observe(number, reward))
        assert result == "ok"
        assert before.digest() == fingerprint
        np.testing.assert_array_equal(action, learner.act(obs).action)
        learner.observe(reward)
    assert learner.updates == 2
    assert_same(learner.state, state)


def test_an_interrupted_update_leaves_the_state_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is the one before it, and the call that was to learn can be repeated."""
    spec = WORLDS["grid-world"].spec
    learner, other = (Learner("ddqn", spec, small("ddqn"), steps=200) for _ in range(2))

    def play(one: Learner, steps: int) -> None:
        for t in range(steps):
            one.act(np.full(spec.obs_size, float(t % 2)))
            one.observe(float(t))

    for one in (learner, other):
        play(one, 2 * LENGTH)
    before, compute = flatten(learner.state.agent), Learning.compute

    def interrupted(*arguments: Any) -> Any:
        compute(*arguments)  # which uses up the replay
        raise KeyboardInterrupt

    monkeypatch.setattr(Learning, "compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.act(np.zeros(spec.obs_size))
    assert_same(flatten(learner.state.agent), before)
    monkeypatch.undo()
    for one in (learner, other):
        play(one, 3)
    assert learner.updates == 2
    assert_same(learner.state, other.state)


def test_a_refused_first_act_begins_no_stream() -> None:
    learner = Learner(SEES, SPEC)
    for stream in ("a", "b", "c"):
        with pytest.raises(InputError, match="not finite"):
            learner.act([NAN], [0.0, 0.0], stream)
    step(learner, 1.0, "d")
    step(learner, 1.0, "e")
    assert list(learner.state.streams) == ["d", "e"]


def test_what_a_killed_save_left_is_swept(tmp_path: Path) -> None:
    """Not what another process may still be writing, nor what only looks alike."""
    left, busy = tmp_path / f".{'0' * 16}.part", tmp_path / f".{'1' * 16}.part"
    foreign = tmp_path / ".download.part"
    for file in (left, busy, foreign):
        file.write_bytes(b"half")
    for file in (left, foreign):
        os.utime(file, (1e9, 1e9))
    learner = Learner(SEES, ONE)
    learner.save(tmp_path / "x.npz")
    assert sorted(tmp_path.iterdir()) == sorted([busy, foreign, tmp_path / "x.npz"])


def test_sums_of_rewards_beyond_float32_can_be_loaded(tmp_path: Path) -> None:
    """What `save` writes must be readable: the file before it is gone."""
    learner, file = Learner(SEES, ONE), tmp_path / "x.npz"
    for _ in range(3):
        step(learner, 3e38)
    assert learner.state.streams["0"].account.total > 3.5e38
    learner.save(file)
    assert_same(Learner.load(file, SEES).state, learner.state)


def test_a_folder_is_no_file_to_save_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder: give the name of a file in it"):
        Learner(SEES, ONE).save(tmp_path)
    assert not list(tmp_path.iterdir())
    assert not [x for x in tmp_path.parent.iterdir() if x.suffix == ".part"]


def forged(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a learner's file says of itself, digest and all."""
    arrays = load_arrays(file)
    about = json.loads(arrays.pop("about").tobytes())
    change(about)
    rest = {k: v for k, v in about.items() if k not in ("schema", "digest", "arrays")}
    save_bundle(file, about["schema"], rest, arrays)


def stream_of(about: dict[str, Any]) -> dict[str, Any]:
    return about["streams"]["0"]


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "updates": lambda about: about.update(updates=2**40),
    "no updates": lambda about: about.update(updates=-1),
    "updates flag": lambda about: about.update(updates=True),
    "dropped": lambda about: about.update(dropped=2**40),
    "metrics": lambda about: about.update(metrics={"x": "y"}),
    "decisions": lambda about: about.update(decisions=0),
    "counts": lambda about: about.update(counts={"late": 0.5}),
    "count of streams": lambda about: about["counts"].update(streams=0),
    "tail": lambda about: about.update(tail=[1]),
    "alone": lambda about: about.update(alone=2),
    "open": lambda about: stream_of(about).update(open=2),
    "none open": lambda about: stream_of(about).update(open=0),
    "places": lambda about: stream_of(about).update(places=0),
    "number": lambda about: stream_of(about).update(number=1),
    "account": lambda about: stream_of(about).update(account=[0]),
    "moved": lambda about: stream_of(about).update(moved=[]),
    "marks": lambda about: about["streams"].update({"0": [1]}),
    "name": lambda about: about["streams"].update({"": about["streams"].pop("0")}),
    "seed": lambda about: about.update(seed=2**40),
    "late": lambda about: about.update(late=-1),
}


@for_each("name", FORGED)
def test_forged_files_are_refused(name: str, tmp_path: Path) -> None:
    learner, file = Learner(SEES, ONE), tmp_path / "x.npz"
    step(learner, 1.0)
    learner.save(file)
    forged(file, lambda about: None)
    assert_same(Learner.load(file, SEES).state, learner.state)
    forged(file, FORGED[name])
    with pytest.raises(InputError, match="not a learner of this agent") as caught:
        Learner.load(file, SEES)
    assert len(str(caught.value).splitlines()) == 1


def test_a_broken_state_replaces_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, file = Learner(FRAGILE, ONE), tmp_path / "x.npz"
    learner.save(file)
    good = file.read_bytes()
    learner.state = learner.state._replace(agent=Total(jnp.float32(NAN)))
    with pytest.raises(InputError, match="holds NaN or infinity: use a file that was saved earl"):
        learner.save(file)
    assert file.read_bytes() == good
    monkeypatch.setattr(Learning, "check_usable", lambda *_: None)
    learner.save(file)
    monkeypatch.undo()
    with pytest.raises(InputError, match="holds NaN or infinity: use a file that was saved earl"):
        Learner.load(file, FRAGILE)


def test_a_file_of_another_spec_is_refused(tmp_path: Path) -> None:
    learner, file = Learner(SEES, SPEC), tmp_path / "x.npz"
    learner.save(file)
    Learner.load(file, SEES, spec=ONE)  # streams are not part of a spec
    for wrong in (ONE._replace(num_actions=(4,)), ONE._replace(obs_size=6)):
        with pytest.raises(InputError, match=r"has another spec: .* in the file, .* given"):
            Learner.load(file, SEES, spec=wrong)
    with pytest.raises(InputError, match=r"needs an lcpo\.Spec"):
        Learner.load(file, SEES, spec=3)  # pyright: ignore


def test_policies_and_learners_are_not_mistaken_for_each_other(
    runs: Callable[[str, str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "learner.npz"
    Learner(SEES, ONE).save(file)
    for load in (lcpo.load, Learner.from_run):
        with pytest.raises(InputError, match=r"holds a learner.* use lcpo.Learner.load\("):
            load(file)
    (policy,) = runs("ddqn", "grid-world").glob("runs/*/policy.npz")
    with pytest.raises(InputError, match=r"holds a policy.* use Learner.from_run\("):
        Learner.load(policy)


def test_sizes_that_depend_on_the_steps_are_asked_for() -> None:
    with pytest.raises(
        InputError, match=r"buffer_size.* of agent 'ddqn' needs the number of steps"
    ):
        Learner("ddqn", ONE)


NAN = float("nan")
OBS: dict[str, Any] = {"obs": [0.0], "context": [0.0, 0.0]}
BAD: dict[str, Callable[[Any], Any]] = {
    "act nan": lambda x: x.act([NAN], [0.0, 0.0]),
    "act size": lambda x: x.act([0.0, 1.0], [0.0, 0.0]),
    "act features alone": lambda x: x.act([0.0]),
    "act nothing": lambda x: x.act(None),
    "act context": lambda x: x.act([0.0], [0.0]),
    "act context nan": lambda x: x.act([0.0], [0.0, NAN]),
    "act stream": lambda x: x.act(**OBS, stream=0),
    "act no stream": lambda x: x.act(**OBS, stream=""),
    "act stream list": lambda x: x.act(**OBS, stream=[]),
    "observe first": lambda x: x.observe(0.0),
    "observe twice": lambda x: (x.act(**OBS), x.observe(0.0), x.observe(0.0)),
    "observe unknown": lambda x: (x.act(**OBS), x.observe(0.0, stream="1")),
    "observe stream": lambda x: (x.act(**OBS), x.observe(0.0, stream=[])),
    "act twice": lambda x: (x.act(**OBS), x.act(**OBS)),
    "reward nan": lambda x: (x.act(**OBS), x.observe(NAN)),
    "reward inf": lambda x: (x.act(**OBS), x.observe(float("inf"))),
    "reward text": lambda x: (x.act(**OBS), x.observe("1")),
    "reward array": lambda x: (x.act(**OBS), x.observe(np.zeros(2))),
    "terminated": lambda x: (x.act(**OBS), x.observe(0.0, terminated=2)),
    "truncated": lambda x: (x.act(**OBS), x.observe(0.0, truncated="no")),
    "next_obs nan": lambda x: (x.act(**OBS), x.observe(0.0, [NAN], next_context=[0.0, 0.0])),
    "next_obs size": lambda x: (x.act(**OBS), x.observe(0.0, [0.0])),
    "next_context": lambda x: (x.act(**OBS), x.observe(0.0, next_context=[0.0, 0.0])),
    "action": lambda x: (x.act(**OBS), x.observe(0.0, action=[3])),
    "action size": lambda x: (x.act(**OBS), x.observe(0.0, action=[0, 0])),
    "action share": lambda x: (x.act(**OBS), x.observe(0.0, action=[0.5])),
    "elapsed": lambda x: (x.act(**OBS), x.observe(0.0, elapsed=-1.0)),
    "readings": lambda x: (x.act(**OBS), x.observe(0.0, readings=[1.0])),
    "save": lambda x: x.save(3),  # pyright: ignore
    "load": lambda x: x.load(None),  # pyright: ignore
    "agent": lambda x: Learner("lcpoo", ONE),
    "agent number": lambda x: Learner(3, ONE),  # pyright: ignore
    "spec": lambda x: Learner(SEES, (5, 1)),  # pyright: ignore
    "spec sizes": lambda x: Learner(SEES, ONE._replace(obs_size=2)),
    "config": lambda x: Learner(SEES, ONE, [1]),
    "config keys": lambda x: Learner(SEES, ONE, {1: 2}),
    "config field": lambda x: Learner(SEES, ONE, {"rollout": 3}),
    "seed": lambda x: Learner(SEES, ONE, seed=-1),
    "steps": lambda x: Learner(SEES, ONE, steps=0),
    "advance": lambda x: Learner(SEES, ONE, advance="never"),  # pyright: ignore
    "normalise": lambda x: Learner(SEES, ONE, normalise="much"),
    "normalise columns": lambda x: Learner(SEES, ONE, normalise=[1.0, 2.0]),
    "from_run": lambda x: Learner.from_run("nothing"),
}


@for_each("name", BAD)
def test_bad_input_is_told_in_a_line(name: str) -> None:
    with pytest.raises(InputError) as caught:
        BAD[name](Learner(SEES, ONE))
    assert len(str(caught.value).splitlines()) == 1


def test_bad_input_changes_nothing() -> None:
    learner, other = Learner(SEES, ONE), Learner(SEES, ONE)
    for t in range(9):
        for bad in ("act nan", "act context", "observe first"):
            with pytest.raises(InputError):
                BAD[bad](learner)
        for one in (learner, other):
            one.act([float(t)], [t, t])
        with pytest.raises(InputError):
            learner.observe(NAN)
        with pytest.raises(InputError):
            learner.observe(0.0, [NAN], next_context=[0.0, 0.0])
        for one in (learner, other):
            one.observe(float(t))
    assert learner.updates == 2
    assert_same(learner.state, other.state)

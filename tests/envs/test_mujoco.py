"""The MuJoCo tasks: Gymnasium's v4 without wind, the wind, random streams, states, errors."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

from lcpo.config import make, to_json
from lcpo.defaults import ENVIRONMENTS
from lcpo.envs import ENVS
from lcpo.envs.mujoco.batch import BLOCK, MujocoWorlds, load_model
from lcpo.envs.mujoco.tasks import INDEX_COST, Before, MujocoTask, Reacher
from lcpo.errors import MissingPackage
from lcpo.types import Step

pytest.importorskip("mujoco.batch")
mujoco = pytest.importorskip("mujoco")

STOCK = {
    "inverted-pendulum": "inverted_pendulum_v4:InvertedPendulumEnv",
    "inverted-double-pendulum": "inverted_double_pendulum_v4:InvertedDoublePendulumEnv",
    "reacher": "reacher_v4:ReacherEnv",
    "hopper": "hopper_v4:HopperEnv",
}
ALL = pytest.mark.parametrize("name", STOCK)


def opened(name: str, num_worlds: int, **more: Any) -> MujocoWorlds:
    """Worlds with seeds 0 .. N - 1, reset."""
    worlds = ENVS[name]().open(num_worlds, range(num_worlds), **more)
    worlds.reset(np.ones(num_worlds, bool))
    return worlds


def stock(name: str) -> Any:
    """Gymnasium's own environment. Its module wants imageio, which only its videos need."""
    try:
        importlib.import_module("imageio")
    except ImportError:
        sys.modules["imageio"] = types.ModuleType("imageio")
    module, _, cls = STOCK[name].partition(":")
    return getattr(importlib.import_module(f"gymnasium.envs.mujoco.{module}"), cls)()


def ends(step: Step) -> np.ndarray:
    """Which episodes are over, [N]."""
    return np.asarray(step.terminated) | np.asarray(step.truncated)


def play(worlds: MujocoWorlds, steps: int, seed: int = 0) -> list[np.ndarray]:
    """Everything that random actions and winds bring about, with resets; a world has its own."""
    task, out = worlds.task, []
    rngs = [np.random.default_rng([seed, int(s)]) for s in worlds.get_state()["seed"]]
    for _ in range(steps):
        action = np.stack([r.integers(0, task.num_bins, task.action_size) for r in rngs])
        wind = np.stack([r.normal(0.0, 0.3, 2) for r in rngs])
        step = worlds.step(action, wind)
        ended = ends(step)
        fresh = worlds.reset(ended)
        out.append(np.column_stack([step.obs, step.reward, ended, step.truncated, fresh]))
    return out


def random_states(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """States well beyond those of a reset: at joint limits, on the floor, fast."""
    worlds, rng = opened(name, 1), np.random.default_rng(0)
    low, high = worlds.model.jnt_range.T.copy()
    free = worlds.model.jnt_limited == 0
    low[free], high[free] = -0.5, 0.5
    qpos = worlds.model.qpos0 + rng.uniform(1.05 * low, 1.05 * high, (count, len(low)))
    if name == "hopper":
        qpos[:, 1] = rng.uniform(0.6, 1.4, count)
    near = count // 2  # half of them where the tasks are played
    qpos[:near] = worlds.task.draw(rng, np.tile(worlds.model.qpos0, (near, 1)))[0]
    return qpos, rng.normal(0.0, 2.0, qpos.shape)


@ALL
def test_one_step_without_wind_is_gymnasiums(name: str) -> None:
    """1000 states, each set in both: next state, features, reward, terminated, to 1e-9."""
    count, rng = 1000, np.random.default_rng(1)
    qpos, qvel = random_states(name, count)
    worlds, env = opened(name, count), stock(name)
    task, sim = worlds.task, worlds.sim
    action = rng.integers(0, task.num_bins, (count, task.action_size))
    chosen = np.linspace(-task.max_input, task.max_input, task.num_bins)[action]
    worlds.place(np.arange(count), qpos, qvel)
    before = Before(qpos, worlds.get_state()["features"])
    step = worlds.step(action, np.zeros((count, 2)))
    features, reward = task.features(sim), task.reward(before, sim, action, chosen)
    for i in range(count):
        env.reset()
        env.set_state(qpos[i], qvel[i])
        np.testing.assert_allclose(before.features[i], env._get_obs(), rtol=1e-9, atol=1e-9)
        obs, paid, terminated, _, _ = env.step(chosen[i])
        np.testing.assert_allclose(sim.qpos[i], env.data.qpos, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sim.qvel[i], env.data.qvel, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(features[i], obs, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(reward[i], paid, rtol=1e-9, atol=1e-9)
        assert step.terminated[i] == terminated
    np.testing.assert_array_equal(step.obs, features.astype(np.float32))
    np.testing.assert_array_equal(step.reward, reward.astype(np.float32))
    if name != "reacher":
        assert 0 < step.terminated.sum() < count


@ALL
def test_an_episode_without_wind_is_gymnasiums(name: str) -> None:
    """40 steps, bit for bit: what MuJoCo caches between steps is the same too."""
    worlds, env, rng = opened(name, 3), stock(name), np.random.default_rng(2)
    env.reset()
    env.set_state(worlds.sim.qpos[1], worlds.sim.qvel[1])
    grid = np.linspace(-worlds.task.max_input, worlds.task.max_input, worlds.task.num_bins)
    for _ in range(40):
        action = rng.integers(0, worlds.task.num_bins, (3, worlds.task.action_size))
        step = worlds.step(action, np.zeros((3, 2)))
        obs, paid, terminated, _, _ = env.step(grid[action[1]])
        np.testing.assert_array_equal(step.obs[1], obs.astype(np.float32))
        np.testing.assert_allclose(step.reward[1], paid, rtol=1e-6)
        assert step.terminated[1] == terminated


@ALL
def test_a_new_episode_keeps_nothing_of_the_last(name: str) -> None:
    used, fresh = opened(name, 2), opened(name, 2)
    start = used.sim.qpos.copy(), used.sim.qvel.copy()
    play(used, 10)
    for worlds in (used, fresh):
        worlds.place(np.arange(2), *start)
    for leaf in ("physics", "features", "time"):
        np.testing.assert_array_equal(used.get_state()[leaf], fresh.get_state()[leaf])


@ALL
def test_each_wind_entry_acts(name: str) -> None:
    worlds = opened(name, 4)
    task = worlds.task
    worlds.place(np.arange(4), worlds.sim.qpos[:1].copy(), worlds.sim.qvel[:1].copy())
    wind = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [0.0, 0.0]])
    worlds.step(np.full((4, task.action_size), 7), wind)
    speed = worlds.sim.qvel
    np.testing.assert_array_equal(speed[0], speed[3])
    assert np.abs(speed[0] - speed[1]).max() > 1e-4
    assert np.abs(speed[0] - speed[2]).max() > 1e-5
    assert np.abs(speed[1] - speed[2]).max() > 1e-4


def test_the_wind_costs_nothing() -> None:
    """It changes the motors' inputs, not the cost of the chosen ones, here 1 each."""
    action, wind = np.full((2, 3), 14), np.array([[0.0, 0.0], [2.0, -2.0]])
    worlds = opened("hopper", 2)
    before = worlds.sim.qpos[:, 0].copy()
    step = worlds.step(action, wind)
    speed = (worlds.sim.qpos[:, 0] - before) / 0.008
    np.testing.assert_allclose(step.reward, speed + 1.0 - 3e-3, rtol=1e-5)
    worlds = opened("reacher", 2)
    distance = np.linalg.norm(worlds.reset(np.zeros(2, bool))[:, 8:], axis=1)
    step = worlds.step(action[:, :2], wind)
    np.testing.assert_allclose(step.reward, -distance - 2.0, rtol=1e-5)


# Mean returns of a uniformly random policy in constant wind, in the published environments.
WINDS = [(0.0, 0.0), (0.125, 0.0), (1.0, 0.0), (0.0, 1.0), (-2.5, 2.5)]
PUBLISHED = {
    "inverted-pendulum": (150, [5.9, 4.6, 2.0, 4.65, 1.0]),
    "inverted-double-pendulum": (150, [55.3, 34.8, 11.5, 32.5, 1.0]),
    "reacher": (150, [-6764, -6764, -6764, -6764, -6763]),
    "hopper": (100, [18.5, 20.9, 39.2, 3.1, 0.44]),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.learn] if n == "hopper" else []) for n in STOCK],
)
def test_returns_of_a_random_policy(name: str) -> None:
    """Within four standard errors of the difference, and the rounding of the table."""
    num_published, table = PUBLISHED[name]
    task: MujocoTask = Reacher(faults=(INDEX_COST,)) if name == "reacher" else ENVS[name]()
    num_worlds, num_episodes, rng = 40 * len(WINDS), 3, np.random.default_rng(3)
    worlds = task.open(num_worlds, range(num_worlds))
    wind = np.repeat(WINDS, 40, axis=0)
    worlds.reset(np.ones(num_worlds, bool))
    returns, episode = np.zeros((num_worlds, num_episodes + 1)), np.zeros(num_worlds, int)
    while episode.min() < num_episodes:  # each world plays the same number: no short ones favoured
        step = worlds.step(rng.integers(0, 15, (num_worlds, task.action_size)), wind)
        returns[np.arange(num_worlds), episode] += step.reward
        ended = ends(step)
        episode = np.minimum(episode + ended, num_episodes)
        worlds.reset(ended)
    found = returns[:, :num_episodes].reshape(len(WINDS), -1)
    error = found.std(axis=1) * (1.0 / num_published + 1.0 / found.shape[1]) ** 0.5
    off = np.abs(found.mean(axis=1) - table)
    assert (off <= 4.0 * error + 0.05).all(), (found.mean(axis=1), table, error)


@ALL
def test_a_world_does_not_depend_on_those_beside_it(name: str) -> None:
    """Nine together on two threads, and each alone: bit for bit."""
    together = np.stack(play(opened(name, 9, threads=2), 60), axis=1)
    for i in range(9):
        worlds = ENVS[name]().open(1, [i])
        worlds.reset(np.ones(1, bool))
        np.testing.assert_array_equal(np.concatenate(play(worlds, 60)), together[i])
    assert np.abs(together[0] - together[1]).max() > 0.0


@ALL
def test_a_state_continues_exactly(name: str) -> None:
    """In other worlds, with other seeds and threads; through more resets than are drawn ahead."""
    worlds = opened(name, 5, threads=2)
    play(worlds, 70)
    for _ in range(BLOCK - 3):
        worlds.reset(np.array([True, False, True, False, False]))
    play(worlds, 3)
    state = worlds.get_state()
    assert all(len(leaf) == 5 for leaf in state.values())
    expected = play(worlds, 80, seed=1)
    other = ENVS[name]().open(5, range(100, 105), threads=1)
    other.set_state(state)
    np.testing.assert_array_equal(play(other, 80, seed=1), expected)
    worlds.set_state(state)
    np.testing.assert_array_equal(play(worlds, 80, seed=1), expected)


def test_truncation_comes_with_the_clock() -> None:
    for name, limit in [("reacher", 50), ("hopper", 200), ("inverted-pendulum", 200)]:
        assert ENVS[name]().max_steps == limit
    worlds = Reacher(max_steps=7).open(2, [0, 1])
    worlds.reset(np.ones(2, bool))
    for t in range(1, 15):
        step = worlds.step(np.zeros((2, 2), int), np.zeros((2, 2)))
        assert not step.terminated.any()
        np.testing.assert_array_equal(step.truncated, [t % 7 == 0, t >= 7])
        # World 1 is never reset, not by `step` either.
        worlds.reset(np.array([step.truncated[0], False]))


def starts_of(name: str, count: int = 3000) -> tuple[np.ndarray, np.ndarray, Any]:
    worlds = opened(name, count)
    return worlds.sim.qpos.copy(), worlds.sim.qvel.copy(), worlds.model.qpos0


def assert_uniform(values: np.ndarray, bound: float) -> None:
    assert np.abs(values).max() <= bound
    assert (np.abs(values).max(axis=0) > 0.99 * bound).all()
    np.testing.assert_allclose(values.std(axis=0), bound / 3**0.5, rtol=0.05)
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=0.05 * bound)
    correlation = np.corrcoef(values.T) - np.eye(values.shape[1])
    assert np.abs(correlation).max() < 0.08


def test_resets_are_distributed_as_gymnasiums() -> None:
    for name, bound in [("inverted-pendulum", 0.01), ("hopper", 0.005)]:
        qpos, qvel, default = starts_of(name)
        assert_uniform(np.hstack([qpos - default, qvel]), bound)
    qpos, qvel, _ = starts_of("inverted-double-pendulum")
    assert_uniform(qpos, 0.1)
    np.testing.assert_allclose(qvel.std(axis=0), 0.1, rtol=0.05)
    assert np.abs(qvel).max() > 0.3  # normal, not uniform
    qpos, qvel, _ = starts_of("reacher")
    assert_uniform(qpos[:, :2], 0.1)
    assert_uniform(qvel[:, :2], 0.005)
    assert not qvel[:, 2:].any()
    radius = np.linalg.norm(qpos[:, 2:], axis=1)
    assert radius.max() < 0.2
    for share in (0.25, 0.5, 0.75):  # of the disc's area
        assert abs(np.mean((radius / 0.2) ** 2 < share) - share) < 0.03
    np.testing.assert_allclose(qpos[:, 2:].std(axis=0), 0.1, rtol=0.05)


def test_a_world_draws_a_new_state_at_each_reset() -> None:
    worlds, seen = opened("hopper", 2), []
    for _ in range(3 * BLOCK):
        worlds.reset(np.array([True, False]))
        seen.append(worlds.sim.qpos.copy())
    first, second = np.stack(seen, axis=1)
    assert len(np.unique(first, axis=0)) == 3 * BLOCK
    assert len(np.unique(second, axis=0)) == 1
    again = ENVS["hopper"]().open(2, [0, 2**64 - 1])
    again.reset(np.ones(2, bool))
    again.reset(np.array([True, False]))
    np.testing.assert_array_equal(again.sim.qpos[0], first[0])


@ALL
def test_config_and_spec(name: str) -> None:
    env = make(ENVS[name], {"num_bins": 5, "max_steps": 9})
    assert make(ENVS[name], to_json(env)) == env
    assert env.spec.num_actions == (5,) * env.action_size
    assert env.spec.obs_size == env.num_features + 6
    assert env.advance == "step"
    assert ENVIRONMENTS[name].wind_divisors
    worlds = env.open(2, [0, 1])
    assert worlds.reset(np.ones(2, bool)).shape == (2, env.spec.context.start)
    with pytest.raises(ValueError, match="of world 1: needs indices from 0 to 4"):
        worlds.step(np.array([[0] * env.action_size, [5] * env.action_size]), np.zeros((2, 2)))


def test_index_cost_is_the_reachers_only_fault() -> None:
    with pytest.raises(ValueError, match="index-cost"):
        make(Reacher, {"faults": ["index-costs"]})
    rewards = []
    for faults in ((), (INDEX_COST,)):
        worlds = Reacher(faults=faults).open(1, [0])
        worlds.reset(np.ones(1, bool))
        rewards.append(worlds.step(np.array([[0, 8]]), np.zeros((1, 2))).reward[0])
    np.testing.assert_allclose(rewards[0] - rewards[1], 64.0 - (1.0 + 1.0 / 49.0), rtol=1e-5)


@pytest.mark.parametrize("faults", [(), (INDEX_COST,)])
def test_an_input_of_the_grid_is_its_index(faults: tuple[str, ...]) -> None:
    """From the first to the last, at its cost; between two of them the index is a fraction."""
    task, still = Reacher(faults=faults, num_bins=5), np.zeros((5, 2))
    grid = np.linspace(-task.max_input, task.max_input, 5)
    by_index, by_input = (task.open(5, range(5)) for _ in range(2))
    action = np.column_stack([np.arange(5), 4 - np.arange(5)])
    for worlds in (by_index, by_input):
        worlds.reset(np.ones(5, bool))
    expected, found = by_index.step(action, still), by_input.step_inputs(grid[action], still)
    np.testing.assert_array_equal(found.reward, expected.reward)
    np.testing.assert_array_equal(found.obs, expected.obs)
    between, away = (task.open(1, [0]) for _ in range(2))
    rewards = []
    for worlds, chosen in ((between, 0.25), (away, -1.0)):
        worlds.reset(np.ones(1, bool))
        step = worlds.step_inputs(np.full((1, 2), chosen), still[:1])
        rewards.append(float(step.reward[0]))
    cost = -2 * 2.5**2 if faults else 2 * (1.0 - 0.25**2)
    assert rewards[0] - rewards[1] == pytest.approx(cost, rel=1e-5)


@pytest.mark.parametrize(
    ("action", "wind", "message"),
    [
        (np.zeros((3, 3), int), [[0, 0], [0, 0], [np.nan, 0]], "context .* of world 2: needs fin"),
        (np.zeros((3, 3), int), [[0, 0], [np.inf, 0], [0, 0]], "context .* of world 1: needs fin"),
        (np.zeros((3, 3), int), [[0, 0], [0, 0]], r"contexts \[2, 2\]: needs \[3, 2\]"),
        (np.full((3, 3), np.nan), np.zeros((3, 2)), "actions float64.*needs integers"),
        (np.zeros((3, 2), int), np.zeros((3, 2)), r"\[3, 2\]: needs integers \[3, 3\]"),
        ([[0, 0, 0], [0, -1, 0], [0, 0, 15]], np.zeros((3, 2)), "of world 1: needs indices"),
    ],
)
def test_what_cannot_be_stepped_is_refused(action: Any, wind: Any, message: str) -> None:
    worlds = opened("hopper", 3)
    before = worlds.get_state()
    with pytest.raises(ValueError, match=message):
        worlds.step(np.asarray(action), np.asarray(wind, float))
    for name, leaf in worlds.get_state().items():
        np.testing.assert_array_equal(leaf, before[name])


def test_misuse_is_told() -> None:
    env = ENVS["reacher"]()
    with pytest.raises(ValueError, match="3 worlds, 2 seeds"):
        env.open(3, [0, 1])
    with pytest.raises(ValueError, match="2\\*\\*64"):
        env.open(1, [-1])
    with pytest.raises(ValueError, match="threads = 0"):
        env.open(1, [0], threads=0)
    worlds = env.open(2, [0, 1])
    worlds.reset(np.array([True, False]))
    with pytest.raises(ValueError, match="world 1 has not been reset"):
        worlds.step(np.zeros((2, 2), int), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"needs bool\[2\]"):
        worlds.reset(np.ones(3, bool))
    with pytest.raises(ValueError, match=r"state\['time'\] is missing"):
        worlds.set_state({k: v for k, v in worlds.get_state().items() if k != "time"})
    with pytest.raises(ValueError, match="physics"):
        env.open(3, [0, 1, 2]).set_state(worlds.get_state())
    worlds.close()
    with pytest.raises(RuntimeError, match="closed"):
        worlds.get_state()


@ALL
def test_a_diverged_world_is_terminated(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    """The others go on as if nothing had happened, and after a reset so does the world."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file here
    worlds, calm = opened(name, 3), opened(name, 3)
    action, wind = np.full((3, worlds.task.action_size), 3), np.full((3, 2), 0.1)
    shown = worlds.reset(np.zeros(3, bool))
    for bad in (np.nan, 1e300):
        worlds.sim.qvel[1] = bad
        step, other = worlds.step(action, wind), calm.step(action, wind)
        assert step.terminated[1]
        assert step.reward[1] == 0.0
        np.testing.assert_array_equal(step.obs[1], shown[1])
        for field in ("obs", "reward", "terminated"):
            found, expected = getattr(step, field), getattr(other, field)
            np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
        shown = worlds.reset(np.array([False, True, False]))
        calm.reset(np.array([False, True, False]))
    step, other = worlds.step(action, wind), calm.step(action, wind)
    np.testing.assert_array_equal(step.obs, other.obs)
    np.testing.assert_array_equal(step.terminated, other.terminated)


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("inverted-pendulum", ["CONTACT", "ISLAND"]),
        ("inverted-double-pendulum", ["CONTACT", "ISLAND"]),
        ("reacher", ["CONTACT"]),  # arm and target are two trees
        ("hopper", ["ISLAND"]),
    ],
)
def test_what_mujoco_need_not_look_for_changes_nothing(name: str, off: list[str]) -> None:
    task, outcomes = ENVS[name](), []
    for flags in (sum(int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")) for flag in off), 0):
        model = load_model(task.xml, task.wind_joints)
        if not outcomes:
            assert model.opt.disableflags == flags
        model.opt.disableflags = flags
        data, rng, passed = mujoco.MjData(model), np.random.default_rng(0), []
        for step in range(2000):
            if step % 100 == 0:  # limits, contacts and free flight
                mujoco.mj_resetData(model, data)
                data.qpos[:] += rng.uniform(-0.3, 0.3, model.nq)
            data.ctrl[:] = rng.uniform(-3.0, 3.0, model.nu)
            mujoco.mj_step(model, data)
            passed.append(np.concatenate([data.qpos, data.qvel, data.qfrc_constraint]))
        outcomes.append(np.stack(passed))
    np.testing.assert_array_equal(*outcomes)
    assert np.any(outcomes[0][:, -model.nv :])  # constraints were active


def test_data_of_a_world() -> None:
    """For rendering: the state of one world, with its positions computed."""
    worlds = opened("reacher", 3)
    data = worlds.data_of(2)
    np.testing.assert_array_equal(data.qpos, worlds.sim.qpos[2])
    np.testing.assert_allclose(data.xpos, worlds.sim.xpos[2], atol=1e-12)


def test_without_mujoco_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mujoco'] = None\n"
        "import lcpo; from lcpo.envs import ENVS\n"
        "env = ENVS['hopper'](); env.spec\n"
        "env.open(1, [0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}
    )
    assert "MissingPackage: the MuJoCo tasks need mujoco.batch" in done.stderr
    assert issubclass(MissingPackage, ImportError)
    assert "pip install 'lcpo[mujoco]'" in done.stderr

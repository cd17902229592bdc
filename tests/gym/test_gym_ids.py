"""Our environments in Gymnasium: its own checker, the trace through resets, actions, pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env

import lcpo
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum, state_at
from lcpo.gym import IDS, frames
from lcpo.gym.to_gym import GridWalker, PendulumWorld

assert lcpo.__version__  # importing it registers the ids
NUMBERED = np.stack([np.arange(7), 100 + np.arange(7)], axis=1) / 1000.0


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_nothing_wrong(name: str) -> None:
    env = gymnasium.make(name)
    skip = "mujoco" in type(env.unwrapped).__name__.lower()  # needs a display: tested below
    check_env(env.unwrapped, skip_render_check=skip)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_an_episode(name: str) -> None:
    """It ends, all its observations are in the space, and the same seed gives it again."""
    runs = []
    for _ in range(2):
        env = gymnasium.make(name)
        obs, info = env.reset(seed=3)
        env.action_space.seed(3)
        assert info["context"].shape == (2,)
        seen, over = [obs], False
        while not over:
            obs, _, terminated, truncated, info = env.step(env.action_space.sample())
            assert env.observation_space.contains(obs)
            assert info["context"].shape == (2,)
            seen.append(obs)
            over = terminated or truncated
        runs.append(np.stack(seen))
        env.close()
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("name", ["lcpo/WindyPendulum-v0", "lcpo/WindyHopper-v0"])
def test_a_seeded_reset_rewinds_the_trace_and_another_goes_on(name: str) -> None:
    env = gymnasium.make(name, trace=NUMBERED)
    action = env.action_space.sample()

    def newest(obs: np.ndarray) -> list[int]:
        """The rows in the history, of channel 0 and of channel 1."""
        return np.rint(1000 * obs[-6:] - [0, 0, 0, 100, 100, 100]).astype(int).tolist()

    obs, info = env.reset(seed=0)
    assert newest(obs) == [0, 0, 0] * 2
    for t in range(1, 4):
        obs, *_, info = env.step(action)
        assert newest(obs) == [t, max(t - 1, 0), max(t - 2, 0)] * 2
        np.testing.assert_allclose(info["context"], NUMBERED[t])
    obs, _ = env.reset()
    assert newest(obs) == [3, 2, 1] * 2
    for _ in range(5):
        obs, *_ = env.step(action)
    assert newest(obs) == [1, 0, 6] * 2, "the trace starts again after its last row"
    assert newest(env.reset(seed=0)[0]) == [0, 0, 0] * 2


def test_the_grid_world_changes_by_episode() -> None:
    env: Any = gymnasium.make("lcpo/GridWorld-v0", trace=np.array([[0.0, 0.0], [0.0, 1.0]]))
    traps = []
    env.reset(seed=0)
    for _ in range(4):
        obs, _ = env.reset() if traps else env.reset(seed=0)
        traps.append(int(obs[3]))
        for t in range(20):
            obs, _, _, truncated, _ = env.step(1)
            assert obs[3] == traps[-1]
            assert truncated == (t == 19)
    assert traps == [0, 1, 0, 1]


def test_the_pendulum_is_ours() -> None:
    """A step in plain numbers is one of the compiled environment, from any state in any wind."""
    rng = np.random.default_rng(0)
    world, compiled = PendulumWorld(Pendulum()), jax.jit(jax.vmap(Pendulum().step))
    count = 200
    angle, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-8, 8, count)
    wind, action = rng.normal(0, 2, (count, 2)).astype(np.float32), rng.integers(15, size=count)
    time = np.arange(count, dtype=np.int32)
    state = state_at(jnp.float32(angle), jnp.float32(speed), jnp.asarray(time))
    keys = jax.random.split(jax.random.key(0), count)
    _, theirs = compiled(state, jnp.int32(action[:, None]), jnp.asarray(wind), keys)
    for i in range(count):
        world.angle, world.speed, world.time = angle[i], speed[i], int(time[i])
        features, reward, terminated, truncated = world.step(action[i], wind[i])
        np.testing.assert_allclose(features, theirs.obs[i], atol=1e-5)
        assert reward == pytest.approx(float(theirs.reward[i]), abs=1e-4)
        assert (terminated, truncated) == (False, i == count - 1)


@pytest.mark.parametrize("as_described", [False, True])
def test_the_grid_world_is_ours(as_described: bool) -> None:
    env = GridWorld(as_described=as_described)
    step, walker = jax.jit(env.step), GridWalker(env)
    rng, key = np.random.default_rng(0), jax.random.key(0)
    visited = set()
    for _ in range(30):
        state, _ = env.reset(key)
        walker.reset(rng)
        context, over = np.array([0.0, rng.integers(2)], np.float32), False
        while not over:
            action = rng.integers(4)
            state, theirs = step(state, jnp.int32([action]), jnp.asarray(context), key)
            features, reward, terminated, truncated = walker.step(action, context)
            visited.add(features)
            assert features == tuple(theirs.obs.tolist())
            assert reward == float(theirs.reward)
            assert terminated == bool(theirs.terminated)
            assert truncated == bool(theirs.truncated)
            assert walker.caught == bool(state.caught)
            over = terminated or truncated
    assert len(visited) == (8 if as_described else 9)


def test_ids_are_found_without_an_import() -> None:
    """Gymnasium 1 loads no plugins: `lcpo:` before an id imports what registers it."""
    code = (
        'import gymnasium as g; print(g.make("lcpo:lcpo/GridWorld-v0").reset(seed=0)[0].tolist())'
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[2, 2, 0, 0]"


def test_one_action_dimension_is_discrete() -> None:
    assert gymnasium.make("lcpo/WindyPendulum-v0").action_space == Discrete(15)
    assert gymnasium.make("lcpo/WindyInvertedPendulum-v0", num_bins=7).action_space == Discrete(7)
    assert gymnasium.make("lcpo/WindyHopper-v0").action_space == MultiDiscrete([15] * 3)


def test_a_trace_is_made_once(tmp_path: Path) -> None:
    """And again where its file has changed."""
    one, other = (gymnasium.make("lcpo/WindyPendulum-v0", trace="sinusoid") for _ in range(2))
    assert one.unwrapped.rows is other.unwrapped.rows  # pyright: ignore
    with pytest.raises(ValueError, match="read-only"):
        one.unwrapped.rows[0] = 1.0  # pyright: ignore
    path = tmp_path / "wind.npy"
    for value in (1.0, 2.0):
        np.save(path, np.full((3 + int(value), 2), value))
        env = gymnasium.make("lcpo/WindyPendulum-v0", trace=str(path))
        assert env.reset(seed=0)[1]["context"].tolist() == [value, value]


@pytest.mark.parametrize("name", ["lcpo/WindyPendulum-v0", "lcpo/WindyHopper-v0"])
def test_continuous_actions_hold_the_grid(name: str) -> None:
    grid, free = gymnasium.make(name), gymnasium.make(name, continuous=True)
    high = grid.unwrapped.env.max_input  # pyright: ignore
    np.testing.assert_allclose(free.action_space.high, high)  # pyright: ignore
    size = free.action_space.shape[0]  # pyright: ignore
    for env in (grid, free):
        env.reset(seed=0)
    for index in (0, 3, 7, 14):
        torque = np.full(size, -high + 2 * high * index / 14, np.float32)
        one, other = grid.step(index if size == 1 else np.full(size, index)), free.step(torque)
        np.testing.assert_allclose(one[0], other[0], rtol=1e-4, atol=1e-5)
        assert one[1] == pytest.approx(other[1], rel=1e-4, abs=1e-5)
    between, beside = (
        free.step(np.full(size, 0.11, np.float32)),
        grid.step(7 if size == 1 else np.full(size, 7)),
    )
    assert np.abs(between[0] - beside[0]).max() > 1e-5


def test_bad_arguments_are_told() -> None:
    with pytest.raises(ValueError, match="3 columns, 'pendulum' needs 2"):
        gymnasium.make("lcpo/WindyPendulum-v0", trace=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="no continuous actions"):
        gymnasium.make("lcpo/GridWorld-v0", continuous=True)
    with pytest.raises(ValueError, match="did you mean 'max_steps'"):
        gymnasium.make("lcpo/WindyPendulum-v0", max_step=3)


def colour_at(picture: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """(row, column), in the middle of what has this colour."""
    return np.argwhere((picture == colour).all(axis=-1)).mean(axis=0)


def test_the_picture_follows_pendulum_and_wind() -> None:
    env: Any = gymnasium.make(
        "lcpo/WindyPendulum-v0", trace=np.array([[1.0, 0.0], [0.0, 3.0]]), render_mode="rgb_array"
    )
    env.reset(seed=0)
    red = []
    for angle in (0.0, np.pi):
        env.unwrapped.world.angle = angle
        picture = env.render()
        assert picture.shape == (300, 300, 3)
        red.append(colour_at(picture, frames.RED))
    assert red[0][0] < 120, "upright"
    assert red[1][0] > 180, "hanging"
    assert abs(red[0][1] - 149.5) < 1
    arrows = []
    for _ in range(2):
        rows, columns = np.nonzero((env.render() == frames.BLUE).all(axis=-1))
        arrows.append((np.ptp(rows), np.ptp(columns)))
        env.step(7)
    assert arrows[0][1] > 1.5 * arrows[0][0], "sideways"
    assert arrows[1][0] > 2.0 * arrows[0][1], "up and down, and longer"


def test_wind_pushes_the_way_that_the_arrow_points() -> None:
    """A wind (wx, 0) turns an upright rod by +wx, to the left in the picture: so the arrow."""
    picture = frames.pendulum(np.pi, np.array([1.0, 0.0]))
    ring = colour_at(picture, frames.PALE)
    blue = np.argwhere((picture == frames.BLUE).all(axis=-1))
    head = blue[blue[:, 1] < ring[1] - 5]
    assert np.ptp(head[:, 0]) > np.ptp(blue[blue[:, 1] > ring[1] + 5][:, 0]), "barbs on the left"
    world = PendulumWorld(Pendulum())
    world.step(7, np.array([1.0, 0.0], np.float32))
    assert colour_at(frames.pendulum(world.angle, np.zeros(2)), frames.RED)[1] < 149.5


def test_the_picture_shows_walker_and_trap() -> None:
    env: Any = gymnasium.make(
        "lcpo/GridWorld-v0", trace=np.array([[0.0, 0.0], [0.0, 1.0]]), render_mode="rgb_array"
    )
    env.reset(seed=0)
    before = env.render()
    assert not (before == frames.RED).all(axis=-1).any(), "no trap in the first episode"
    env.step(0)
    assert colour_at(env.render(), frames.BLUE)[1] < colour_at(before, frames.BLUE)[1] - 50
    for _ in range(19):
        env.step(0)
    env.reset()
    row, column = colour_at(env.render(), frames.RED)
    assert abs(row - 149.5) < 3
    assert abs(column - 149.5) < 3


DRAW = """
import gymnasium, lcpo
env = gymnasium.make("lcpo/WindyHopper-v0", render_mode="rgb_array")
env.reset(seed=0)
picture = env.render()
assert picture.shape == (240, 320, 3) and picture.std() > 1, picture
assert env.metadata["render_fps"] == 125
env.close()
print("drawn")
"""


def test_mujoco_draws_the_hopper() -> None:
    command = [sys.executable, "-W", "ignore", "-c", DRAW]
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode and "EGL" in done.stderr:
        pytest.skip("no EGL on this machine")
    assert done.stdout.strip() == "drawn", done.stderr


def test_importing_lcpo_stays_light() -> None:
    code = "import sys, lcpo; print(sorted({'jax', 'mujoco', 'tyro', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

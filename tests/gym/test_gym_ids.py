"""Our environments in Gymnasium: its own checker, the trace through resets, actions, pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lcpo
from lcpo.envs.pendulum import Pendulum, State
from lcpo.gym.ids import IDS

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
    """One step through Gymnasium is one step of the compiled environment in the same wind."""
    env: Any = gymnasium.make("lcpo/WindyPendulum-v0", trace=NUMBERED).unwrapped
    obs, _ = env.reset(seed=1)
    state = env.world.state
    after, reward, *_ = env.step([4])
    key, wind = jax.random.key(0), jnp.asarray(NUMBERED[1], jnp.float32)
    _, step = Pendulum().step(State(*state), jnp.array([4]), wind, key)
    np.testing.assert_allclose(after[:3], step.obs, rtol=1e-6)
    assert reward == pytest.approx(float(step.reward), rel=1e-6)
    assert obs[2] != after[2]


@pytest.mark.parametrize("name", ["lcpo/WindyPendulum-v0", "lcpo/WindyHopper-v0"])
def test_continuous_actions_hold_the_grid(name: str) -> None:
    grid, free = gymnasium.make(name), gymnasium.make(name, continuous=True)
    high = grid.unwrapped.env.max_input  # pyright: ignore
    np.testing.assert_allclose(free.action_space.high, high)  # pyright: ignore
    size = len(grid.action_space.nvec)  # pyright: ignore
    for env in (grid, free):
        env.reset(seed=0)
    for index in (0, 3, 7, 14):
        torque = np.full(size, -high + 2 * high * index / 14, np.float32)
        one, other = grid.step(np.full(size, index)), free.step(torque)
        np.testing.assert_allclose(one[0], other[0], rtol=1e-4, atol=1e-5)
        assert one[1] == pytest.approx(other[1], rel=1e-4, abs=1e-5)
    between, beside = free.step(np.full(size, 0.11, np.float32)), grid.step(np.full(size, 7))
    assert np.abs(between[0] - beside[0]).max() > 1e-5


def test_bad_arguments_are_told() -> None:
    with pytest.raises(ValueError, match="3 columns, 'pendulum' needs 2"):
        gymnasium.make("lcpo/WindyPendulum-v0", trace=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="no continuous actions"):
        gymnasium.make("lcpo/GridWorld-v0", continuous=True)
    with pytest.raises(ValueError, match="did you mean 'max_steps'"):
        gymnasium.make("lcpo/WindyPendulum-v0", max_step=3)


def test_the_picture_follows_the_pendulum() -> None:
    env: Any = gymnasium.make("lcpo/WindyPendulum-v0", render_mode="rgb_array")
    env.reset(seed=0)
    red = []
    for angle in (0.0, np.pi):
        env.unwrapped.world.state = State(*jnp.array([angle, 0.0, 0.0]))
        picture = env.render()
        assert picture.shape == (200, 200, 3)
        red.append(np.argwhere(picture[..., 0] == 204).mean(axis=0))
    assert red[0][0] < 80, "upright"
    assert red[1][0] > 120, "hanging"
    assert abs(red[0][1] - 99.5) < 1


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

"""Our worlds as a vector environment: the same as one by one, and honest resets."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lcpo
from lcpo.envs.base import is_host
from lcpo.envs.compiled_worlds import CompiledWorlds
from lcpo.envs.mujoco.batch import MujocoWorlds
from lcpo.gym.from_gym import from_gymnasium

assert lcpo.__version__  # importing it registers the ids
ROWS = np.stack([np.arange(9), 100 + np.arange(9)], axis=1) / 1000.0
HOPPER, PENDULUM, GRID = "lcpo/WindyHopper-v0", "lcpo/WindyPendulum-v0", "lcpo/GridWorld-v0"


def play(env: Any, steps: int, seed: int = 3) -> dict[str, np.ndarray]:
    """What a vector environment answers to the same random actions."""
    obs, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = [(obs, np.zeros(env.num_envs), *np.zeros((2, env.num_envs), bool), info["context"])]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        seen.append((obs, reward, terminated, truncated, info["context"]))
    names = ("obs", "reward", "terminated", "truncated", "context")
    return {name: np.stack(x) for name, x in zip(names, zip(*seen, strict=True), strict=True)}


@pytest.mark.parametrize(("name", "steps"), [(HOPPER, 60), (GRID, 45)])
def test_worlds_together_are_worlds_one_by_one(name: str, steps: int) -> None:
    """Over ends of episodes, which come at different times in different worlds of the hopper."""
    ours = gymnasium.make_vec(name, num_envs=5)
    assert type(ours).__name__ == "ContextVectorEnv"
    sync = gymnasium.make_vec(name, num_envs=5, vectorization_mode="sync")
    assert ours.metadata["autoreset_mode"] == sync.metadata["autoreset_mode"]
    one, other = play(ours, steps), play(sync, steps)
    assert other["terminated"].any() or other["truncated"].any()
    for key, value in other.items():
        np.testing.assert_allclose(one[key], value, rtol=1e-6, atol=1e-6, err_msg=key)
    ours.close()
    sync.close()


def test_many_pendulums() -> None:
    env: Any = gymnasium.make_vec(PENDULUM, num_envs=64, trace=ROWS, max_steps=20)
    seen = play(env, 25)
    assert seen["obs"].shape == (26, 64, 9)
    assert len(np.unique(seen["obs"][0, :, 0])) == 64, "every world has its own start"
    assert np.flatnonzero(seen["truncated"].all(axis=1)).tolist() == [20]
    assert (seen["reward"][21] == 0).all(), "the step after the last one only resets"
    rows = np.rint(1000 * seen["context"][:, 0, 0]).astype(int)
    assert rows.tolist() == [t % 9 for t in [*range(21), *range(20, 25)]], "and the trace waits"
    again = play(env, 25)
    np.testing.assert_array_equal(seen["obs"], again["obs"])


def test_compiled_robots() -> None:
    """Many worlds may be compiled; one alone is MuJoCo's, which draws it."""
    name = "lcpo/WindyReacher-v0"
    for physics, kind in (("mujoco", MujocoWorlds), ("compiled", CompiledWorlds)):
        env: Any = gymnasium.make_vec(name, num_envs=3, physics=physics)
        obs, _ = env.reset(seed=0)
        assert isinstance(env.worlds, kind)
        obs, reward, *_ = env.step(np.full((3, 2), 7))
        assert obs.shape == (3, 17)
        assert (reward < 0.0).all()
    assert is_host(gymnasium.make_vec(name, num_envs=1).env)  # pyright: ignore
    with pytest.raises(ValueError, match="make_vec"):
        gymnasium.make(name, physics="compiled")


def test_resets_in_the_same_step_tell_the_last_observation() -> None:
    env: Any = gymnasium.make_vec(PENDULUM, num_envs=3, trace=ROWS, max_steps=4,
                                  autoreset_mode=AutoresetMode.SAME_STEP)  # fmt: skip
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    env.reset(seed=0)
    for _ in range(3):
        *_, truncated, info = env.step(np.full(3, 7))
        assert not truncated.any()
        assert "final_obs" not in info
    obs, _, _, truncated, info = env.step(np.full(3, 7))
    assert truncated.all()
    last = np.stack(info["final_obs"])
    assert (np.abs(last[:, 2] - obs[:, 2]) > 1e-4).all(), "another episode"
    np.testing.assert_array_equal(last[:, 3:], obs[:, 3:])
    np.testing.assert_allclose(info["final_info"]["context"], info["context"])
    *_, truncated, _ = env.step(np.full(3, 7))
    assert not truncated.any()


def test_without_resets_it_serves_our_own_runs() -> None:
    env: Any = gymnasium.make_vec(PENDULUM, num_envs=2, trace=ROWS, max_steps=3,
                                  autoreset_mode="Disabled")  # fmt: skip
    env.reset(seed=0)
    before, *_, truncated, _ = [env.step(np.full(2, 7)) for _ in range(3)][-1]
    assert truncated.all()
    with pytest.raises(ValueError, match="have ended"):
        env.step(np.full(2, 7))
    after, _ = env.reset(options={"reset_mask": np.array([True, False])})
    assert (after != before).any(axis=1).tolist() == [True, False]
    with pytest.raises(ValueError, match="have ended"):
        env.step(np.full(2, 7))
    env.reset(options={"reset_mask": np.array([False, True])})
    env.step(np.full(2, 7))


def make_two() -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(PENDULUM, num_envs=2, trace=ROWS, autoreset_mode="Disabled")


def test_both_ways() -> None:
    """A vector of ours, as one of ours again."""
    env = from_gymnasium(f"{__name__}:make_two", context="slice:3:9", lags=3, history=True)
    assert env.spec.num_worlds == 2
    worlds = env.open(2, [0, 1])
    worlds.reset(np.ones(2, bool))
    step = worlds.step(np.array([[3], [4]]), np.zeros((2, 0)))
    assert np.shape(step.obs) == (2, 9)


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ({"num_envs": 0}, "num_envs = 0"),
        ({"render_mode": "rgb_array"}, 'vectorization_mode="sync"'),
        ({"autoreset_mode": "sometimes"}, "'NextStep' or 'SameStep' or 'Disabled'"),
        ({"trace": np.zeros((5, 3))}, "3 columns, 'pendulum' needs 2"),
        ({"max_step": 3}, "did you mean 'max_steps'"),
    ],
)
def test_bad_arguments_are_told(arguments: dict[str, Any], needed: str) -> None:
    with pytest.raises(ValueError, match=needed):
        gymnasium.make_vec(PENDULUM, **arguments)


def test_bad_resets_are_told() -> None:
    env: Any = gymnasium.make_vec(PENDULUM, num_envs=2, trace=ROWS)
    with pytest.raises(ValueError, match="then step"):
        env.step(np.full(2, 7))
    with pytest.raises(ValueError, match="3 seeds: needs one for each of 2"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match=r"needs bool\[2\]"):
        env.reset(options={"reset_mask": np.array([1, 0])})
    with pytest.raises(ValueError, match="leave reset_mask out"):
        env.reset(seed=1, options={"reset_mask": np.array([True, False])})

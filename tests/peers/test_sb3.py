"""Stable-Baselines3 trains on our environments: `make test-peers`, in an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import lcpo

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
sb3 = pytest.importorskip("stable_baselines3")

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small networks: more threads only wait for each other

STEPS = 20_000
assert lcpo.__version__  # importing it registers the ids


def check_learning(model: Any, steps: int) -> list[float]:
    """It learns from so many steps, and its numbers are sound; the returns of its last episodes."""
    before = [p.detach().numpy().copy() for p in model.policy.parameters()]
    model.learn(steps)
    assert model.num_timesteps >= steps
    after = [p.detach().numpy() for p in model.policy.parameters()]
    assert all(np.isfinite(p).all() for p in after)
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert len(returns) > 10
    assert np.isfinite(returns).all()
    return returns


@pytest.mark.parametrize(
    ("name", "continuous", "steps"),
    [
        ("lcpo/WindyPendulum-v0", False, STEPS),
        ("lcpo/WindyHopper-v0", False, STEPS),
        ("lcpo/WindyHopper-v0", True, STEPS // 10),
    ],
)
def test_a2c_trains(name: str, continuous: bool, steps: int) -> None:
    env = gymnasium.make(name, trace="revisit", continuous=continuous)
    check_learning(sb3.A2C("MlpPolicy", env, seed=0, device="cpu"), steps)
    env.close()


@pytest.mark.parametrize("agent", ["DQN", "PPO"])
def test_dqn_and_ppo_train_on_the_pendulum(agent: str) -> None:
    """DQN needs one Discrete action."""
    env = gymnasium.make("lcpo/WindyPendulum-v0", trace="revisit")
    model = getattr(sb3, agent)("MlpPolicy", env, seed=0, device="cpu", gamma=0.95)
    check_learning(model, STEPS // 4)


def test_ppo_learns_in_64_worlds_at_once() -> None:
    """A random policy returns -1250, and so do the first 100,000 steps."""
    import sb3_worlds as example  # in examples/

    worlds = example.VecMonitor(example.Worlds("lcpo/WindyPendulum-v0", 64, trace="revisit"))
    settings: Any = {"n_steps": 64, "batch_size": 512, "gamma": 0.9, "n_epochs": 5}
    model = sb3.PPO("MlpPolicy", worlds, seed=0, device="cpu", learning_rate=1e-3, **settings)
    assert np.mean(check_learning(model, 200_000)) > -900.0


@pytest.mark.filterwarnings("ignore::UserWarning")  # advice on spaces
@pytest.mark.parametrize("name", ["lcpo/GridWorld-v0", "lcpo/WindyPendulum-v0"])
def test_their_checker_agrees(name: str) -> None:
    env_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env_checker.check_env(gymnasium.make(name).unwrapped)

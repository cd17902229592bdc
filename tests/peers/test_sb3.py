"""Stable-Baselines3 trains on our environments: `make test-peers`, in an environment of its own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import lcpo

sb3 = pytest.importorskip("stable_baselines3")

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small networks: more threads only wait for each other

STEPS = 20_000
assert lcpo.__version__  # importing it registers the ids


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
    model: Any = sb3.A2C("MlpPolicy", env, seed=0, device="cpu")
    before = [p.detach().numpy().copy() for p in model.policy.parameters()]
    model.learn(steps)
    assert model.num_timesteps >= steps
    after = [p.detach().numpy() for p in model.policy.parameters()]
    assert all(np.isfinite(p).all() for p in after)
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert len(returns) > 10
    assert np.isfinite(returns).all()
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")  # advice on spaces
@pytest.mark.parametrize("name", ["lcpo/GridWorld-v0", "lcpo/WindyPendulum-v0"])
def test_their_checker_agrees(name: str) -> None:
    env_checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env_checker.check_env(gymnasium.make(name).unwrapped)

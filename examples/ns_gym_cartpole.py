"""NS-Gym's CartPole whose motor weakens and strengthens, which the agent can see.

    pip install ns_gym
    cd examples
    lcpo check-env ns_gym_cartpole:make --env.context key:force
    lcpo compare --agents a2c,lcpo --env ns_gym_cartpole:make --env.context key:force \\
        --steps 20000 --seeds 2

NS-Gym moves a parameter of a Gymnasium environment at every step; here the force of the motor, as a
bounded random walk that continues through the ends of episodes. NS-Gym reports that something has
changed; LCPO needs to observe what: `Shown` puts the force into the observation.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from ns_gym.schedulers import ContinuousScheduler  # pyright: ignore[reportMissingImports]
from ns_gym.update_functions import BoundedRandomWalk  # pyright: ignore[reportMissingImports]
from ns_gym.wrappers import NSClassicControlWrapper  # pyright: ignore[reportMissingImports]

USUAL = 10.0
"""The motor's force in Gymnasium's CartPole."""


class Shown(gymnasium.ObservationWrapper):
    """The state of the cart, and the force of its motor: 1 is the usual one."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        state = env.unwrapped.observation_space
        force = spaces.Box(0.0, 10.0, (1,), np.float32)
        self.observation_space = spaces.Dict({"state": state, "force": force})

    def observation(self, observation: Any) -> dict[str, np.ndarray]:
        force: Any = self.get_wrapper_attr("force_mag") / USUAL
        return {"state": observation["state"], "force": np.array([force], np.float32)}


def make() -> gymnasium.Env:
    walk = BoundedRandomWalk(ContinuousScheduler(), mu=0.0, sigma=0.2, lo=4.0, hi=20.0)
    cart: Any = gymnasium.make("CartPole-v1", disable_env_checker=True)
    drifting = NSClassicControlWrapper(cart, {"force_mag": walk}, persistent_params=True)
    return Shown(drifting)

"""Stable-Baselines3 on many worlds of an lcpo environment at once.

    pip install stable-baselines3
    python examples/sb3_worlds.py

Stable-Baselines3 has its own kind of vector environment. `Worlds` is one around Gymnasium's: it
takes what `gymnasium.make_vec` makes, with resets in the same step, as Stable-Baselines3 expects.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.vec_env import (  # pyright: ignore[reportMissingImports]
    VecEnv,
    VecMonitor,
)


class Worlds(VecEnv):
    """A Gymnasium vector environment in the form that Stable-Baselines3 expects."""

    def __init__(self, name: str, num_envs: int, **arguments: Any) -> None:
        same_step = gymnasium.vector.AutoresetMode.SAME_STEP
        self.env: Any = gymnasium.make_vec(
            name, num_envs=num_envs, autoreset_mode=same_step, **arguments
        )
        spaces = self.env.single_observation_space, self.env.single_action_space
        super().__init__(num_envs, *spaces)

    def reset(self) -> np.ndarray:
        seed, self._seeds = self._seeds[0], [None] * self.num_envs
        return self.env.reset(seed=seed)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, reward, terminated, truncated, info = self.env.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = terminated | truncated
        for i in np.flatnonzero(ended):
            infos[i]["terminal_observation"] = info["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return obs, reward.astype(np.float32), ended, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def main() -> None:
    worlds = VecMonitor(Worlds("lcpo:lcpo/WindyPendulum-v0", 64, trace="3"))
    PPO("MlpPolicy", worlds, n_steps=64, gamma=0.9, verbose=1, device="cpu").learn(500_000)


if __name__ == "__main__":
    main()

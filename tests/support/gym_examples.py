"""Gymnasium environments to be wrapped in tests, with one thing wrong where a test says so."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Stay near 0 in a wind that turns every 7 steps, through resets. `where`: the wind's place.

    `fault`: what goes wrong in step number `at` of the world.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, where: str = "key", length: int = 10, fault: str = "", at: int = 5) -> None:
        self.where, self.length, self.fault, self.at = where, length, fault, at
        box = spaces.Box(-100.0, 100.0, (1,), np.float32)
        both = spaces.Box(-100.0, 100.0, (2,), np.float32)
        self.observation_space = {
            "key": spaces.Dict({"wind": box, "place": box}), "slice": both, "info": box
        }[where]  # fmt: skip
        self.action_space = spaces.Discrete(3, start=-1)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.time = self.np_random.normal(), 0
        return self._observe()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        assert self.action_space.contains(action), action
        self.steps += 1
        self.time += 1
        self.place += 0.2 * int(action) + 0.1 * self.wind + 0.01 * self.np_random.normal()
        obs, info = self._observe()
        reward, truncated = -abs(self.place), self.time >= self.length
        if self.fault and self.steps == self.at:
            if self.fault == "raises":
                raise OSError("the simulator is gone")
            if self.fault == "nan":
                obs["place"][0] = np.nan
            if self.fault == "nan-reward":
                reward = float("nan")
            if self.fault == "shape":
                obs["place"] = np.zeros(3, np.float32)
            if self.fault == "flag":
                truncated = 1.0
            if self.fault == "reward":
                reward = np.zeros(2)
            if self.fault == "no-context":
                del obs["wind"]
        return obs, reward, False, truncated, info

    @property
    def wind(self) -> float:
        return 1.0 if self.steps // 7 % 2 else -1.0

    def _observe(self) -> tuple[Any, dict]:
        place, wind = np.array([self.place], np.float32), np.array([self.wind], np.float32)
        if self.where == "key":
            return {"wind": wind, "place": place}, {}
        if self.where == "slice":
            return np.concatenate([wind, place]), {}
        return place, {"context": wind}


class SavedWalk(Walk):
    """A walk that can be saved."""

    def get_state(self) -> dict[str, Any]:
        return {"place": self.place, "time": self.time, "steps": self.steps}

    def set_state(self, state: dict[str, Any]) -> None:
        self.place, self.time = float(state["place"]), int(state["time"])
        self.steps = int(state["steps"])


def limited(**arguments: Any) -> gymnasium.Env:
    """A saved walk that a wrapper cuts off."""
    return gymnasium.wrappers.TimeLimit(SavedWalk(length=1000, **arguments), max_episode_steps=10)


def clipped() -> gymnasium.Env:
    """A saved walk in a wrapper of which nobody knows what it holds."""
    return gymnasium.wrappers.TransformReward(SavedWalk(), lambda reward: reward)


def vector(mode: str = "DISABLED", worlds: int = 3) -> gymnasium.vector.VectorEnv:
    """Walks that step together."""
    return gymnasium.vector.SyncVectorEnv(
        [lambda: Walk("info") for _ in range(worlds)],
        autoreset_mode=gymnasium.vector.AutoresetMode[mode],
    )


def needs(module: str) -> gymnasium.Env:
    """An environment with a package that is not installed."""
    raise ModuleNotFoundError(f"No module named {module!r}", name=module)

"""One world of our compiled environments in plain Python numbers.

Calling a compiled function takes longer than these few lines do. They repeat the equations of
`lcpo.core.pendulum` and `lcpo.envs.gridworld`, in double precision; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lcpo.core import pendulum
from lcpo.envs.gridworld import MOVES, SIZE, TRAP_PENALTY, GridWorld
from lcpo.envs.pendulum import Pendulum

Result = tuple[Sequence[float] | np.ndarray, float, bool, bool]
"""(features, reward, terminated, truncated) of one step of one world."""
TURN = 2.0 * math.pi


class PlainWorld:
    """Holds no simulator: there is nothing to open or to close."""

    def open(self, rng: np.random.Generator) -> None:
        pass

    def close(self) -> None:
        pass


class PendulumWorld(PlainWorld):
    """A pendulum in a wind."""

    def __init__(self, env: Pendulum) -> None:
        self.max_steps, high = env.max_steps, pendulum.MAX_TORQUE
        self.torques = np.linspace(-high, high, env.num_bins).tolist()
        self.angle, self.speed, self.time = 0.0, 0.0, 0

    def reset(self, rng: np.random.Generator) -> Sequence[float]:
        """Angle ~ U(-pi, pi), speed ~ U(-1, 1)."""
        self.angle, self.speed = rng.uniform([-math.pi, -1.0], [math.pi, 1.0]).tolist()
        self.time = 0
        return self._features()

    def step(self, action: Any, context: np.ndarray) -> Result:
        """With the index of a torque."""
        return self._advance(self.torques[int(action)], context)

    def step_inputs(self, inputs: np.ndarray, context: np.ndarray) -> Result:
        """With the torque [1] itself."""
        return self._advance(_clip(float(inputs[0]), pendulum.MAX_TORQUE), context)

    def _advance(self, torque: float, context: np.ndarray) -> Result:
        angle, speed = self.angle, self.speed
        wind_x, wind_y = context.tolist()
        up = math.sin(angle)
        total = _clip(torque + wind_x * math.cos(angle) + wind_y * up, pendulum.MAX_TORQUE)
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = _clip(speed + (15.0 * up + 3.0 * total) * pendulum.DT, pendulum.MAX_SPEED)
        self.angle, self.speed = (angle + pendulum.DT * speed + math.pi) % TURN - math.pi, speed
        self.time += 1
        return self._features(), reward, False, self.time >= self.max_steps

    def _features(self) -> Sequence[float]:
        return math.cos(self.angle), math.sin(self.angle), self.speed


class GridWalker(PlainWorld):
    """A walker in the grid with a trap."""

    def __init__(self, env: GridWorld) -> None:
        self.env, self.moves = env, MOVES.tolist()
        self.row, self.col, self.caught, self.time = SIZE - 1, SIZE - 1, False, 0

    def reset(self, rng: np.random.Generator) -> Sequence[float]:
        self.row, self.col, self.caught, self.time = SIZE - 1, SIZE - 1, False, 0
        return self.row, self.col

    def step(self, action: Any, context: np.ndarray) -> Result:
        down, right = self.moves[int(action)]
        row = min(max(self.row + down, 0), SIZE - 1)
        col = min(max(self.col + right, 0), SIZE - 1)
        blocked = (row, col) == (1, 2)
        if not self.env.as_described:
            blocked = blocked and self.col == 2 and self.row != 1
        if not blocked:
            self.row, self.col = row, col
        on_exit = (self.row, self.col) == (0, 2)
        trapped = (self.row, self.col) == (1, 1) and context[1] > 0.5 and not self.caught
        self.caught = self.caught or bool(trapped)
        self.time += 1
        reward = (0.0 if on_exit else -1.0) - TRAP_PENALTY * trapped
        over = on_exit and self.env.as_described
        return (self.row, self.col), float(reward), over, self.time >= self.env.max_steps


WORLDS: dict[type, Any] = {Pendulum: PendulumWorld, GridWorld: GridWalker}
"""By the class of the environment."""


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)

"""The four MuJoCo tasks of the paper, in a wind (wx, wy) (docs/envs/mujoco.md).

Physics, features, rewards and ends are those of Gymnasium's v4 environments; the motors also feel
the wind. Angles and the state are those before the step, `a` is the chosen motor input:

    inverted pendulum          slider: a + wx; hinge: wx cos q1 + wy sin q1
    inverted double pendulum   the same, and hinge 2: wx cos(q1 + q2) + wy sin(q1 + q2)
    reacher                    joint k: a_k - wx sin p_k + wy cos p_k, p = (q1, q1 + q2)
    hopper                     motor k: a_k + wx (cos p_k - cos p_k+1) - wy (sin p_k - sin p_k+1)

MuJoCo clips the sum on each motor to the motor's range.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lcpo.config import config
from lcpo.envs.mujoco import Before, MujocoTask, Sim


@config
class InvertedPendulum(MujocoTask):
    """Balance a pole on a cart: 1 for each step that it stands."""

    xml: ClassVar[str] = "inverted_pendulum.xml"
    wind_joints: ClassVar[tuple[str, ...]] = ("hinge",)
    frame_skip: ClassVar[int] = 2
    max_input: ClassVar[float] = 3.0
    action_size: ClassVar[int] = 1
    num_features: ClassVar[int] = 4

    def draw(self, rng: np.random.Generator, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All ~ U(-0.01, 0.01)."""
        qpos, qvel = rng.uniform(-0.01, 0.01, (2, *default.shape))
        return default + qpos, qvel

    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        """The wind pushes the cart and turns the pole."""
        return np.column_stack([chosen[:, 0] + wind[:, 0], _along(wind, qpos[:, 1])])

    def features(self, sim: Sim) -> np.ndarray:
        """Positions and speeds of cart and pole."""
        return np.hstack([sim.qpos, sim.qvel])

    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """Always 1, at the fall too."""
        del before, sim, chosen
        return np.ones(len(action))

    def terminated(self, sim: Sim) -> np.ndarray:
        """The pole has left the vertical by more than 0.2."""
        return np.abs(sim.qpos[:, 1]) > 0.2


def _along(wind: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """wx cos(angle) + wy sin(angle)."""
    return wind[:, 0] * np.cos(angle) + wind[:, 1] * np.sin(angle)

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

import functools
from typing import ClassVar

import numpy as np

from lcpo.config import config, static
from lcpo.envs.mujoco.base import Before, MujocoTask, Sim

FINGERTIP, TARGET = 3, 4
"""Bodies of the reacher's model."""
HOPPER_DT = 0.008
"""Seconds per step: frame_skip times the model's 0.002."""

HOPPER_SIGNS = np.array([1.0, -1.0, -1.0, -1.0])

INDEX_COST = "index-cost"
"""Fault: the reacher's cost of control is the sum of the squared *indices* 0 .. 14 of the inputs
instead of the squared inputs, so that the task becomes to choose index 0 always."""

beside = functools.partial(np.concatenate, axis=1)
"""np.hstack of matrices, in half the time."""
running_sum = functools.partial(np.add.accumulate, axis=1)
"""np.cumsum along rows, in half the time."""


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
        cart, angle = chosen + wind[:, :1], qpos[:, 1:]
        return beside([cart, wind[:, :1] * np.cos(angle) + wind[:, 1:] * np.sin(angle)])

    def features(self, sim: Sim) -> np.ndarray:
        """Positions and speeds of cart and pole."""
        return beside([sim.qpos, sim.qvel])

    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """Always 1, at the fall too."""
        del before, sim, chosen
        return np.ones(len(action))

    def terminated(self, sim: Sim) -> np.ndarray:
        """The pole has left the vertical by more than 0.2."""
        return np.abs(sim.qpos[:, 1]) > 0.2


@config
class InvertedDoublePendulum(MujocoTask):
    """Balance two poles, one on the other, on a cart."""

    xml: ClassVar[str] = "inverted_double_pendulum.xml"
    wind_joints: ClassVar[tuple[str, ...]] = ("hinge", "hinge2")
    frame_skip: ClassVar[int] = 5
    max_input: ClassVar[float] = 1.0
    action_size: ClassVar[int] = 1
    num_features: ClassVar[int] = 11

    def draw(self, rng: np.random.Generator, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions ~ U(-0.1, 0.1), speeds ~ 0.1 N(0, 1)."""
        qpos = default + rng.uniform(-0.1, 0.1, default.shape)
        return qpos, 0.1 * rng.standard_normal(default.shape)

    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        """The wind pushes the cart and turns each pole, by the pole's angle in space."""
        cart, angles = chosen + wind[:, :1], running_sum(qpos[:, 1:])
        return beside([cart, wind[:, :1] * np.cos(angles) + wind[:, 1:] * np.sin(angles)])

    def features(self, sim: Sim) -> np.ndarray:
        """Cart position, sines, cosines; clipped speeds and constraint forces."""
        angles = sim.qpos[:, 1:]
        rates = beside([sim.qvel, sim.qfrc_constraint]).clip(-10.0, 10.0)
        return beside([sim.qpos[:, :1], np.sin(angles), np.cos(angles), rates])

    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """10, less where the tip is away from (0, 2) or the poles are fast."""
        del before, action, chosen
        x, height, speed = sim.site_xpos[:, 0, 0], sim.site_xpos[:, 0, 2], sim.qvel
        distance = 0.01 * x**2 + (height - 2.0) ** 2
        return 10.0 - distance - (1e-3 * speed[:, 1] ** 2 + 5e-3 * speed[:, 2] ** 2)

    def terminated(self, sim: Sim) -> np.ndarray:
        """The tip is at height 1 or lower."""
        return sim.site_xpos[:, 0, 2] <= 1.0


@config
class Reacher(MujocoTask):
    """Bring the tip of a two-joint arm to a target."""

    max_steps: int = static(50, "steps after which an episode is truncated", low=1)
    faults: tuple[str, ...] = static((), "published faults to repeat", choices=(INDEX_COST,))

    xml: ClassVar[str] = "reacher.xml"
    frame_skip: ClassVar[int] = 2
    max_input: ClassVar[float] = 1.0
    action_size: ClassVar[int] = 2
    num_features: ClassVar[int] = 11

    def draw(self, rng: np.random.Generator, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Joints ~ U(-0.1, 0.1), at speeds ~ U(-0.005, 0.005); the target uniform on a disc."""
        count = len(default)
        joints = default[:, :2] + rng.uniform(-0.1, 0.1, (count, 2))
        radius, angle = 0.2 * np.sqrt(rng.random(count)), rng.uniform(0.0, 2.0 * np.pi, count)
        target = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        speeds = rng.uniform(-0.005, 0.005, (count, 2))
        return beside([joints, target]), beside([speeds, np.zeros((count, 2))])

    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        """The wind turns each link, by the link's angle in space."""
        angles = running_sum(qpos[:, :2])
        return chosen - wind[:, :1] * np.sin(angles) + wind[:, 1:] * np.cos(angles)

    def features(self, sim: Sim) -> np.ndarray:
        """Cosines, sines, target, joint speeds, and the way from target to fingertip."""
        angles, target = sim.qpos[:, :2], sim.qpos[:, 2:]
        way = sim.xpos[:, FINGERTIP] - sim.xpos[:, TARGET]
        return beside([np.cos(angles), np.sin(angles), target, sim.qvel[:, :2], way])

    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """Less the distance before the step, less the squares of the chosen inputs."""
        del sim
        way = before.features[:, 8:]
        cost = action if INDEX_COST in self.faults else chosen
        return -np.sqrt(np.vecdot(way, way)) - np.vecdot(cost, cost)

    def terminated(self, sim: Sim) -> np.ndarray:
        """Never."""
        return np.zeros(len(sim.qpos), bool)


@config
class Hopper(MujocoTask):
    """Hop forward on one leg without falling."""

    xml: ClassVar[str] = "hopper.xml"
    frame_skip: ClassVar[int] = 4
    max_input: ClassVar[float] = 1.0
    action_size: ClassVar[int] = 3
    num_features: ClassVar[int] = 11

    def draw(self, rng: np.random.Generator, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The upright pose, and all ~ U(-0.005, 0.005) about it."""
        qpos, qvel = rng.uniform(-0.005, 0.005, (2, *default.shape))
        return default + qpos, qvel

    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        """The wind on each motor, by a chain of angles that begins at the foot.

        The first angle of the chain goes with the first motor, which is the thigh's: this looks
        reversed, but it is what the published results come from.
        """
        chain = running_sum(qpos[:, :1:-1] * HOPPER_SIGNS)  # foot, leg, thigh, torso
        chain[:, 3] -= np.pi / 2.0
        x, y = np.diff(np.cos(chain), axis=1), np.diff(np.sin(chain), axis=1)
        return chosen - wind[:, :1] * x + wind[:, 1:] * y

    def features(self, sim: Sim) -> np.ndarray:
        """Height and angles, clipped speeds."""
        return beside([sim.qpos[:, 1:], sim.qvel.clip(-10.0, 10.0)])

    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """Forward speed, and 1, less a small cost of the chosen inputs; the wind's is free."""
        del action
        speed = (sim.qpos[:, 0] - before.qpos[:, 0]) / HOPPER_DT
        return speed + 1.0 - 1e-3 * np.vecdot(chosen, chosen)

    def terminated(self, sim: Sim) -> np.ndarray:
        """Too low, tilted by 0.2 or more, or flung apart."""
        height, tilt = sim.qpos[:, 1], sim.qpos[:, 2]
        rest = beside([sim.qpos[:, 2:], sim.qvel])
        return ~((height > 0.7) & (np.abs(tilt) < 0.2) & (np.abs(rest) < 100.0).all(axis=1))

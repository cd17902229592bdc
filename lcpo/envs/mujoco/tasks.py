"""The paper's four MuJoCo tasks in a wind (wx, wy), and what a task is (docs/envs/mujoco.md).

Physics, features, rewards and terminations are those of Gymnasium's v4 environments; the motors
also feel the wind. Angles and states are those before the step, `a` is the chosen motor input:

    inverted pendulum          slider: a + wx; hinge: wx cos q1 + wy sin q1
    inverted double pendulum   the same, and hinge 2: wx cos(q1 + q2) + wy sin(q1 + q2)
    reacher                    joint k: a_k - wx sin p_k + wy cos p_k, p = (q1, q1 + q2)
    hopper                     motor k: a_k + wx (cos p_k - cos p_k+1) - wy (sin p_k - sin p_k+1)

MuJoCo clips the sum on each motor to the motor's range. To write another task, subclass
`MujocoTask`: class members name the model and its motors, and five functions of arrays [N, ...]
define initial states, motor inputs, features, rewards and terminations.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import ContextSlice, Spec

if TYPE_CHECKING:
    from lcpo.envs.mujoco.batch import MujocoWorlds

CHANNELS, LAGS = 2, 3
FINGERTIP, TARGET = 3, 4  # bodies of the reacher's model
HOPPER_DT = 0.008  # seconds per step: frame_skip times the model's 0.002
HOPPER_SIGNS = np.array([1.0, -1.0, -1.0, -1.0])
INDEX_COST = "index-cost"
"""Fault: the reacher's cost of control is the sum of the squared *indices* 0 .. 14 of the inputs
instead of the squared inputs, so that the task becomes to choose index 0 always."""

beside = functools.partial(np.concatenate, axis=1)  # np.hstack of matrices, in half the time
running_sum = functools.partial(np.add.accumulate, axis=1)  # np.cumsum along rows, in half the time


class Sim(NamedTuple):
    """Live float64 arrays of all worlds, [N, ...]. The last three are read-only."""

    qpos: ndarray
    qvel: ndarray
    ctrl: ndarray
    xpos: ndarray
    site_xpos: ndarray
    qfrc_constraint: ndarray


class Before(NamedTuple):
    """The state before a step, as rewards need it, [N, ...]."""

    qpos: ndarray
    features: ndarray


@config
class MujocoTask(abc.ABC):
    """A robot in a wind (wx, wy). Its actions are indices into a grid of motor inputs."""

    num_bins: int = static(15, "motor inputs per action dimension, evenly spaced", low=2)
    max_steps: int = static(200, "steps after which an episode is truncated", low=1)

    xml: ClassVar[str]  # one of Gymnasium's models
    wind_joints: ClassVar[tuple[str, ...]] = ()  # joints with an additional motor for the wind
    frame_skip: ClassVar[int]  # steps of MuJoCo per step of the task
    max_input: ClassVar[float]  # motor inputs range from -max_input to max_input
    action_size: ClassVar[int]  # motors whose inputs an agent chooses
    feature_names: ClassVar[tuple[str, ...]]
    context_names: ClassVar[tuple[str, ...]] = ("wx", "wy")
    spread: ClassVar[float]
    """Initial positions and speeds are uniform within this distance of the model's."""

    @property
    def num_features(self) -> int:
        return len(self.feature_names)

    @property
    def spec(self) -> Spec:
        context = ContextSlice(start=self.num_features, channels=CHANNELS, lags=LAGS)
        num_actions = (self.num_bins,) * self.action_size
        return Spec(self.num_features + context.size, context, num_actions)

    @property
    def advance(self) -> Advance:
        return "step"

    def open(
        self, num_worlds: int, seeds: Sequence[int], threads: int | None = None
    ) -> MujocoWorlds:
        from lcpo.envs.mujoco.batch import MujocoWorlds  # which imports tasks

        return MujocoWorlds(self, num_worlds, seeds, threads)

    def draw(self, rng: np.random.Generator, default: ndarray) -> tuple[ndarray, ndarray]:
        """Initial states qpos, qvel [count, nq] about the model's `default` qpos [count, nq]."""
        qpos, qvel = rng.uniform(-self.spread, self.spread, (2, *default.shape))
        return default + qpos, qvel

    @abc.abstractmethod
    def control(self, chosen: ndarray, wind: ndarray, qpos: ndarray) -> ndarray:
        """Inputs of all motors [N, nu] from the chosen ones [N, A] and the wind, not clipped."""

    @abc.abstractmethod
    def features(self, sim: Sim) -> ndarray:
        """Observations without the wind, [N, F]."""

    @abc.abstractmethod
    def reward(self, before: Before, sim: Sim, action: ndarray, chosen: ndarray) -> ndarray:
        """Reward [N] of a step: `action` [N, A] are the indices of the inputs `chosen`."""

    def terminated(self, sim: Sim) -> ndarray:
        """Whether an episode has terminated, [N] bool. Truncation does not count."""
        return np.zeros(len(sim.qpos), bool)


@config
class InvertedPendulum(MujocoTask):
    """Balance a pole on a cart: 1 for each step that it stands."""

    xml = "inverted_pendulum.xml"
    wind_joints = ("hinge",)
    frame_skip = 2
    max_input = 3.0
    action_size = 1
    feature_names = ("x", "q1", "x'", "q1'")
    spread = 0.01

    def control(self, chosen: ndarray, wind: ndarray, qpos: ndarray) -> ndarray:
        """The wind pushes the cart and turns each pole, by the pole's angle in space."""
        cart, angles = chosen + wind[:, :1], running_sum(qpos[:, 1:])
        return beside([cart, wind[:, :1] * np.cos(angles) + wind[:, 1:] * np.sin(angles)])

    def features(self, sim: Sim) -> ndarray:
        """Positions and speeds of cart and pole."""
        return beside([sim.qpos, sim.qvel])

    def reward(self, before: Before, sim: Sim, action: ndarray, chosen: ndarray) -> ndarray:
        """Always 1, at the fall too."""
        return np.ones(len(action))

    def terminated(self, sim: Sim) -> ndarray:
        """The pole has left the vertical by more than 0.2."""
        return np.abs(sim.qpos[:, 1]) > 0.2


@config
class InvertedDoublePendulum(InvertedPendulum):
    """Balance two poles, one on the other, on a cart."""

    xml = "inverted_double_pendulum.xml"
    wind_joints = ("hinge", "hinge2")
    frame_skip = 5
    max_input = 1.0
    feature_names = (
        "x", "sin q1", "sin q2", "cos q1", "cos q2", "x'", "q1'", "q2'",
        "force on x", "force on q1", "force on q2",
    )  # fmt: skip

    def draw(self, rng: np.random.Generator, default: ndarray) -> tuple[ndarray, ndarray]:
        """Positions ~ U(-0.1, 0.1), speeds ~ 0.1 N(0, 1)."""
        qpos = default + rng.uniform(-0.1, 0.1, default.shape)
        return qpos, 0.1 * rng.standard_normal(default.shape)

    def features(self, sim: Sim) -> ndarray:
        """Cart position, sines, cosines; clipped speeds and constraint forces."""
        angles = sim.qpos[:, 1:]
        rates = beside([sim.qvel, sim.qfrc_constraint]).clip(-10.0, 10.0)
        return beside([sim.qpos[:, :1], np.sin(angles), np.cos(angles), rates])

    def reward(self, before: Before, sim: Sim, action: ndarray, chosen: ndarray) -> ndarray:
        """10, less where the tip is away from (0, 2) or the poles are fast."""
        x, height, speed = sim.site_xpos[:, 0, 0], sim.site_xpos[:, 0, 2], sim.qvel
        distance = 0.01 * x**2 + (height - 2.0) ** 2
        return 10.0 - distance - (1e-3 * speed[:, 1] ** 2 + 5e-3 * speed[:, 2] ** 2)

    def terminated(self, sim: Sim) -> ndarray:
        """The tip is at height 1 or lower."""
        return sim.site_xpos[:, 0, 2] <= 1.0


@config
class Reacher(MujocoTask):
    """Bring the tip of a two-joint arm to a target."""

    max_steps: int = static(50, "steps after which an episode is truncated", low=1)
    faults: tuple[str, ...] = static((), "published faults to repeat", choices=(INDEX_COST,))

    xml = "reacher.xml"
    frame_skip = 2
    max_input = 1.0
    action_size = 2
    feature_names = (
        "cos q1", "cos q2", "sin q1", "sin q2", "target x", "target y", "q1'", "q2'",
        "fingertip - target, x", "fingertip - target, y", "fingertip - target, z",
    )  # fmt: skip

    def draw(self, rng: np.random.Generator, default: ndarray) -> tuple[ndarray, ndarray]:
        """Joints ~ U(-0.1, 0.1), at speeds ~ U(-0.005, 0.005); the target uniform on a disc."""
        count = len(default)
        joints = default[:, :2] + rng.uniform(-0.1, 0.1, (count, 2))
        radius, angle = 0.2 * np.sqrt(rng.random(count)), rng.uniform(0.0, 2.0 * np.pi, count)
        target = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        speeds = rng.uniform(-0.005, 0.005, (count, 2))
        return beside([joints, target]), beside([speeds, np.zeros((count, 2))])

    def control(self, chosen: ndarray, wind: ndarray, qpos: ndarray) -> ndarray:
        """The wind turns each link, by the link's angle in space."""
        angles = running_sum(qpos[:, :2])
        return chosen - wind[:, :1] * np.sin(angles) + wind[:, 1:] * np.cos(angles)

    def features(self, sim: Sim) -> ndarray:
        """Cosines, sines, target, joint speeds, and the way from target to fingertip."""
        angles, target = sim.qpos[:, :2], sim.qpos[:, 2:]
        way = sim.xpos[:, FINGERTIP] - sim.xpos[:, TARGET]
        return beside([np.cos(angles), np.sin(angles), target, sim.qvel[:, :2], way])

    def reward(self, before: Before, sim: Sim, action: ndarray, chosen: ndarray) -> ndarray:
        """Less the distance before the step, less the squares of the chosen inputs."""
        way = before.features[:, 8:]
        cost = action if INDEX_COST in self.faults else chosen
        return -np.sqrt(np.vecdot(way, way)) - np.vecdot(cost, cost)


@config
class Hopper(MujocoTask):
    """Hop forward on one leg without falling."""

    xml = "hopper.xml"
    frame_skip = 4
    max_input = 1.0
    action_size = 3
    feature_names = (
        "z", "torso", "thigh", "leg", "foot", "x'", "z'", "torso'", "thigh'", "leg'", "foot'",
    )  # fmt: skip
    spread = 0.005

    def control(self, chosen: ndarray, wind: ndarray, qpos: ndarray) -> ndarray:
        """The wind on each motor, by a chain of angles that begins at the foot.

        The first angle of the chain goes with the first motor, which is the thigh's: this looks
        reversed, but it is what the published results come from.
        """
        chain = running_sum(qpos[:, :1:-1] * HOPPER_SIGNS)  # foot, leg, thigh, torso
        chain[:, 3] -= np.pi / 2.0
        x, y = np.diff(np.cos(chain), axis=1), np.diff(np.sin(chain), axis=1)
        return chosen - wind[:, :1] * x + wind[:, 1:] * y

    def features(self, sim: Sim) -> ndarray:
        """Height and angles, clipped speeds."""
        return beside([sim.qpos[:, 1:], sim.qvel.clip(-10.0, 10.0)])

    def reward(self, before: Before, sim: Sim, action: ndarray, chosen: ndarray) -> ndarray:
        """Forward speed, and 1, less a small cost of the chosen inputs; the wind's is free."""
        speed = (sim.qpos[:, 0] - before.qpos[:, 0]) / HOPPER_DT
        return speed + 1.0 - 1e-3 * np.vecdot(chosen, chosen)

    def terminated(self, sim: Sim) -> ndarray:
        """Too low, tilted by 0.2 or more, or flung apart."""
        height, tilt = sim.qpos[:, 1], sim.qpos[:, 2]
        rest = beside([sim.qpos[:, 2:], sim.qvel])
        return ~((height > 0.7) & (np.abs(tilt) < 0.2) & (np.abs(rest) < 100.0).all(axis=1))

"""The paper's four MuJoCo tasks in a wind (wx, wy) (docs/envs/mujoco.md).

Physics, features, rewards and terminations are those of Gymnasium's v4 environments; the motors
also feel the wind. Angles and states are those before the step, `a` is the chosen motor input:

    inverted pendulum          slider: a + wx; hinge: wx cos q1 + wy sin q1
    inverted double pendulum   the same, and hinge 2: wx cos(q1 + q2) + wy sin(q1 + q2)
    reacher                    joint k: a_k - wx sin p_k + wy cos p_k, p = (q1, q1 + q2)
    hopper                     motor k: a_k + wx (cos p_k - cos p_k+1) - wy (sin p_k - sin p_k+1)

The sum on each motor is clipped to the motor's range. To write another task, subclass `MujocoTask`:
class members name the model and its motors, and five functions define initial states, motor inputs,
features, rewards and terminations. The hopper has contacts and runs in MuJoCo only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy import ndarray

from lcpo.config import config, static
from lcpo.envs import planar
from lcpo.envs.mujoco import mechanisms
from lcpo.envs.mujoco.compiled import NO_POINTS, CompiledTask
from lcpo.envs.mujoco.task import Before, MujocoTask, Sim, Values
from lcpo.envs.planar import Pose
from lcpo.types import Array

__all__ = [
    "Before",
    "Hopper",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "MujocoTask",
    "Reacher",
    "Sim",
]

FINGERTIP, TARGET = 3, 4  # bodies of the reacher's model
HOPPER_DT = 0.008  # seconds per step: frame_skip times the model's 0.002
HOPPER_SIGNS = np.array([1.0, -1.0, -1.0, -1.0])
INDEX_COST = "index-cost"
"""Fault: the reacher's cost of control is the sum of the squared *indices* 0 .. 14 of the inputs
instead of the squared inputs, so that the task becomes to choose index 0 always."""


def namespace(values: Values) -> Any:
    """numpy, or jax.numpy."""
    return np if isinstance(values, ndarray) else jnp


def beside(parts: Sequence[Values]) -> Values:
    """Rows side by side: np.hstack of matrices, in half the time."""
    return namespace(parts[0]).concatenate(parts, axis=-1)


def squares(values: Values) -> Values:
    """Sum of the squares of each row; in JAX plain sums, which XLA can fuse with all the rest."""
    if isinstance(values, ndarray):
        return np.vecdot(values, values)
    return sum(values[..., i] ** 2 for i in range(values.shape[-1]))


def running_sum(values: Values) -> Values:
    """Sums of the first entries of each row: np.cumsum in half the time; in JAX, plain sums."""
    if isinstance(values, ndarray):
        return np.add.accumulate(values, axis=-1)
    parts = (values[..., i] for i in range(values.shape[-1]))
    return jnp.stack(list(itertools.accumulate(parts)), axis=-1)


@config
class InvertedPendulum(CompiledTask):
    """Balance a pole on a cart: 1 for each step that it stands."""

    xml = "inverted_pendulum.xml"
    wind_joints = ("hinge",)
    frame_skip = 2
    max_input = 3.0
    action_size = 1
    feature_names = ("x", "q1", "x'", "q1'")
    spread = 0.01
    mechanism = mechanisms.INVERTED_PENDULUM

    def start(self, key: Array) -> tuple[Array, Array]:
        """All ~ U(-0.01, 0.01)."""
        qpos, qvel = jax.random.uniform(key, (2, 2), minval=-self.spread, maxval=self.spread)
        return qpos, qvel

    def control(self, chosen: Values, wind: Values, qpos: Values) -> Values:
        """The wind pushes the cart and turns each pole, by the pole's angle in space."""
        xp, (wx, wy) = namespace(qpos), (wind[..., :1], wind[..., 1:])
        angles = running_sum(qpos[..., 1:])
        return beside([chosen + wx, wx * xp.cos(angles) + wy * xp.sin(angles)])

    def features(self, sim: Sim) -> Values:
        """Positions and speeds of cart and pole."""
        return beside([sim.qpos, sim.qvel])

    def reward(self, before: Before, sim: Sim, action: Values, chosen: Values) -> Values:
        """Always 1, at the fall too."""
        return namespace(chosen).ones_like(chosen[..., 0])

    def terminated(self, sim: Sim) -> Values:
        """The pole has left the vertical by more than 0.2."""
        return abs(sim.qpos[..., 1]) > 0.2


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
    mechanism = mechanisms.INVERTED_DOUBLE_PENDULUM

    def draw(self, rng: np.random.Generator, default: ndarray) -> tuple[ndarray, ndarray]:
        """Positions ~ U(-0.1, 0.1), speeds ~ 0.1 N(0, 1)."""
        qpos = default + rng.uniform(-0.1, 0.1, default.shape)
        return qpos, 0.1 * rng.standard_normal(default.shape)

    def start(self, key: Array) -> tuple[Array, Array]:
        place, speed = jax.random.split(key)
        qpos = jax.random.uniform(place, (3,), minval=-0.1, maxval=0.1)
        return qpos, 0.1 * jax.random.normal(speed, (3,))

    def points(self, qpos: Array, pose: Pose) -> tuple[Array, Array]:
        """The tip of the upper pole."""
        z, x = planar.place_point(self.mechanism, pose, 2, (0.6, 0.0))
        return NO_POINTS, jnp.stack([x, jnp.zeros_like(x), z])[None]

    def features(self, sim: Sim) -> Values:
        """Cart position, sines, cosines; clipped speeds and constraint forces."""
        xp, angles = namespace(sim.qpos), sim.qpos[..., 1:]
        rates = beside([sim.qvel, sim.qfrc_constraint]).clip(-10.0, 10.0)
        return beside([sim.qpos[..., :1], xp.sin(angles), xp.cos(angles), rates])

    def reward(self, before: Before, sim: Sim, action: Values, chosen: Values) -> Values:
        """10, less where the tip is away from (0, 2) or the poles are fast."""
        x, height, speed = sim.site_xpos[..., 0, 0], sim.site_xpos[..., 0, 2], sim.qvel
        distance = 0.01 * x**2 + (height - 2.0) ** 2
        return 10.0 - distance - (1e-3 * speed[..., 1] ** 2 + 5e-3 * speed[..., 2] ** 2)

    def terminated(self, sim: Sim) -> Values:
        """The tip is at height 1 or lower."""
        return sim.site_xpos[..., 0, 2] <= 1.0


@config
class Reacher(CompiledTask):
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
    mechanism = mechanisms.REACHER
    first_kept = 8  # the way to the target, as the step before left it

    def draw(self, rng: np.random.Generator, default: ndarray) -> tuple[ndarray, ndarray]:
        """Joints ~ U(-0.1, 0.1), at speeds ~ U(-0.005, 0.005); the target uniform on a disc."""
        count = len(default)
        joints = default[:, :2] + rng.uniform(-0.1, 0.1, (count, 2))
        radius, angle = 0.2 * np.sqrt(rng.random(count)), rng.uniform(0.0, 2.0 * np.pi, count)
        target = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        speeds = rng.uniform(-0.005, 0.005, (count, 2))
        return beside([joints, target]), beside([speeds, np.zeros((count, 2))])

    def start(self, key: Array) -> tuple[Array, Array]:
        """As `draw`; the target has positions, but no speeds."""
        high = jnp.array([[0.1, 0.1], [0.005, 0.005]])
        joints, disc = jax.random.split(key)
        qpos, qvel = jax.random.uniform(joints, (2, 2), minval=-high, maxval=high)
        share, turn = jax.random.uniform(disc, (2,))
        radius, angle = 0.2 * jnp.sqrt(share), 2.0 * jnp.pi * turn
        target = radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return jnp.concatenate([qpos, target]), qvel

    def points(self, qpos: Array, pose: Pose) -> tuple[Array, Array]:
        """Fingertip and target, in the plane of the arm."""
        tip = planar.place_point(self.mechanism, pose, 1, (0.11, 0.0))
        none = jnp.zeros_like(qpos[0])
        fingertip, target = jnp.stack([*tip, none]), jnp.stack([*qpos[2:], none])
        others = [jnp.zeros_like(target)] * FINGERTIP
        return jnp.stack([*others, fingertip, target]), NO_POINTS

    def control(self, chosen: Values, wind: Values, qpos: Values) -> Values:
        """The wind turns each link, by the link's angle in space."""
        xp, angles = namespace(qpos), running_sum(qpos[..., :2])
        return chosen - wind[..., :1] * xp.sin(angles) + wind[..., 1:] * xp.cos(angles)

    def features(self, sim: Sim) -> Values:
        """Cosines, sines, target, joint speeds, and the way from target to fingertip."""
        xp, angles, target = namespace(sim.qpos), sim.qpos[..., :2], sim.qpos[..., 2:]
        way = sim.xpos[..., FINGERTIP, :] - sim.xpos[..., TARGET, :]
        return beside([xp.cos(angles), xp.sin(angles), target, sim.qvel[..., :2], way])

    def reward(self, before: Before, sim: Sim, action: Values, chosen: Values) -> Values:
        """Less the distance before the step, less the squares of the chosen inputs."""
        xp, way = namespace(chosen), before.features[..., 8:]
        cost = action if INDEX_COST in self.faults else chosen
        return -xp.sqrt(squares(way)) - squares(cost)


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

    def control(self, chosen: Values, wind: Values, qpos: Values) -> Values:
        """The wind on each motor, by a chain of angles that begins at the foot.

        The first angle of the chain goes with the first motor, which is the thigh's: this looks
        reversed, but it is what the published results come from.
        """
        chain = running_sum(qpos[:, :1:-1] * HOPPER_SIGNS)  # foot, leg, thigh, torso
        chain[:, 3] -= np.pi / 2.0
        x, y = np.diff(np.cos(chain), axis=1), np.diff(np.sin(chain), axis=1)
        return chosen - wind[:, :1] * x + wind[:, 1:] * y

    def features(self, sim: Sim) -> Values:
        """Height and angles, clipped speeds."""
        return beside([sim.qpos[:, 1:], sim.qvel.clip(-10.0, 10.0)])

    def reward(self, before: Before, sim: Sim, action: Values, chosen: Values) -> Values:
        """Forward speed, and 1, less a small cost of the chosen inputs; the wind's is free."""
        speed = (sim.qpos[:, 0] - before.qpos[:, 0]) / HOPPER_DT
        return speed + 1.0 - 1e-3 * np.vecdot(chosen, chosen)

    def terminated(self, sim: Sim) -> Values:
        """Too low, tilted by 0.2 or more, or flung apart."""
        height, tilt = sim.qpos[:, 1], sim.qpos[:, 2]
        rest = beside([sim.qpos[:, 2:], sim.qvel])
        return ~((height > 0.7) & (np.abs(tilt) < 0.2) & (np.abs(rest) < 100.0).all(axis=1))

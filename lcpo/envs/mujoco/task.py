"""What a task of a MuJoCo robot in a wind is: a model, its motors, and five functions.

The functions work on arrays [..., n] of NumPy or of JAX, so that a task whose physics is compiled
(lcpo.envs.mujoco.compiled) is defined once. A task that runs in MuJoCo only may use NumPy alone.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import ContextSlice, Spec

if TYPE_CHECKING:
    from lcpo.envs.mujoco.batch import MujocoWorlds

CHANNELS, LAGS = 2, 3
Values = Any
"""An array [..., n]: of NumPy, for many worlds; or of JAX, for one."""


class Sim(NamedTuple):
    """Physics, by MuJoCo's names: live float64 arrays of all worlds, [N, ...], the last three
    read-only; or arrays of one compiled world."""

    qpos: Values
    qvel: Values
    ctrl: Values
    xpos: Values
    site_xpos: Values
    qfrc_constraint: Values


class Before(NamedTuple):
    """The state before a step, as rewards need it, [..., n]."""

    qpos: Values
    features: Values


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
    def control(self, chosen: Values, wind: Values, qpos: Values) -> Values:
        """Inputs of all motors [..., nu] from the chosen [..., A] and the wind, not clipped."""

    @abc.abstractmethod
    def features(self, sim: Sim) -> Values:
        """Observations without the wind, [..., F]."""

    @abc.abstractmethod
    def reward(self, before: Before, sim: Sim, action: Values, chosen: Values) -> Values:
        """Reward [...] of a step: `action` [..., A] are the indices of the inputs `chosen`."""

    def terminated(self, sim: Sim) -> Values:
        """Whether an episode has terminated, [...] bool. Truncation does not count."""
        return np.zeros(sim.qpos.shape[:-1], bool)

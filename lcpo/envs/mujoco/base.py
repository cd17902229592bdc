"""What a MuJoCo task is: a frozen config with a few vectorised functions of arrays [N, ...].

To build one, subclass `MujocoTask` (lcpo.envs.mujoco.tasks has four): the class members name the
model and its motors, and five functions say how an episode begins, what the motors are given, what
is observed, what is paid and when it ends. `MujocoWorlds` does the rest.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import ContextSlice, Spec

if TYPE_CHECKING:
    from lcpo.envs.mujoco.worlds import MujocoWorlds

CHANNELS = 2
LAGS = 3


class Sim(NamedTuple):
    """Live float64 arrays of all worlds, [N, ...]. The last three are read-only."""

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    xpos: np.ndarray
    site_xpos: np.ndarray
    qfrc_constraint: np.ndarray


class Before(NamedTuple):
    """What a reward may need to know of the state before the step, [N, ...]."""

    qpos: np.ndarray
    features: np.ndarray


@config
class MujocoTask(abc.ABC):
    """A robot in a wind (wx, wy). Its actions are indices into a grid of motor inputs."""

    num_bins: int = static(15, "motor inputs per action dimension, evenly spaced", low=2)
    max_steps: int = static(200, "steps after which an episode is truncated", low=1)

    xml: ClassVar[str]
    """One of Gymnasium's models."""
    wind_joints: ClassVar[tuple[str, ...]] = ()
    """Joints that get a motor of their own for the wind."""
    frame_skip: ClassVar[int]
    """Steps of MuJoCo per step of the task."""
    max_input: ClassVar[float]
    """Motor inputs are from -max_input to max_input."""
    action_size: ClassVar[int]
    """Motors that an agent chooses the inputs of."""
    num_features: ClassVar[int]

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
        """Worlds of this task, as in lcpo.envs.base.HostEnv."""
        from lcpo.envs.mujoco.worlds import MujocoWorlds  # which knows of tasks

        return MujocoWorlds(self, num_worlds, seeds, threads)

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Initial states qpos, qvel [count, nq] about the model's `default` qpos [count, nq]."""

    @abc.abstractmethod
    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        """Inputs of all motors [N, nu], which MuJoCo will clip: those chosen [N, A], and wind."""

    @abc.abstractmethod
    def features(self, sim: Sim) -> np.ndarray:
        """What is observed beside the wind, [N, F]."""

    @abc.abstractmethod
    def reward(
        self, before: Before, sim: Sim, action: np.ndarray, chosen: np.ndarray
    ) -> np.ndarray:
        """Reward [N] of a step: `action` [N, A] are the indices of the inputs `chosen`."""

    @abc.abstractmethod
    def terminated(self, sim: Sim) -> np.ndarray:
        """Whether an episode is over, other than by its length, [N] bool."""

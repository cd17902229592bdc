"""Tasks without contacts, compiled: lcpo.envs.planar instead of MuJoCo, on any device.

One step is that of lcpo.envs.mujoco.batch, in float32: the same inputs, the same stages of RK4, and
features and rewards of the positions and forces that the last stage leaves. If the physics
diverges, the world is terminated with reward 0, in the state before the step.
"""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static
from lcpo.envs import planar
from lcpo.envs.mujoco.task import Before, MujocoTask, Sim
from lcpo.envs.planar import Mechanism, Pose, Seen
from lcpo.types import Array, Spec, Step

COMPILED, MUJOCO = "compiled", "mujoco"
NO_POINTS = jnp.zeros((0, 3))
LARGEST = 1e10
"""A larger position or speed counts as diverged: MuJoCo's mjMAXVAL."""


class State(NamedTuple):
    """Positions and speeds, steps since the reset, and the features that the next reward needs."""

    qpos: Array
    qvel: Array
    time: Array
    kept: Array


@config
class CompiledTask(MujocoTask):
    """A task whose physics is also written in JAX. `open` opens worlds of MuJoCo in any case."""

    physics: str = static(
        COMPILED, "compiled: in JAX, on any device; mujoco: by MuJoCo itself, on the CPU",
        choices=(COMPILED, MUJOCO),
    )  # fmt: skip

    mechanism: ClassVar[Mechanism]
    first_kept: ClassVar[int | None] = None
    """Features from this index on are part of the state: the next reward depends on them."""
    earlier: ClassVar[dict[str, str]] = {"physics": MUJOCO}

    @property
    def is_host(self) -> bool:
        return self.physics == MUJOCO

    @property
    def spec(self) -> Spec:
        spec = super().spec
        return spec if self.is_host else spec._replace(contiguous_contexts=True, unit_steps=True)

    @abc.abstractmethod
    def start(self, key: Array) -> tuple[Array, Array]:
        """An initial state, distributed as `draw`'s: qpos, qvel of the mechanism's joints."""

    def points(self, qpos: Array, pose: Pose) -> tuple[Array, Array]:
        """`xpos` and `site_xpos` of `Sim`, as far as features and rewards need them."""
        return NO_POINTS, NO_POINTS

    def reset(self, key: Array) -> tuple[State, Array]:
        """A fresh episode."""
        return self.begin(*self.start(key))

    def begin(self, qpos: Array, qvel: Array) -> tuple[State, Array]:
        """An episode that begins in a given state."""
        mechanism, joints = self.mechanism, len(self.mechanism.links)
        pose = planar.pose_of(mechanism, list(qpos[:joints]))
        _, limit_force = planar.solve(mechanism, pose, list(qvel), [0.0] * joints)
        features = self.features(self._sim(qpos, qvel, Seen(pose, limit_force)))
        return State(qpos, qvel, jnp.int32(0), features[self._kept]), features

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """One step; `action` [A] are indices of motor inputs, or numbers between two."""
        index, high = action.astype(state.qpos.dtype), self.max_input
        chosen = 2.0 * high / (self.num_bins - 1) * index - high
        inputs = self.control(chosen, context, state.qpos)
        joints = len(self.mechanism.links)
        moved, qvel, seen = planar.step(
            self.mechanism, state.qpos[:joints], state.qvel, inputs, self.frame_skip
        )
        # Entry by entry: a reduction, or a choice between arrays, would be another kernel on a GPU.
        size = sum(map(abs, (*moved, *qvel)))
        diverged = ~(size < LARGEST)  # true for what is not a number
        qpos, qvel = (
            jnp.stack([jnp.where(diverged, a, b) for a, b in zip(old, new, strict=True)])
            for old, new in ((state.qpos, (*moved, *state.qpos[joints:])), (state.qvel, qvel))
        )
        seen = jax.tree.map(lambda x: jnp.where(diverged, 0.0, x), seen)
        sim = self._sim(qpos, qvel, seen)
        features = self.features(sim)
        unknown = jnp.zeros_like(features[: self._kept.start])
        before = Before(state.qpos, jnp.concatenate([unknown, state.kept]))
        reward = self.reward(before, sim, index, chosen)
        time = state.time + 1
        return State(qpos, qvel, time, features[self._kept]), Step(
            obs=features,
            reward=jnp.where(diverged, 0.0, reward),
            terminated=self.terminated(sim) | diverged,
            truncated=time >= self.max_steps,
        )

    @property
    def _kept(self) -> slice:
        return slice(self.num_features if self.first_kept is None else self.first_kept, None)

    def _sim(self, qpos: Array, qvel: Array, seen: Seen) -> Sim:
        return Sim(qpos, qvel, (), *self.points(qpos, seen.pose), jnp.stack(seen.limit_force))

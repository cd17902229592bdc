"""Many MuJoCo worlds of one task, stepped together by `mujoco.batch` on a pool of threads.

One step of all worlds of a task (lcpo.envs.mujoco.base) is

    ctrl = task.control(chosen, wind, qpos); `frame_skip` steps of MuJoCo
    task.features, task.reward, task.terminated, of the arrays as MuJoCo leaves them

MuJoCo leaves the positions of bodies and the constraint forces at the last stage of its last
Runge-Kutta step, not at the new qpos. Gymnasium takes them so, and so do we.

Physics is float64, what comes out is float32. A world that diverges (MuJoCo meets a number that
is not finite, or huge, and puts the world back to its default state) is terminated: its reward is
0 and its features are those before the step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lcpo.envs.mujoco.base import CHANNELS, Before, MujocoTask, Sim
from lcpo.envs.mujoco.model import import_mujoco, load_model
from lcpo.envs.mujoco.starts import Starts
from lcpo.errors import InputError
from lcpo.types import Step


class MujocoWorlds:
    """N worlds of one task, as in lcpo.envs.base.HostWorlds; `sim` holds their physics."""

    def __init__(
        self, task: MujocoTask, num_worlds: int, seeds: Sequence[int], threads: int | None
    ) -> None:
        mujoco_batch = import_mujoco("mujoco.batch")
        if num_worlds < 1 or len(seeds) != num_worlds:
            raise InputError(f"{num_worlds} worlds, {len(seeds)} seeds: needs one seed per world")
        if threads is not None and threads < 1:
            raise InputError(f"threads = {threads}: needs at least 1, or None for one per core")
        self.task = task
        self.num_worlds = num_worlds
        self.model = load_model(task.xml, task.wind_joints)
        threads = min(threads or _num_cores(), num_worlds)
        self._batch: Any = mujoco_batch.Batch(self.model, num_worlds, threads)
        self.sim = Sim(*(self._batch.bind(name) for name in Sim._fields))
        self._default = self._batch.state[0].copy()
        self._starts = Starts(task.draw, self.model.qpos0, seeds)
        self._features = np.zeros((num_worlds, task.num_features))
        self._time = np.full(num_worlds, -1)  # steps since the reset; -1: never reset
        self._inputs = np.linspace(-task.max_input, task.max_input, task.num_bins)

    @property
    def batch(self) -> Any:
        """The `mujoco.batch.Batch`."""
        if self._batch is None:
            raise RuntimeError("these worlds are closed: open new ones")
        return self._batch

    def reset(self, mask: np.ndarray) -> np.ndarray:
        """Begin an episode where `mask` [N] is set; features [N, F] float32 of all worlds."""
        if np.shape(mask) != (self.num_worlds,) or np.asarray(mask).dtype != bool:
            raise InputError(
                f"reset mask of {np.asarray(mask).dtype}{list(np.shape(mask))}: needs "
                f"bool[{self.num_worlds}], one per world"
            )
        worlds = np.flatnonzero(mask)
        if worlds.size:
            self.place(worlds, *self._starts.take(worlds))
        return self._features.astype(np.float32)

    def place(self, worlds: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Begin an episode in the given states, as Gymnasium's `reset` and `set_state` do."""
        self.batch.state[worlds] = self._default
        self.sim.qpos[worlds] = qpos
        self.sim.qvel[worlds] = qvel
        self.batch.forward(worlds)
        self._features[worlds] = self.task.features(self.sim)[worlds]
        self._time[worlds] = 0

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """One step of all worlds with actions [N, A] and winds [N, 2]. Resets nothing."""
        action, context = np.asarray(action), np.asarray(context)
        self._check(action, context)
        return self._advance(action, self._inputs.take(action), context)

    def step_inputs(self, chosen: np.ndarray, context: np.ndarray) -> Step:
        """One step with motor inputs [N, A] themselves, not their indices in the grid."""
        high = self.task.max_input
        chosen = np.clip(np.asarray(chosen, float), -high, high)
        index = (chosen + high) / (2.0 * high) * (self.task.num_bins - 1)
        self._check(np.rint(index).astype(int), context)
        return self._advance(index, chosen, context)

    def _advance(self, action: np.ndarray, chosen: np.ndarray, context: np.ndarray) -> Step:
        task, sim = self.task, self.sim
        before = Before(sim.qpos.copy(), self._features)
        sim.ctrl[:] = task.control(chosen, context, before.qpos)
        self.batch.step(nstep=task.frame_skip)
        features, reward = task.features(sim), task.reward(before, sim, action, chosen)
        terminated = task.terminated(sim)
        diverged = self._find_diverged(features, reward)
        if diverged is not None:
            features = np.where(diverged[:, None], before.features, features)
            reward = np.where(diverged, 0.0, reward)
            terminated = terminated | diverged
        self._features = features
        self._time += 1
        truncated = self._time >= task.max_steps
        out: Any = features.astype(np.float32), reward.astype(np.float32), terminated, truncated
        return Step(*out)

    def get_state(self) -> dict[str, np.ndarray]:
        """All that is needed to continue exactly: leaves [N, ...]."""
        return {
            "physics": self.batch.state.copy(),
            "features": self._features.copy(),  # not a function of the physics: see the top
            "time": self._time.copy(),
            "seed": self._starts.seeds.copy(),
            "resets": self._starts.count.copy(),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, here or in other worlds of the same task."""
        for name, value in self.get_state().items():
            if name not in state or np.shape(state[name]) != value.shape:
                given = list(np.shape(state[name])) if name in state else "missing"
                raise InputError(f"state[{name!r}] is {given}: needs {list(value.shape)}")
        self.batch.state[:] = state["physics"]
        self._features = np.array(state["features"], float)
        self._time = np.array(state["time"], int)
        self._starts.restore(state["seed"], state["resets"])

    def close(self) -> None:
        """Free the simulations."""
        self._batch = None
        del self.sim

    def data_of(self, world: int) -> Any:
        """A `mujoco.MjData` of one world, to go with `model`: for rendering and inspection."""
        data = self.batch.get_data(world)
        import_mujoco("mujoco").mj_forward(self.model, data)
        return data

    def _check(self, action: np.ndarray, context: np.ndarray) -> None:
        """Refuse what cannot be stepped, and say in which world."""
        shape = (self.num_worlds, self.task.action_size)
        if action.shape != shape or action.dtype.kind not in "iu":
            raise InputError(
                f"actions {action.dtype}{list(action.shape)}: needs integers "
                f"{list(shape)}, a row per world"
            )
        if context.shape != (self.num_worlds, CHANNELS):
            raise InputError(
                f"contexts {list(context.shape)}: needs {[self.num_worlds, CHANNELS]}, "
                "a wind (wx, wy) per world"
            )
        if not 0 <= action.min() <= action.max() < self.task.num_bins:
            bad = ((action < 0) | (action >= self.task.num_bins)).any(axis=1)
            self._refuse("action", action, bad, f"indices from 0 to {self.task.num_bins - 1}")
        if not (math.isfinite(context.sum()) or np.isfinite(context).all()):
            self._refuse("context", context, ~np.isfinite(context).all(axis=1), "finite numbers")
        if self._time.min() < 0:
            world = int(np.argmin(self._time))
            raise InputError(f"world {world} has not been reset: call reset before step")

    def _refuse(self, what: str, rows: np.ndarray, bad: Any, need: str) -> None:
        world = int(np.flatnonzero(bad)[0])
        raise InputError(f"{what} {rows[world].tolist()} of world {world}: needs {need}")

    def _find_diverged(self, features: np.ndarray, reward: np.ndarray) -> np.ndarray | None:
        """Worlds [N] that MuJoCo had to put back, or that are about to need it; None: none."""
        warned = np.count_nonzero(self.batch.warning)  # a quarter of the time of `any`
        if not warned and math.isfinite(features.sum() + reward.sum()):
            return None
        kinds = import_mujoco("mujoco").mjtWarning
        bad = slice(int(kinds.mjWARN_BADQPOS), int(kinds.mjWARN_BADQACC) + 1)
        put_back = self.batch.warning[:, bad, 1].any(axis=1)
        self.batch.warning[:] = 0  # a count that is never cleared would be met again
        return put_back | ~np.isfinite(features).all(axis=1) | ~np.isfinite(reward)


def _num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Many MuJoCo worlds of one task, stepped together by `mujoco.batch` on a pool of threads.

One step of all worlds of a task (lcpo.envs.mujoco.tasks) is

    ctrl = task.control(chosen, wind, qpos); `frame_skip` steps of MuJoCo
    task.features, task.reward, task.terminated, of the arrays as MuJoCo leaves them

MuJoCo leaves the positions of bodies and the constraint forces at the last stage of its last
Runge-Kutta step, not at the new qpos. Gymnasium uses these values, and so do we.

Physics is float64, outputs are float32. A world that diverges (MuJoCo meets a number that is not
finite, or huge, and puts the world back to its default state) is terminated: its reward is 0 and
its features are those before the step.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.envs.checked import CheckedWorlds
from lcpo.envs.mujoco.task import CHANNELS, Before, MujocoTask, Sim
from lcpo.errors import InputError, MissingPackage
from lcpo.types import Step

BLOCK = 64
"""Initial states that a world draws at a time: making a generator takes longer than drawing."""


class MujocoWorlds(CheckedWorlds):
    """N worlds of one task, as in lcpo.envs.base.HostWorlds; `sim` holds their physics."""

    def __init__(
        self, task: MujocoTask, num_worlds: int, seeds: Sequence[int], threads: int | None
    ) -> None:
        mujoco_batch = import_mujoco("mujoco.batch")
        super().__init__(num_worlds, seeds, threads)
        self.task = task
        self.model = load_model(task.xml, task.wind_joints)
        threads = min(self.threads, num_worlds)
        self._batch: Any = mujoco_batch.Batch(self.model, num_worlds, threads)
        self.sim = Sim(*(self._batch.bind(name) for name in Sim._fields))
        self._default = self._batch.state[0].copy()
        self._starts = np.zeros((num_worlds, BLOCK, 2, self.model.nq))
        self._seeds, self._resets = np.array(seeds, np.uint64), np.zeros(num_worlds, np.int64)
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
        self.check_mask(mask)
        worlds = np.flatnonzero(mask)
        if worlds.size:
            index = self._resets[worlds] % BLOCK
            self._draw_starts(worlds[index == 0])
            self._resets[worlds] += 1
            self.place(worlds, *self._starts[worlds, index].swapaxes(0, 1))
        return self._features.astype(np.float32)

    def _draw_starts(self, worlds: np.ndarray) -> None:
        """Draw the next block of initial states, which depend on seed and number of resets only."""
        default = np.tile(self.model.qpos0, (BLOCK, 1))
        for world in worlds:
            seed, block = int(self._seeds[world]), int(self._resets[world]) // BLOCK
            # Blocks are far apart in the counter, so that they cannot overlap.
            rng = np.random.Generator(np.random.Philox(key=seed, counter=block << 192))
            self._starts[world] = np.stack(self.task.draw(rng, default), axis=1)

    def place(self, worlds: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Begin an episode in the given states, as Gymnasium's `reset` and `set_state` do."""
        self.batch.state[worlds] = self._default
        self.sim.qpos[worlds] = qpos
        self.sim.qvel[worlds] = qvel
        self.batch.forward(worlds)
        self._features[worlds] = self.task.features(self.sim)[worlds]
        self._time[worlds] = 0

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        action, context = np.asarray(action), np.asarray(context)
        self._check(action, context)
        return self._advance(action, self._inputs.take(action), context)

    def step_inputs(self, chosen: np.ndarray, context: np.ndarray) -> Step:
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
        return {
            "physics": self.batch.state.copy(),
            "features": self._features.copy(),  # not a function of the physics: see the top
            "time": self._time.copy(),
            "seed": self._seeds.copy(),
            "resets": self._resets.copy(),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.check_state(state, self.get_state())
        self.batch.state[:] = state["physics"]
        self._features = np.array(state["features"], float)
        self._time = np.array(state["time"], int)
        self._seeds = np.array(state["seed"], np.uint64)
        self._resets = np.array(state["resets"], np.int64)
        self._draw_starts(np.flatnonzero(self._resets % BLOCK))

    def close(self) -> None:
        self._batch = None
        del self.sim

    def data_of(self, world: int) -> Any:
        """A `mujoco.MjData` of one world, for use with `model`: for rendering and inspection."""
        data = self.batch.get_data(world)
        import_mujoco("mujoco").mj_forward(self.model, data)
        return data

    def _check(self, action: np.ndarray, context: np.ndarray) -> None:
        if context.shape != (self.num_worlds, CHANNELS):
            raise InputError(
                f"contexts {list(context.shape)}: needs {[self.num_worlds, CHANNELS]}, "
                "a wind (wx, wy) per world"
            )
        self.check_actions(action, self.task.action_size, self.task.num_bins)
        self.check_begun(self._time >= 0)
        if not (math.isfinite(context.sum()) or np.isfinite(context).all()):
            world = int(np.flatnonzero(~np.isfinite(context).all(axis=1))[0])
            raise InputError(
                f"context {context[world].tolist()} of world {world}: needs finite numbers"
            )

    def _find_diverged(self, features: np.ndarray, reward: np.ndarray) -> np.ndarray | None:
        """Worlds [N] that MuJoCo has reset, or is about to; None: none."""
        warned = np.count_nonzero(self.batch.warning)  # a quarter of the time of `any`
        if not warned and math.isfinite(features.sum() + reward.sum()):
            return None
        kinds = import_mujoco("mujoco").mjtWarning
        bad = slice(int(kinds.mjWARN_BADQPOS), int(kinds.mjWARN_BADQACC) + 1)
        put_back = self.batch.warning[:, bad, 1].any(axis=1)
        self.batch.warning[:] = 0  # the counts would otherwise be read again
        return put_back | ~np.isfinite(features).all(axis=1) | ~np.isfinite(reward)


def load_model(xml: str, wind_joints: Sequence[str]) -> Any:
    """A `mujoco.MjModel` of one of Gymnasium's models, with an extra motor on some joints."""
    mujoco = import_mujoco("mujoco")
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise MissingPackage("the MuJoCo tasks use Gymnasium's models: pip install 'lcpo[mujoco]'")
    # Not through gymnasium.envs.mujoco: importing that needs a renderer's packages.
    path = Path(found.origin).parent / "envs" / "mujoco" / "assets" / xml
    spec = mujoco.MjSpec.from_file(str(path))
    for joint in wind_joints:
        motor = spec.add_actuator(name=f"wind-{joint}", target=joint)
        motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
        motor.set_to_motor()
        motor.gear[0] = 100.0
        motor.ctrllimited, motor.ctrlrange = True, [-10.0, 10.0]
    model = spec.compile()
    # Turn off searches that cannot find anything. The numbers stay the same, bit for bit.
    collides = model.geom_contype[:, None] & model.geom_conaffinity
    if not collides.any() and model.npair == 0:  # no two geoms may collide
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    if model.ntree == 1:  # all bodies hang on one tree: constraints have no separate islands
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    return model


def import_mujoco(name: str) -> Any:
    """`mujoco`, or a module of it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"the MuJoCo tasks need {name} (MuJoCo 4 or later): pip install 'lcpo[mujoco]'"
        ) from error

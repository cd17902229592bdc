"""The MuJoCo tasks against recorded steps of the published environments.

The records come from MuJoCo 3.1.1. On the installed engine the pendulums give the same numbers;
the reacher does but for joint limits, and the hopper but for contacts, whose solver has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from golden_files import FOLDER, cases, load

from lcpo.envs.mujoco.batch import MujocoWorlds
from lcpo.envs.mujoco.compiled import CompiledTask
from lcpo.envs.mujoco.tasks import (
    HOPPER_DT,
    INDEX_COST,
    Before,
    Hopper,
    InvertedDoublePendulum,
    InvertedPendulum,
    MujocoTask,
    Reacher,
)

pytest.importorskip("mujoco.batch")
close = np.testing.assert_allclose

TASKS = {
    "inverted_pendulum": InvertedPendulum(),
    "inverted_double_pendulum": InvertedDoublePendulum(),
    "reacher": Reacher(faults=(INDEX_COST,)),
    "hopper": Hopper(),
}
ENV_FILES = [f"env_{name}_*" for name in TASKS]


def task_of(case: Path) -> MujocoTask:
    return TASKS[case.stem.removeprefix("env_").rpartition("_")[0]]


def forced(case: Path) -> tuple[dict[str, np.ndarray], MujocoWorlds, Before, Any]:
    """All recorded states, each in a world of its own, after one step."""
    g, task = load(case), task_of(case)
    worlds = task.open(len(g["qpos"]), range(len(g["qpos"])))
    worlds.place(np.arange(len(g["qpos"])), g["qpos"], g["qvel"])
    state = worlds.get_state()
    for t in range(1, len(state["time"])):
        state["time"][t] = 0 if g["episode_start"][t] else state["time"][t - 1] + 1
    worlds.set_state(state)
    before = Before(worlds.sim.qpos.copy(), state["features"])
    return g, worlds, before, worlds.step(g["action"], g["wind_applied"])


def constrained(case: Path) -> np.ndarray:
    """Whether a joint limit or a contact was active at any time in the step, [T] bool."""
    g, task = load(case), task_of(case)
    worlds = task.open(len(g["qpos"]), range(len(g["qpos"])))
    worlds.place(np.arange(len(g["qpos"])), g["qpos"], g["qvel"])
    worlds.sim.ctrl[:] = g["ctrl"]
    now = worlds.batch.bind("nefc")
    worlds.batch.forward()
    before = now.copy()
    during = worlds.batch.rollout(task.frame_skip, record=("nefc",))["nefc"]
    return (before > 0) | (during > 0).any(axis=1)


@cases(*ENV_FILES)
def test_one_step(case: Path) -> None:
    """Motor inputs, next state, features, reward, flags of every recorded state."""
    g, worlds, before, step = forced(case)
    task, sim = worlds.task, worlds.sim
    close(sim.ctrl, g["ctrl"], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(step.truncated, g["truncated"])
    chosen = g["act_bins"][0][g["action"]]
    reward = task.reward(before, sim, g["action"], chosen)
    found = {"qpos": sim.qpos, "qvel": sim.qvel, "reward": reward, "obs": step.obs}
    recorded = {"qpos": g["tf_next_qpos"], "qvel": g["tf_next_qvel"], "reward": g["tf_reward"]}
    recorded["obs"] = g["tf_next_obs"][:, : task.num_features]
    active = constrained(case)
    free = slice(None) if isinstance(task, (InvertedPendulum, InvertedDoublePendulum)) else ~active
    for name, value in found.items():
        atol = 1e-6 if name == "obs" else 1e-9  # float32
        close(value[free], recorded[name][free], rtol=atol, atol=atol, err_msg=name)
        if isinstance(task, Reacher):
            close(value, recorded[name], rtol=1e-6, atol=1e-6, err_msg=name)
    close(step.reward, reward, rtol=1e-6)
    if isinstance(task, Hopper):
        # The engine decides where a contact leads to; what we make of that is ours, in every step.
        distance = sim.qpos[:, 0] - g["tf_next_qpos"][:, 0]
        close(reward - distance / HOPPER_DT, g["tf_reward"], rtol=1e-9, atol=1e-9)
        off = np.abs(sim.qvel - g["tf_next_qvel"])[active]
        if off.size:
            assert np.median(off) <= 0.02
            assert np.quantile(off, 0.95) <= 0.1
        close(step.terminated[free], g["tf_terminated"][free])
    else:
        np.testing.assert_array_equal(step.terminated, g["tf_terminated"])


@cases("env_inverted_pendulum_*", "env_inverted_double_pendulum_*", "env_reacher_*")
def test_one_compiled_step(case: Path) -> None:
    """Every recorded state again, with compiled physics. The recorded engine's solver for limits
    stopped a little early."""
    g, task = load(case), task_of(case)
    assert isinstance(task, CompiledTask)
    joints = len(task.mechanism.links)
    with jax.enable_x64(True):
        state, _ = jax.jit(jax.vmap(task.begin))(g["qpos"], g["qvel"][:, :joints])
        state, step = jax.jit(jax.vmap(task.step, in_axes=(0, 0, 0, None)))(
            state, g["action"], g["wind_applied"], jax.random.key(0)
        )
    at_limit = constrained(case) & isinstance(task, Reacher)
    for name, found, recorded in (
        ("qpos", state.qpos, g["tf_next_qpos"]),
        ("qvel", state.qvel, g["tf_next_qvel"][:, :joints]),
        ("reward", step.reward, g["tf_reward"]),
        ("obs", step.obs, g["tf_next_obs"][:, : task.num_features]),
    ):
        atol = 1e-6 if name == "obs" else 1e-9  # float32
        found = np.asarray(found)
        close(found[~at_limit], recorded[~at_limit], rtol=atol, atol=atol, err_msg=name)
        close(found, recorded, rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(step.terminated, g["tf_terminated"])


def test_the_hopper_has_steps_without_contact() -> None:
    """In one file or another: there it is compared to the last digits. A file may have none."""
    assert any((~constrained(case)).any() for case in FOLDER.glob("env_hopper_*.npz"))


@cases("env_inverted_pendulum_*", "env_inverted_double_pendulum_*", "env_reacher_*")
def test_whole_episodes(case: Path) -> None:
    """From the recorded initial states on, without help: what MuJoCo caches is carried along."""
    g, task = load(case), task_of(case)
    worlds = task.open(1, [0])
    age = 0
    for t in range(len(g["qpos"])):
        age += 1
        if g["episode_start"][t]:
            age = 0
            worlds.place(np.array([0]), g["qpos"][t], g["qvel"][t])
        if age >= 40:
            continue  # upright poles double a difference, 1e-15 at first, every few steps
        step = worlds.step(g["action"][t : t + 1], g["wind_applied"][t : t + 1])
        close(step.obs[0], g["next_obs"][t, : task.num_features], rtol=1e-5, atol=1e-5)
        close(step.reward[0], g["reward"][t], rtol=1e-6, atol=1e-6)
        assert step.terminated[0] == g["terminated"][t]
        assert step.truncated[0] == g["truncated"][t]


@cases("env_[hir]*_mild")  # recorded with this wind only
def test_model(case: Path) -> None:
    """The compiled constants: the motors that we add, and Gymnasium's models as they were."""
    g = load(case)
    model = task_of(case).open(1, [0]).model
    for name, value in g.items():
        if name.startswith("model_"):
            field = name.removeprefix("model_")
            found = getattr(model if hasattr(model, field) else model.opt, field)
            close(found, value, rtol=1e-12, atol=1e-12, err_msg=field)

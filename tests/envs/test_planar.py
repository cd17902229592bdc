"""Compiled physics against MuJoCo: constants, single steps, whole episodes, ends, resets.

In float64 the two agree to rounding, if MuJoCo's solver is not allowed to stop early. In float32,
as in training, differences are those of rounding a position once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.envs import ENVS, planar
from lcpo.envs.compiled_worlds import CompiledWorlds
from lcpo.envs.mujoco import batch
from lcpo.envs.mujoco.batch import MujocoWorlds
from lcpo.envs.mujoco.compiled import CompiledTask
from lcpo.envs.mujoco.tasks import INDEX_COST, Before, Reacher
from lcpo.types import Step

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("mujoco.batch")

NAMES = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
ALL = pytest.mark.parametrize("name", NAMES)
COUNT = 10_000


def mechanism_of(task: CompiledTask) -> planar.Mechanism:
    """What MuJoCo has made of a model's file, in the plane in which its links move."""
    model = batch.load_model(task.xml, task.wind_joints)
    hinge = model.jnt_axis[model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE][0]
    plane = [2, 0] if hinge[1] else [0, 1]  # a positive turn takes the first axis to the second
    links = []
    for i in range(len(task.mechanism.links)):
        body = int(model.jnt_bodyid[i])
        slides = model.jnt_type[i] == mujoco.mjtJoint.mjJNT_SLIDE
        mass, center, inertia = fixed_together(model, body, plane, int(np.flatnonzero(hinge)[0]))
        low, high = model.jnt_range[i]
        softness: Any = tuple(model.jnt_solref[i]), tuple(model.jnt_solimp[i])
        inverse_weight, margin = model.dof_invweight0[i], model.jnt_margin[i]
        limit = planar.Limit(low, high, inverse_weight, margin, *softness)
        links.append(
            planar.Link(
                parent=int(model.body_parentid[body]) - 1,
                origin=tuple(model.body_pos[body][plane]),
                axis=tuple(model.jnt_axis[i][plane]) if slides else None,
                mass=mass, center=tuple(center), inertia=inertia,
                damping=model.dof_damping[i], armature=model.dof_armature[i],
                limit=limit if model.jnt_limited[i] else None,
            )
        )  # fmt: skip
    motors = [
        planar.Motor(int(joint), gear, high)
        for (joint, _), (gear, *_), (_, high) in zip(
            model.actuator_trnid, model.actuator_gear, model.actuator_ctrlrange, strict=True
        )
    ]
    gravity = tuple(model.opt.gravity[plane])
    return planar.Mechanism(tuple(links), tuple(motors), gravity, model.opt.timestep)


def fixed_together(model: Any, body: int, plane: list[int], normal: int) -> Any:
    """Mass, center and inertia of a body with those that hang on it without a joint."""
    found: list[Any] = []
    for i in range(body, model.nbody):
        rigid = i == body or (model.body_parentid[i] == body and model.body_jntnum[i] == 0)
        if rigid:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, model.body_iquat[i])
            turn = turn.reshape(3, 3)
            inertia = (turn @ np.diag(model.body_inertia[i]) @ turn.T)[normal, normal]
            at = model.body_ipos[i] + (model.body_pos[i] if i != body else 0.0)
            found.append((model.body_mass[i], at[plane], inertia))
    mass = sum(m for m, _, _ in found)
    center = sum(m * at for m, at, _ in found) / mass
    return mass, center, sum(i + m * np.sum((at - center) ** 2) for m, at, i in found)


@ALL
def test_constants_are_those_of_the_model(name: str) -> None:
    task = ENVS[name]()
    found, structure = jax.tree.flatten(task.mechanism)
    wanted, as_built = jax.tree.flatten(mechanism_of(task))
    assert structure == as_built
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    model = batch.load_model(task.xml, task.wind_joints)
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    off = (model.jnt_stiffness, model.dof_frictionloss, model.body_gravcomp, model.jnt_pos)
    assert not any(np.any(values) for values in off)  # what `planar` does not know


class Pair(NamedTuple):
    """The same states in MuJoCo and compiled."""

    task: CompiledTask
    worlds: MujocoWorlds
    state: Any
    features: Any
    step: Any


def pair(task: CompiledTask, qpos: np.ndarray, qvel: np.ndarray, monkeypatch: Any) -> Pair:
    """Both begin an episode in the given states. MuJoCo solves for limits without tolerance."""
    load = batch.load_model

    def exact(*args: Any) -> Any:
        model = load(*args)
        model.opt.tolerance = 0.0
        return model

    monkeypatch.setattr(batch, "load_model", exact)
    worlds = task.open(len(qpos), range(len(qpos)), threads=1)
    worlds.place(np.arange(len(qpos)), qpos, qvel)
    float_type, joints = jnp.zeros(()).dtype, len(task.mechanism.links)
    given = jnp.asarray(qpos, float_type), jnp.asarray(qvel[:, :joints], float_type)
    state, features = jax.jit(jax.vmap(task.begin))(*given)
    step = jax.jit(jax.vmap(task.step, in_axes=(0, 0, 0, None)))
    return Pair(task, worlds, state, features, step)


def random_states(task: CompiledTask, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Float32 states: half as after a reset, a quarter at the limits, a quarter anywhere; fast."""
    rng, model = np.random.default_rng(0), batch.load_model(task.xml, task.wind_joints)
    low, high = model.jnt_range.T.copy()
    low[model.jnt_limited == 0], high[model.jnt_limited == 0] = -3.0, 3.0
    qpos = rng.uniform(low, high, (count, model.nq))
    qpos[1::4] = rng.choice([-1.0, 1.0], qpos[1::4].shape) * high
    qpos[1::4] *= rng.uniform(0.98, 1.03, qpos[1::4].shape)
    qvel = rng.normal(0.0, 4.0, qpos.shape)
    qpos[::2], qvel[::2] = task.draw(rng, np.tile(model.qpos0, (count // 2, 1)))
    joints = len(task.mechanism.links)
    qpos[:, joints:], qvel[:, joints:] = 0.7 * qpos[:, joints:], 0.0  # the reacher's target rests
    return qpos.astype(np.float32).astype(float), qvel.astype(np.float32).astype(float)


def random_inputs(task: CompiledTask, count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Actions, and winds that clip many motors."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, task.num_bins, (count, task.action_size)).astype(np.int32)
    wind = rng.normal(0.0, 1.0, (count, 2)) * rng.choice([0.1, 1.0, 10.0], (count, 1))
    return action, wind.astype(np.float32)


def off(found: Any, expected: np.ndarray) -> float:
    """The largest difference, relative to 1 + |expected|."""
    gaps = np.abs(np.asarray(found) - expected) / (1.0 + np.abs(expected))
    return float(np.max(gaps, initial=0.0))


def one_step(task: CompiledTask, monkeypatch: Any) -> dict[str, float]:
    """Differences after one step of many states. The flags agree, except on the threshold."""
    both = pair(task, *random_states(task, COUNT), monkeypatch)
    action, wind = random_inputs(task, COUNT)
    qpos = both.worlds.sim.qpos.copy()
    before, sim = Before(qpos, both.worlds.task.features(both.worlds.sim)), both.worlds.sim
    starts = off(both.features, before.features)
    theirs: Any = both.worlds.step(action, wind)
    context = jnp.asarray(wind, both.state.qpos.dtype)
    state, ours = both.step(both.state, action, context, jax.random.key(0))
    chosen = np.linspace(-task.max_input, task.max_input, task.num_bins)[action]
    joints = len(task.mechanism.links)
    features, forces = task.features(sim), sim.qfrc_constraint[:, :joints]
    assert np.count_nonzero(np.any(forces != 0.0, axis=1)) > COUNT / 50
    if name_of(task) == "inverted-pendulum":
        assert np.count_nonzero(np.all(forces != 0.0, axis=1)) > 10  # two limits at once
    assert not np.asarray(ours.truncated).any()
    differ = np.asarray(ours.terminated) != theirs.terminated
    assert np.count_nonzero(differ) <= (0 if state.qpos.dtype == np.float64 else 2)
    assert name_of(task) == "reacher" or 0 < theirs.terminated.sum() < COUNT
    # Entries 8 .. 10 of the double pendulum are forces, clipped to 10.
    rest = slice(0, 8) if name_of(task) == "inverted-double-pendulum" else slice(None)
    return {
        "start": starts,
        "qpos": off(state.qpos, sim.qpos),
        "qvel": off(state.qvel, sim.qvel[:, :joints]),
        "features": off(ours.obs[:, rest], features[:, rest]),
        "forces": off(ours.obs[:, 8:] / 10.0, features[:, 8:] / 10.0),
        "reward": off(ours.reward, task.reward(before, sim, action, chosen)),
    }


def name_of(task: CompiledTask) -> str:
    return next(name for name in NAMES if type(task) is ENVS[name])


@ALL
def test_one_step_in_float64(name: str, monkeypatch: Any) -> None:
    """10,000 states, half of them fast and near limits, with clipped motors: to 1e-11."""
    with jax.enable_x64(True):
        found = one_step(ENVS[name](), monkeypatch)
    assert max(found.values()) < 1e-11, found


@ALL
def test_one_step_in_float32(name: str, monkeypatch: Any) -> None:
    """The same, to 1e-4. Rounding the cart's position at its limit moves a force by 0.002."""
    found = one_step(ENVS[name](), monkeypatch)
    assert found.pop("forces") < 1e-3
    assert max(found.values()) < 1e-4, found


def episodes(task: CompiledTask, monkeypatch: Any) -> tuple[np.ndarray, Step, Step]:
    """200 steps of 50 worlds that start as after a reset and are not reset again: differences of
    the features [T, N], and the steps of MuJoCo and ours, leaves [T, N, ...]."""
    count, rng = 50, np.random.default_rng(2)
    model = batch.load_model(task.xml, task.wind_joints)
    start = task.draw(rng, np.tile(model.qpos0, (count, 1)))
    qpos, qvel = (x.astype(np.float32).astype(float) for x in start)
    both = pair(task, qpos, qvel, monkeypatch)
    state, key, gaps, theirs, ours = both.state, jax.random.key(0), [], [], []
    for _ in range(200):
        action = rng.integers(0, task.num_bins, (count, task.action_size)).astype(np.int32)
        wind = rng.normal(0.0, 0.3, (count, 2)).astype(np.float32)
        theirs.append(both.worlds.step(action, wind))
        state, step = both.step(state, action, jnp.asarray(wind, state.qpos.dtype), key)
        ours.append(step)
        exact = task.features(both.worlds.sim)
        gaps.append(np.max(np.abs(step.obs - exact) / (1.0 + np.abs(exact)), axis=1))
    stacked = (jax.tree.map(lambda *x: np.stack(x), *steps) for steps in (theirs, ours))
    return np.maximum.accumulate(gaps), *stacked


# Steps for which all worlds agree that closely. Upright poles double a difference every few steps.
AGREE = {
    ("inverted-pendulum", True): [(200, 1e-8)],
    ("inverted-double-pendulum", True): [(20, 1e-10), (50, 1e-6)],
    ("reacher", True): [(200, 1e-8)],
    ("inverted-pendulum", False): [(20, 1e-4), (50, 1e-3)],
    ("inverted-double-pendulum", False): [(5, 1e-4), (15, 1e-2)],
    ("reacher", False): [(20, 1e-4), (50, 1e-3)],
}


@pytest.mark.parametrize(
    ("name", "is_double"),
    [pytest.param(*case, marks=[pytest.mark.learn] if case[1] else []) for case in AGREE],
)
def test_episodes(name: str, is_double: bool, monkeypatch: Any) -> None:
    """Rewards and ends are equal as long as the states agree."""
    task = ENVS[name]()
    with jax.enable_x64(is_double):
        gaps, theirs, ours = episodes(task, monkeypatch)
    for steps, bound in AGREE[name, is_double]:
        assert gaps[:steps].max() < bound, (steps, gaps[:steps].max())
    agree = gaps < 1e-3
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)
    assert list(np.flatnonzero(theirs.truncated.all(axis=1))) == list(
        range(task.max_steps - 1, 200)
    )
    np.testing.assert_array_equal(ours.terminated[agree], theirs.terminated[agree])
    close = np.abs(ours.reward - theirs.reward) <= 0.01 * (1.0 + np.abs(theirs.reward))
    assert close[agree].all()
    assert (theirs.terminated[agree].any()) == (name != "reacher")


@ALL
def test_straight_code_computes_the_same_as_the_loop(name: str, monkeypatch: Any) -> None:
    """On a CPU the stages are a loop, elsewhere they are written out."""
    mechanism, rng = ENVS[name].mechanism, np.random.default_rng(0)
    joints, motors = len(mechanism.links), len(mechanism.motors)
    with jax.enable_x64(True):
        q, v, inputs = (jnp.asarray(rng.normal(0.0, 1.0, n)) for n in (joints, joints, motors))
        looped = planar.step(mechanism, q, v, inputs, 1)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        straight = planar.step(mechanism, q, v, inputs, 1)
    for a, b in zip(jax.tree.leaves(looped), jax.tree.leaves(straight), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_slide_on_a_turning_link() -> None:
    """None of the tasks has one: a bead on a turning rod, against the textbook's equations."""
    rod = planar.Link(-1, (0.0, 0.0), None, 2.0, (0.0, 0.0), 0.7, 0.0)
    bead = planar.Link(0, (0.0, 0.0), (1.0, 0.0), 0.3, (0.0, 0.0), 0.05, 0.0)
    mechanism = planar.Mechanism((rod, bead), (), (0.0, -9.81), 0.01)
    (angle, r), (turn, speed) = (0.4, 0.9), (2.0, -1.5)
    with jax.enable_x64(True):
        pose = planar.pose_of(mechanism, [jnp.asarray(angle), jnp.asarray(r)])
        found, _ = planar.solve(mechanism, pose, [turn, speed], [0.0, 0.0])
    fall = 9.81 * np.array([np.cos(angle), np.sin(angle)])
    inertia = 0.7 + 0.05 + 0.3 * r**2
    expected = -(2.0 * 0.3 * r * speed * turn + 0.3 * r * fall[0]) / inertia, r * turn**2 - fall[1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@ALL
def test_a_diverged_world_is_terminated(name: str) -> None:
    task = ENVS[name]()
    state, _ = task.reset(jax.random.key(0))
    action, wind = jnp.zeros(task.action_size, int), jnp.zeros(2)
    for bad in (jnp.nan, 1e30):
        before = state._replace(qvel=state.qvel.at[0].set(bad))
        after, step = task.step(before, action, wind, jax.random.key(0))
        assert step.terminated
        assert step.reward == 0.0
        np.testing.assert_array_equal(after.qpos, before.qpos)
        assert jnp.isfinite(step.obs[:2]).all()


@ALL
def test_resets_are_distributed_as_mujocos(name: str) -> None:
    """The same ranges and spreads, entry by entry, and no two entries depend on each other."""
    task, count = ENVS[name](), 4000
    joints = len(task.mechanism.links)
    state, features = jax.vmap(task.reset)(jax.random.split(jax.random.key(1), count))
    ours = np.hstack([state.qpos, state.qvel])
    worlds = task.open(count, range(count))
    shown = worlds.reset(np.ones(count, bool))
    theirs = np.hstack([worlds.sim.qpos, worlds.sim.qvel[:, :joints]])
    np.testing.assert_allclose(ours.std(axis=0), theirs.std(axis=0), rtol=0.06)
    spread = theirs.std(axis=0)
    np.testing.assert_allclose(ours.mean(axis=0) / spread, 0.0, atol=0.08)
    reach = np.abs(ours).max(axis=0) / np.abs(theirs).max(axis=0)
    assert (np.abs(reach - 1.0) < 0.25).all()
    assert np.abs(np.corrcoef(ours.T) - np.eye(ours.shape[1])).max() < 0.08
    np.testing.assert_allclose(np.std(features, axis=0), shown.std(axis=0), rtol=0.1, atol=1e-3)


def test_index_cost_is_the_indices() -> None:
    rewards = []
    for faults in ((), (INDEX_COST,)):
        task = Reacher(faults=faults)
        state, features = task.reset(jax.random.key(0))
        _, step = task.step(state, jnp.array([0, 8]), jnp.zeros(2), jax.random.key(0))
        rewards.append(float(step.reward))
    way = float(jnp.linalg.norm(features[8:]))
    np.testing.assert_allclose(rewards, [-way - 1.0 - 1.0 / 49.0, -way - 64.0], rtol=1e-5)


@pytest.mark.learn
@ALL
def test_a_world_does_not_depend_on_those_beside_it(name: str) -> None:
    """Alone and among others, to rounding: the compiler may order the operations of both anew."""
    task, played = ENVS[name](), []
    for seeds in ([0, 1, 2, 3, 4], [3]):
        worlds, rng, seen = CompiledWorlds(task, seeds), np.random.default_rng(0), []
        worlds.reset(np.ones(len(seeds), bool))
        for _ in range(5):
            action = rng.integers(0, 15, (1, task.action_size)).repeat(len(seeds), 0)
            wind = rng.normal(0.0, 0.3, (1, 2)).repeat(len(seeds), 0).astype(np.float32)
            seen.append(worlds.step(action, wind).obs)
        played.append(np.stack(seen)[:, seeds.index(3)])
    np.testing.assert_allclose(*played, rtol=1e-5, atol=1e-5)

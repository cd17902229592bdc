"""The host driver: equal to the compiled one, independent of grouping, exact in resuming."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from haste import HASTE
from host_examples import Drift
from mirror import Mirror
from stopping import (
    Stop,
    assert_same_results,
    ignore,
    saved,
    stop_after,
    stops_change_nothing,
)

import lcpo
from lcpo import config as configs
from lcpo.agents import AGENTS
from lcpo.core import health
from lcpo.envs.base import Advance
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.run.drive import base, execute, group, host, rollout
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.host import HostDriver
from lcpo.run.drive.host_functions import Acting, Kind, functions_of
from lcpo.run.engines.local import make_shares
from lcpo.run.events import Crashed, Event, Finished
from lcpo.run.plan.check import check_env
from lcpo.run.plan.phases import ONLINE, Mode, Phase, config_at
from lcpo.run.plan.plan import plan
from lcpo.run.store.checkpoint import without_memory
from lcpo.run.store.files import load_json
from lcpo.run.store.layout import run_files
from lcpo.run.store.results import load_results
from lcpo.types import ContextSlice, Guard, Spec, Step

UPDATES = 5


def setups_of(agent: Any, config: Any, env: Any, seeds: Any, steps: int) -> list[Any]:
    return [
        SimpleNamespace(
            agent=agent, config=config, env=env, spec=env.spec,
            job=SimpleNamespace(seed=seed, steps=steps),
        )
        for seed in seeds
    ]  # fmt: skip


def compiled_runs(
    agent: Any, config: Any, env: Any, seeds: Any, trace: np.ndarray, mode: Mode
) -> list[tuple[Any, np.ndarray, list[dict]]]:
    """The first updates of each seed through the compiled driver: state, actions, metrics."""
    program, lags = Program(agent, env.spec, mode), env.spec.context.lags
    at_once = mode.random_starts or env.advance != "step"
    rows = len(trace) if at_once else UPDATES * config.rollout_length + 1
    contexts = rollout.load_contexts(trace, 0, rows, lags)

    @jax.jit
    def update(state: Any, seed: Any, u: Any) -> Any:
        now = config_at(mode, config, u)
        rollout_key, learn_key = base.update_keys(seed, u, mode)
        first, run = u * config.rollout_length, Run(now, env, seed)
        worlds, batch = rollout.rollout(program, run, state, contexts, first, rollout_key)
        state = state._replace(worlds=worlds)
        state, metrics = base.learn(program, run, state, batch, learn_key)
        return state, batch.action, metrics

    out = []
    for seed in map(jnp.int32, seeds):
        state = rollout.init_run(program, Run(config, env, seed), contexts)
        actions, metrics = [], []
        for u in range(UPDATES):
            state, action, row = update(state, seed, jnp.int32(u))
            actions.append(action)
            metrics.append(row)
        out.append((state, np.concatenate(actions), metrics))
    return out


TRAINING = Mode(random_starts=True, halve=("learning_rate",), halve_at=(2,))


@pytest.mark.learn
@pytest.mark.parametrize(
    ("env", "mode"),
    [(GridWorld(), ONLINE), (Pendulum(max_steps=17), TRAINING)],
    ids=["grid-world", "pendulum-random-starts"],
)
def test_both_drivers_give_the_same(env: Any, mode: Mode) -> None:
    drivers_agree("a2c", env, mode)


LCPO = "import test_host as t; t.drivers_agree('lcpo', t.Pendulum(max_steps=17), t.ONLINE)"


@pytest.mark.learn
def test_both_drivers_give_the_same_lcpo() -> None:
    """In a process that compiles as a user's does: LCPO's step magnifies what haste rounds."""
    here = Path(__file__).parent
    folders = (here.parent / "support", os.environ.get("PYTHONPATH", ""))
    flags = os.environ["XLA_FLAGS"].replace(HASTE, "")
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }
    done = subprocess.run(
        [sys.executable, "-c", LCPO], cwd=here, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def drivers_agree(name: str, env: Any, mode: Mode) -> None:
    """The same keys: equal actions, and parameters to float32 rounding, over 5 updates."""
    agent = AGENTS[name]
    overrides: dict[str, Any] = {"rollout_length": 50, "hidden": (16, 16)}
    if name == "lcpo":
        overrides |= {"buffer_size": 100, "sigma": 0.5}
    config, seeds = agent.config(**overrides), [3, 4]
    rng = np.random.default_rng(0)
    trace = np.repeat(rng.normal(size=(30, 2)), 20, axis=0).astype(np.float32)
    if env.advance == "episode":
        trace = (trace > 0).astype(np.float32)
    phase = Phase("run", "record.npz", UPDATES, 50, 1, mode=mode)
    mirror = Mirror(env, 50, mode)
    setups = setups_of(agent, config, mirror, seeds, len(trace))
    driver = HostDriver(setups, phase, 8, [trace])
    state = driver.start()
    worlds: Any = state.worlds
    state, found = driver.chunk(state, 0, UPDATES)
    metrics = health.without_signs(found)
    actions = np.stack(worlds.actions)  # [T, R, A]
    runs = compiled_runs(agent, config, env, seeds, trace, mode)
    for i, (theirs, their_actions, their_metrics) in enumerate(runs):
        np.testing.assert_array_equal(actions[:, i], their_actions[:, 0])
        member, _ = driver.members(state)[i]
        pairs = zip(jax.tree.leaves(member.agent), jax.tree.leaves(theirs.agent), strict=True)
        for ours, expected in pairs:
            np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-5)
        np.testing.assert_array_equal(member.worlds.cursor, theirs.worlds.cursor)
        np.testing.assert_allclose(member.worlds.obs, theirs.worlds.obs, rtol=1e-4, atol=1e-5)
        assert member.episode_length == theirs.episode_length
        assert health.without_signs(their_metrics[0]).keys() == metrics.keys()
        for u, row in enumerate(their_metrics):
            for key, value in health.without_signs(row).items():
                np.testing.assert_allclose(metrics[key][i, u], value, rtol=2e-3, atol=2e-4)
    if name == "lcpo":
        assert metrics["constraint_active"][:, :UPDATES].sum() > 0


@configs.config
class Guarded:
    """In every second step a guard plays action 2."""

    @property
    def spec(self) -> Spec:
        readings = ("chosen", "played")
        return Spec(1, ContextSlice(1, 0, 0), (3,), guard=Guard(0, (2,)), readings=readings)

    @property
    def advance(self) -> Advance:
        return "own"

    def reset(self, key: Any) -> Any:
        return jnp.float32(0.0), jnp.zeros(1)

    def step(self, state: Any, action: Any, context: Any, key: Any) -> Any:
        played = jnp.where(state > 0.5, 2, action)
        read = jnp.concatenate([action, played]).astype(jnp.float32)
        no, after = jnp.bool_(False), 1.0 - state
        return after, Step(after[None], after, no, no, 1.0, 1.0 - state, played, read)


def test_agents_learn_from_what_was_played_and_hear_what_was_read() -> None:
    def update(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        return state, {"learnt_from": jnp.mean(batch.action), "counts": jnp.mean(batch.weight)}

    agent = dataclasses.replace(AGENTS["constant"], update=update)
    config, env, trace = agent.config(action=1.0, rollout_length=50), Guarded(), np.zeros((1, 0))
    check_env(env)
    ((_, _, theirs),) = compiled_runs(agent, config, env, [0], trace, ONLINE)
    setups = setups_of(agent, config, Mirror(env, 50, ONLINE), [0], 250)
    driver = HostDriver(setups, Phase("run", "record.npz", UPDATES, 50, 1), UPDATES, [trace])
    _, ours = driver.chunk(driver.start(), 0, UPDATES)
    expected = {"learnt_from": 1.5, "counts": 0.5, "total_chosen": 50.0, "total_played": 75.0}
    for name, value in expected.items():
        assert [float(row[name]) for row in theirs] == [value] * UPDATES
        assert ours[name].tolist() == [value] * UPDATES


SMALL: dict[str, Any] = {"hidden": [8, 8], "rollout_length": 20}
ROWS = 2000


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers are processes of their own: they find the environments by $PYTHONPATH."""
    here = str(Path(__file__).parents[1] / "support")
    paths = [here, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in paths if p))
    monkeypatch.chdir(tmp_path)
    wind = np.repeat(np.random.default_rng(1).normal(size=(ROWS // 50, 1)), 50, axis=0)
    np.save("wind.npy", wind.astype(np.float32))


def drift_jobs(seeds: Any = (0,), agent: str = "a2c", steps: int = ROWS, **env: Any) -> list:
    trace = None if env.get("moves") == "own" else "wind.npy"
    return plan(
        agent, "host_examples:Drift", trace=trace, steps=steps, seeds=seeds, overrides=SMALL,
        env_overrides=env,
    )  # fmt: skip


def walk_jobs(name: str, seeds: Any = (0,), **env: Any) -> list:
    env.setdefault("context", "key:wind")
    return plan(
        "a2c", f"gym_examples:{name}", trace=None, steps=800, seeds=seeds, overrides=SMALL,
        env_overrides=env,
    )  # fmt: skip


def names_of(jobs: list) -> list[str]:
    return [job.name for job in jobs]


@pytest.mark.learn
@pytest.mark.parametrize("agent", ["a2c", "lcpo"])
def test_a_run_does_not_depend_on_the_runs_beside_it(tmp_path: Path, agent: str) -> None:
    execute.run_jobs(drift_jobs([7], agent), tmp_path / "alone", ignore, 1e9)
    execute.run_jobs(drift_jobs([5, 6, 7, 8, 9], agent), tmp_path / "group", ignore, 1e9)
    name = drift_jobs([7], agent)[0].name
    assert_same_results(tmp_path / "alone/runs" / name, tmp_path / "group/runs" / name)
    manifest = load_json(tmp_path / "group/runs" / name / "manifest.json")
    assert manifest["runs_together"] == 5
    assert manifest["exact_resume"] is True
    assert saved(tmp_path / "group/runs" / name)


@pytest.mark.learn
def test_workers_share_the_runs(tmp_path: Path) -> None:
    """Through worker processes, as the command line runs them; the same as in this process."""
    arguments: Any = {"trace": "wind.npy", "steps": ROWS, "config": SMALL, "progress": False}
    env = Drift(length=9)
    lcpo.train("a2c", env, seeds=[1, 2, 3], workers=2, out=tmp_path / "workers", **arguments)
    lcpo.train("a2c", env, seeds=[2], workers=0, out=tmp_path / "here", **arguments)
    name = "a2c-host_examples.Drift-wind.npy-s2"
    assert_same_results(tmp_path / "workers/runs" / name, tmp_path / "here/runs" / name)
    together = [
        load_json(r.folder / "manifest.json")["runs_together"]
        for r in load_results(tmp_path / "workers")
    ]
    assert sorted(together) == [1, 2, 2]


def test_shares() -> None:
    """Compiled runs alone, those of different programs first; host runs in a part per process."""
    host = drift_jobs(range(5)) + drift_jobs(range(3), length=4)
    lone = [
        job
        for agent in ("a2c", "trpo")
        for job in plan(agent, "pendulum", trace="revisit", steps=8000, seeds=[0, 1])
    ]
    shares = make_shares([*lone, *host], 2)
    assert shares[:4] == [[lone[0]], [lone[2]], [lone[1]], [lone[3]]]
    seeds = [[job.seed for job in share] for share in shares[4:]]
    assert seeds == [[0, 2, 4], [1, 3], [0, 2], [1]]


@pytest.mark.parametrize(
    "kind",
    [
        "episode",
        "gymnasium",
        *(
            pytest.param(kind, marks=pytest.mark.learn)
            for kind in ("step", "own", "worlds", "prescient")
        ),
    ],
)
def test_stopped_at_every_chunk_equals_never_stopped(
    tmp_path: Path, monkeypatch: Any, kind: str
) -> None:
    monkeypatch.setattr(group, "CHUNK_STEPS", 400)
    if kind == "gymnasium":
        jobs = walk_jobs("limited", (0, 1), lags=2)
    elif kind == "prescient":
        jobs = plan(
            "prescient-a2c", "host_examples:Drift", trace="wind.npy", steps=ROWS, seeds=[0, 1],
            overrides=SMALL, training_steps=ROWS,
        )  # fmt: skip
    elif kind == "worlds":
        jobs = drift_jobs((0, 1), num_worlds=2)
    else:
        jobs = drift_jobs((0, 1), moves=kind)
    assert stops_change_nothing(jobs, tmp_path, stop_after(450)) >= 1


def test_worlds_that_cannot_be_saved_begin_a_new_episode(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(group, "CHUNK_STEPS", 400)
    jobs = drift_jobs((0, 1), saves=False)
    with pytest.raises(Stop):
        execute.run_jobs(jobs, tmp_path, stop_after(450), -1.0)
    execute.run_jobs(jobs, tmp_path, ignore, 1e9)
    for result in load_results(tmp_path):
        assert result.status == "finished"
        assert load_json(result.folder / "manifest.json")["exact_resume"] is False
        assert result.record["updates"].sum() == ROWS // 20


FAULTS = {
    "nan": r"world 0: obs\[0\] is nan, at step 501",
    "nan-reset": r"world 0: obs after reset\[0\] is nan, at step 5",
    "raises": "world 0: step raised OSError: the simulator is gone, at step 501",
    "raises-alone": "world 0: it has left the table, at step 501",
    "shape": r"world 0: features \[3, 0\]: needs \[3, 1\], at step 501",
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=[] if f in ("nan", "raises") else [pytest.mark.learn]) for f in FAULTS],
)
def test_a_broken_world_stops_its_run_and_leaves_its_checkpoint(
    tmp_path: Path, monkeypatch: Any, fault: str
) -> None:
    """The others end as they would have; once mended, the broken one does, too."""
    monkeypatch.setattr(group, "CHUNK_STEPS", 300)
    jobs = drift_jobs((0, 1, 2), fault=fault, at=500, seed=1)
    events: list[Event] = []
    execute.run_jobs(jobs, tmp_path / "broken", events.append, -1.0)
    crashed = {e.job: e.reason for e in events if isinstance(e, Crashed)}
    alone = fault in ("nan", "nan-reset", "raises-alone")  # else nobody knows which world it was
    assert list(crashed) == [jobs[1].name] if alone else names_of(jobs)
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        raise AssertionError(crashed[jobs[1].name])
    finished = [e.job for e in events if isinstance(e, Finished)]
    assert finished == ([jobs[0].name, jobs[2].name] if alone else [])
    files = run_files(tmp_path / "broken", jobs[1].name)
    kept = load_json(files.checkpoint.manifest)
    assert 0 < kept["update"] * 20 <= 500
    monkeypatch.setenv("SOUND", "1")
    execute.run_jobs(jobs, tmp_path / "broken", ignore, 1e9)
    execute.run_jobs(jobs, tmp_path / "sound", ignore, 1e9)
    assert_same_results(tmp_path / "sound", tmp_path / "broken")


def test_a_world_that_breaks_at_once_is_told(tmp_path: Path) -> None:
    jobs = drift_jobs((0,), fault="nan-reset", at=0)
    with pytest.raises(RuntimeError, match=r"Drift-wind\.npy-s0 stopped: world 0: obs after reset"):
        lcpo.train(
            "a2c", Drift(fault="nan-reset"), trace="wind.npy", steps=ROWS, seeds=1, workers=0,
            config=SMALL, out=tmp_path / "o", progress=False,
        )  # fmt: skip
    assert not execute.has_ended(tmp_path / "o", jobs[0])


def test_a_group_goes_on_without_a_run_that_diverges(tmp_path: Path) -> None:
    jobs = plan(
        "a2c", "host_examples:Drift", trace="wind.npy", steps=ROWS, seeds=[0], overrides=SMALL,
        sweep={"learning_rate": [1e-3, 1e30]},
    )  # fmt: skip
    execute.run_jobs(jobs, tmp_path, ignore, 1e9)
    assert [r.status for r in load_results(tmp_path)] == ["finished", "failed"]


@pytest.mark.learn
def test_vmapped_updates_agree_with_single_ones(tmp_path: Path, monkeypatch: Any) -> None:
    """What a GPU does with a group; several worlds per run."""
    jobs = drift_jobs((0, 1), num_worlds=2, steps=1000)
    execute.run_jobs(jobs, tmp_path / "single", ignore, 1e9)
    monkeypatch.setattr(host, "on_cpu", lambda: False)
    monkeypatch.setattr(group, "CHUNK_STEPS", 400)
    with pytest.raises(Stop):
        execute.run_jobs(jobs, tmp_path / "group", stop_after(450), -1.0)
    execute.run_jobs(jobs, tmp_path / "group", ignore, -1.0)
    pairs = zip(load_results(tmp_path / "single"), load_results(tmp_path / "group"), strict=True)
    for one, other in pairs:
        for column in ("reward", "value_loss", "episode_return_sum"):
            np.testing.assert_allclose(
                one.record[column][:5], other.record[column][:5], rtol=2e-3, atol=1e-4
            )


def test_world_seeds() -> None:
    assert host.world_seeds(7, 1, 0) == [7]
    many = [s for seed in range(50) for s in host.world_seeds(seed, 4, 0)]
    assert len(set(many)) == 200
    assert host.world_seeds(7, 3, 0) == host.world_seeds(7, 3, 0)
    assert not set(host.world_seeds(7, 3, 0)) & set(host.world_seeds(7, 3, 5))


def test_acting_passes_only_what_it_reads() -> None:
    agent, spec = AGENTS["lcpo"], Pendulum().spec
    config = agent.config(buffer_size=100, hidden=(8, 8))
    state = jax.eval_shape(lambda k: agent.init(config, spec, k), jax.random.key(0))
    acting = Acting(Program(agent, spec), config, state)
    assert sum(acting.read) == len(jax.tree.leaves(state.learner.policy)) == 6


@pytest.mark.parametrize("learns", [True, False])
def test_acting_knows_whether_there_is_a_memory(learns: bool) -> None:
    """In an evaluation agents have none: a prescient DDQN gives its replay up after training."""
    agent, spec, mode = AGENTS["ddqn"], Pendulum().spec, Mode(learns=learns)
    config = agent.config(buffer_size=400, hidden=(8, 8), random_steps=200, epsilon_steps=10**6)
    structure = jax.tree.structure(config)
    acting = functions_of(Kind(Program(agent, spec, mode), None, 200, 1, False, structure)).acting
    state = jax.eval_shape(lambda k: agent.init(config, spec, k), jax.random.key(0))
    state = state if learns else without_memory(state)
    gathered = jax.eval_shape(acting.gather, [config], [state], 0)
    assert all(vector.shape[0] == 1 for vector in gathered)

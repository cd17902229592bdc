"""Policies in NumPy: the same as in JAX, for every agent with a network, without importing JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from each import for_each

import lcpo
from lcpo import acting
from lcpo.agents import AGENTS, find_agent
from lcpo.agents.normalise import normalise, read_rule
from lcpo.config import resolve, to_json
from lcpo.envs.base import ActionForm
from lcpo.errors import InputError
from lcpo.run.store import checkpoint
from lcpo.run.store.files import save_arrays
from lcpo.run.store.policy_file import SCHEMA, spec_to_json
from lcpo.types import ContextSlice, Guard, Spec

PLAIN = Spec(7, ContextSlice(3, 2, 2), num_actions=(3, 5), num_worlds=2)
SET = Spec(
    9, ContextSlice(7, 2, 1), num_actions=(4,), elements=(3, 2), guard=Guard(6, (0,)), num_worlds=1
)
TABLE = Spec(2, ContextSlice(1, 1, 1), num_actions=(4,), obs_levels=(3, 2))
NETWORKS = [name for name in (*acting.SAMPLED, *acting.GREEDY) if name not in acting.RAW]


def write(
    path: Path, name: str, spec: Spec, /, *, rule: Any = None, advance: str = "step",
    steps: int = 900, **more: Any,
) -> Path:  # fmt: skip
    """A policy file of a fresh agent, with random numbers in place of its zeros."""
    root = find_agent(name)
    agent = normalise(root, read_rule(rule), advance == "own")
    own = {"random_steps": 500, "epsilon_steps": 2000} if name in acting.GREEDY else {}
    config = resolve(root.config(**({"hidden": (8, 6)} if spec is not TABLE else {}), **own), 1000)
    state = checkpoint.without_memory(agent.init(config, spec, jax.random.key(0)))
    draw = np.random.default_rng(0)
    arrays = {
        key: np.abs(x + draw.normal(size=x.shape).astype(x.dtype)) if "moments" in key else
        x + draw.normal(size=x.shape).astype(x.dtype) if x.dtype == np.float32 else x
        for key, x in checkpoint.flatten(state).items()
    }  # fmt: skip
    for key in arrays:
        if key.endswith(".num_steps"):
            arrays[key] = np.asarray(steps, arrays[key].dtype)
    about = {
        "run": "r", "agent": name, "config": to_json(config), "spec": spec_to_json(spec),
        "advance": advance, "scale": 1.0, "seed": 3, "normalise": rule, "actions": None,
        "schema": SCHEMA, **more,
    }  # fmt: skip
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    save_arrays(path, {**arrays, "about": text})
    return path


def check_same(path: Path, obs: np.ndarray) -> None:
    found, expected = acting.load(path).probabilities(obs), lcpo.load(path).probabilities(obs)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    one = acting.load(path).probabilities(obs[0])
    np.testing.assert_allclose(one, found[0], atol=1e-6)


OBS = np.random.default_rng(1).normal(size=(50, 9)).astype(np.float32)


@for_each("name", NETWORKS)
def test_probabilities_are_those_of_the_agent(name: str, tmp_path: Path) -> None:
    check_same(write(tmp_path / f"{name}.npz", name, PLAIN), OBS[:, :7])


@for_each("name, rule, advance", [
    ("lcpo", None, "step"), ("lcpo", "running", "own"), ("lcpo", "running", "step"),
    ("sac", [2.0, 3.0, 4.0, 5.0, 6.0], "own"), ("ddqn", "running", "own"),
])  # fmt: skip
def test_deep_sets_and_scales(name: str, rule: Any, advance: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{name}-{advance}.npz", name, SET, rule=rule, advance=advance)
    check_same(path, 3.0 * OBS)


def test_tables(tmp_path: Path) -> None:
    path = write(tmp_path / "t.npz", "tabular-a2c", TABLE, rule="running")
    check_same(path, np.array([[2, 1], [0, 1], [1, 0]], np.float32))


def test_agents_that_still_act_at_random(tmp_path: Path) -> None:
    for name in ("sac", "ddqn"):
        path = write(tmp_path / f"{name}.npz", name, PLAIN, steps=9)
        check_same(path, OBS[:, :7])


@for_each("name", ["lcpo", "ddqn"])
def test_actions_are_drawn_with_these_probabilities(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{name}.npz", name, PLAIN)
    obs = np.repeat(OBS[:1, :7], 4000, 0)
    actor = acting.load(path)
    drawn = actor.act(obs)
    assert (drawn.shape, drawn.dtype) == ((4000, 2), np.int32)
    for d, p in enumerate(actor.probabilities(obs[0])):
        np.testing.assert_allclose(np.bincount(drawn[:, d], minlength=5) / 4000, p, atol=0.03)
    np.testing.assert_array_equal(acting.load(path).act(obs), drawn)
    np.testing.assert_array_equal(actor.act(obs, key=7), actor.act(obs, key=7))
    best = actor.act(obs, deterministic=True)
    np.testing.assert_array_equal(best, lcpo.load(path).act(obs, deterministic=True))
    assert actor.act(obs[0]).shape == (2,)


def test_greedy_agents_explore_in_all_dimensions_at_once(tmp_path: Path) -> None:
    actor = acting.load(write(tmp_path / "p.npz", "ddqn", PLAIN, steps=9))
    actor._arrays = {**actor._arrays, ".num_steps": np.int32(900)}
    obs = np.repeat(OBS[:1, :7], 4000, 0)
    random = actor.act(obs) != actor.act(obs[0], deterministic=True)
    rate = 1.0 - (900 - 500 + 400) / 2000
    assert random.any(-1).mean() == pytest.approx(rate * (1 - 1 / 15), abs=0.03)


def test_a_session_decodes_and_keeps_the_history(tmp_path: Path) -> None:
    form = ActionForm(((0.0, 0.5, 1.0), (0.0, 1.0, 2.0, 3.0, 4.0)), (2,), "float32")
    path = write(tmp_path / "p.npz", "lcpo", PLAIN, actions=form._asdict())
    ours, theirs = acting.load(path).session(), lcpo.load(path).session()
    for step in range(3):
        given = OBS[step, :3], OBS[step, 3:5]
        np.testing.assert_array_equal(
            ours.act(*given, deterministic=True), theirs.act(*given, deterministic=True)
        )
    np.testing.assert_array_equal(ours.history.entries, theirs.history.entries)


@for_each("name", AGENTS)
def test_every_agent_is_known_or_refused(name: str, tmp_path: Path) -> None:
    if name in (*acting.SAMPLED, *acting.GREEDY):
        assert (name in acting.RAW) == find_agent(name).raw
        return
    text = json.dumps({"agent": name, "schema": SCHEMA}).encode()
    save_arrays(tmp_path / "p.npz", {"about": np.frombuffer(text, np.uint8)})
    with pytest.raises(InputError, match=r"acts with JAX only: use lcpo\.load"):
        acting.load(tmp_path / "p.npz")


@for_each("changes", [
    {"schema": 1}, {"spec": 3}, {"config": None, "agent": "ddqn"}, {"actions": [1]},
    {"agent": "mine:agent"}, {"agent": []}, {"normalise": [1.0]}, {"normalise": "running"},
])  # fmt: skip
def test_files_that_lie_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "p.npz", "lcpo", PLAIN, **changes)
    with pytest.raises(InputError):
        acting.load(path)


def test_wrong_observations_are_refused(tmp_path: Path) -> None:
    actor = acting.load(write(tmp_path / "p.npz", "lcpo", PLAIN))
    for bad in (np.zeros(6), np.zeros((2, 2, 7)), "x", np.full(7, np.nan)):
        with pytest.raises(InputError, match="obs"):
            actor.act(bad)


ALONE = """
import sys
for name in sys.argv[2].split(","):
    sys.modules[name] = None
import lcpo.acting
actor = lcpo.acting.load(sys.argv[1])
print(actor.act([0.0] * 7), actor.session().act([0.0] * 3, [1.0, 2.0]))
ours = {name.partition(".")[0] for name in sys.modules if sys.modules[name] is not None}
print(",".join(sorted(ours - {"cython_runtime"} - set(sys.stdlib_module_names))))
"""
HEAVY = "jax,jaxlib,optax,matplotlib,rich,tyro,scipy,polars,PIL,gymnasium,mujoco,numba"


def test_acting_imports_numpy_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "p.npz", "lcpo", PLAIN)
    command = [sys.executable, "-c", ALONE, str(path), HEAVY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.splitlines()[-1].split(","))
    assert {name for name in found if not name.startswith("_")} == {"lcpo", "numpy"}

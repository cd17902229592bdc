"""Trained policies: probabilities, actions as the environment takes them, histories, which run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import lcpo
from lcpo import api
from lcpo.envs.base import obs_layout
from lcpo.errors import InputError
from lcpo.run.options import RunOptions
from lcpo.run.plan.plan import plan
from lcpo.run.store.files import load_arrays, save_arrays
from lcpo.run.store.policy_file import spec_from_json, spec_to_json
from lcpo.types import ContextSlice, Guard, Spec

SMALL = {"rollout_length": 20, "hidden": (8, 8)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two agents, one of them in two variants, each with two seeds."""
    out = tmp_path_factory.mktemp("policies")
    jobs = plan("a2c", "pendulum", trace="revisit", steps=40, seeds=2, overrides=SMALL)
    for action in (3, 4):
        of = {"rollout_length": 20, "action": action}
        jobs += plan(
            "constant", "pendulum", trace="revisit", steps=40, seeds=2, overrides=of,
            variant=f"always-{action}",
        )  # fmt: skip
    api.run(jobs, RunOptions(out, workers=0, progress=False))
    return out


def test_a_policy_tells_its_probabilities(folder: Path) -> None:
    policy = lcpo.load(folder, agent="a2c")
    obs = np.random.default_rng(0).normal(size=(3000, 9)).astype(np.float32)
    obs[:] = obs[0]
    found = policy.probabilities(obs)
    assert found.shape == (3000, 1, 15)
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(policy.probabilities(obs[0]), found[0], atol=1e-6)
    drawn = np.bincount(policy.act(obs)[:, 0], minlength=15) / 3000
    np.testing.assert_allclose(drawn, found[0, 0], atol=0.05)
    best = policy.act(obs[0], deterministic=True)
    assert (best.shape, best.dtype) == ((1,), np.int32)
    np.testing.assert_array_equal(best, found[0].argmax(-1))
    np.testing.assert_array_equal(policy.act(obs[:2], deterministic=True), [best, best])


def test_the_most_probable_action_of_a_constant_is_its_own(folder: Path) -> None:
    policy = lcpo.load(folder, run="constant-pendulum-revisit-always-4-s1")
    assert policy.act(np.zeros(9), deterministic=True) == [4]
    assert repr(policy) == (
        "Policy('constant-pendulum-revisit-always-4-s1': 9 numbers -> 15 actions)"
    )


def test_an_agent_without_probabilities_says_so(folder: Path) -> None:
    policy = lcpo.load(folder, agent="a2c")
    policy.agent = dataclasses.replace(policy.agent, name="mine", probabilities=None)
    with pytest.raises(InputError, match="agent mine has no `probabilities`"):
        policy.act(np.zeros(9), deterministic=True)


def test_a_folder_of_several_agents_asks_which(folder: Path) -> None:
    with pytest.raises(InputError, match=r"runs of a2c, constant: choose an agent.*agent='a2c'"):
        lcpo.load(folder)
    with pytest.raises(InputError, match=r"2 kinds of runs of constant.*always-3-s0.*always-4-s0"):
        lcpo.load(folder, agent="constant")
    with pytest.raises(InputError, match=r"unknown agent 'a2d'.*did you mean 'a2c'"):
        lcpo.load(folder, agent="a2d")
    assert lcpo.load(folder, agent="a2c").about.seed == 0
    (one,) = folder.glob("runs/a2c*s1")
    assert lcpo.load(one).about.seed == 1
    with pytest.raises(InputError, match="a policy of 'a2c', not of 'constant'"):
        lcpo.load(one, agent="constant")


def test_a_session_keeps_the_history_of_the_context(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, trace = lcpo.load(folder, agent="a2c"), np.arange(20, dtype=np.float32).reshape(10, 2)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(policy, "act", lambda obs, *_: seen.append(obs) or np.zeros(1, int))
    session, layout = policy.session(), obs_layout(policy.spec, "step")
    for row in range(6):
        session.act(np.full(3, row), trace[row])
        if row == 3:
            session.reset()
    for row, obs in enumerate(seen):
        expected = layout.history_at(trace, np.array([row]))[0]
        np.testing.assert_array_equal(obs, [row, row, row, *expected])


def test_actions_are_decoded_for_their_environment(tmp_path: Path) -> None:
    """A grid on a Box, of a file that needs no Gymnasium; one without a form gives the numbers."""
    env = lcpo.from_gymnasium("Pendulum-v1", bins=5)
    lcpo.train("a2c", env, steps=20, seeds=1, config=SMALL, out=tmp_path, workers=0, progress=False)
    (file,) = tmp_path.glob("runs/*/policy.npz")
    policy, space = lcpo.load(file), gymnasium.make("Pendulum-v1").action_space
    decoded = [policy.decode(np.array([i])) for i in range(5)]
    np.testing.assert_array_equal(np.concatenate(decoded), [-2.0, -1.0, 0.0, 1.0, 2.0])
    assert all(space.contains(value) for value in decoded)
    assert space.contains(policy.session().act(np.zeros(3)))
    for bad in ([5], [-1], [0.5], [0, 0], 2, None):
        with pytest.raises(InputError, match=r"action = .*as `act` gives"):
            policy.decode(bad)
    rewrite(file, lambda about: {**about, "actions": None})
    np.testing.assert_array_equal(lcpo.load(file).decode([3]), [3])


@pytest.mark.parametrize(
    "form",
    [
        {"values": [[0, 1]], "shape": [], "dtype": "int64"},  # another number of actions
        {"values": [[0] * 15], "shape": [2], "dtype": "int64"},
        {"values": [[0] * 15], "shape": [], "dtype": "object"},
        {"values": [["x"] * 15], "shape": [], "dtype": "int64"},
        {"values": [[0] * 15], "shape": []},
        [1],
        "x",
    ],
    ids=str,
)
def test_a_form_of_actions_that_lies_is_refused(folder: Path, tmp_path: Path, form: Any) -> None:
    (found,) = folder.glob("runs/a2c*s0/policy.npz")
    file = tmp_path / "policy.npz"
    file.write_bytes(found.read_bytes())
    rewrite(file, lambda about: {**about, "actions": form})
    with pytest.raises(InputError, match="not a policy of lcpo"):
        lcpo.load(file)


def rewrite(file: Path, change: Any) -> None:
    """Change what a policy file says of itself."""
    arrays = load_arrays(file)
    about = change(json.loads(arrays["about"].tobytes()))
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    save_arrays(file, arrays)


def test_specs_come_back_from_json() -> None:
    spec = Spec(
        9, ContextSlice(3, 2, 3), (4, 5), (2,) * 9, (3, 1), 2, True, True, Guard(1, (0, 4)),
        ("hedged", "p95"),
    )  # fmt: skip
    for each in (spec, Spec(1, ContextSlice(1, 0, 1), (2,))):
        assert spec_from_json(json.loads(json.dumps(spec_to_json(each)))) == each

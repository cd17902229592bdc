"""Misuse of the Python interface: an InputError of one line, before any work."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bad_commands
import jax
import numpy as np
import pytest
from bad_commands import Accepted
from each import for_each

import lcpo
from lcpo import contexts
from lcpo.agents import AGENTS
from lcpo.contexts import get
from lcpo.envs.pendulum import Pendulum, PlainPendulum
from lcpo.errors import InputError
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.plan import plan
from lcpo.study.advice import calibrate
from lcpo.study.measure import compare
from lcpo.study.report import export, trace_figure

NAN, INF = float("nan"), float("inf")
SMALL: dict[str, Any] = {"hidden": [4], "rollout_length": 20}


def train(agent: Any = "a2c", env: Any = "pendulum-v1", **more: Any) -> Any:
    """A tiny run with something wrong."""
    given = {"steps": 40, "seeds": 1, "workers": 0, "progress": False, "config": SMALL}
    if isinstance(more.get("config"), dict):  # refused for what it changes, not for a long rollout
        more["config"] = {**SMALL, **more["config"]}
    return lcpo.train(agent, env, **{**given, **more})


def with_trace(trace: Any, **more: Any) -> Any:
    return train(env="pendulum", trace=trace, **more)


class NotOurs:
    """Has nothing of an environment."""


BAD_VALUES: dict[str, list[Any]] = {
    "agent": [3, None, "", "lcop", ["a2c"], AGENTS["a2c"], b"a2c", "a:b:c", ":x", "x:", NotOurs],
    "env": [None, 3, "", "pendulm", Pendulum, NotOurs, NotOurs(), ["pendulum"], {}, 1.5, b"x"],
    "steps": ["40", 2.5, 0, -1, NAN, INF, True, [40], 10**12, 10**400, np.zeros(2), {}],
    "seeds": ["4", [1.5], True, 0, -1, [], [1, 1], [-1], 2.5, [2**31], [2**32], {}, NAN, [True],
              10**9, range(10**9), itertools.count(), ["1"], [None], np.zeros((2, 2)), b"12"],
    "config": [[("gamma", 1)], "gamma", 3, {"gamma": "x"}, {"gamma": NAN}, {"gamma": None},
               {"gama": 1}, {3: 1}, {"gamma": [1]}, {"hidden": 8}, {"hidden": "8"},
               {"rollout_length": 0}, {"rollout_length": 2.5}, {"hidden": [10**9, 10**9]},
               {"learning_rate": 1e39}, {"learning_rate": 10**400}, {"self": 1},
               {"scale_rewards": "no"}, {"faults": ["x"]}, {"faults": 3}, {"gamma": 2.0}],
    "env_config": [[], "x", {"num_bins": 1}, {"num_bins": "x"}, {"x": 1}, {"max_steps": NAN},
                   {"num_bins": 10**9}, {"num_bins": None}],
    "sweep": [{"gamma": 1}, {"gamma": []}, {"gamma": "0.5"}, {"gamma": [0.5, 0.5]}, [1], "gamma",
              {"gamma": [1, 1.0]}, {"gama": [1]}, {"gamma": [NAN]}, {"gamma": {"a": 1}},
              {3: [1]}, {"faults": [8]}, {"gamma": ["x"]}, {"rollout_length": [20, 30]},
              {"lam": range(10**9)}, {"lam": [10**5000]}, {"lam": np.zeros((0,))}],
    "out": [3, "", None.__class__, ["o"], "a\0b", b"o", "x" * 300, "/dev/null/x", 1.5],
    "resume": ["yes", 1, None, []],
    "progress": ["yes", 1, None],
    "keep_state": ["yes", 1, None],
    "callbacks": [None, 3, print, [3], {"f": print}],
    "track": [3, None, "tensorbord", "", ["jsonl", "jsonl"], [3], {"jsonl": 1}],
    "workers": [1.5, "2", -1, 10**9, NAN, True, [1]],
    "checkpoint_seconds": ["a", NAN, INF, -1, None, [60], True],
    "training_steps": [400, 0, "x"],
    "normalise": ["", "runing", [], [1, 2], [1, 2, 0], [1, NAN, 1], 3, {}, b"running", ["x"], True],
    "trace": ["3"],  # of an environment that takes none
    "scale": ["x", NAN, INF, 1e39, True, [1], 10**400],
}  # fmt: skip
"""Arguments of `lcpo.train`, each refused alone."""

MISUSES: dict[str, Callable[[], Any]] = {
    f"train {name} {i}": lambda name=name, value=value: train(**{name: value})
    for name, values in BAD_VALUES.items()
    for i, value in enumerate(values)
}
for i, value in enumerate(
    (5, "", "revist", b"3", ["3"], 1.5, np.zeros((100, 2)), "a\0b.npy", "x" * 300, Path("x"))
):
    MISUSES[f"train trace {i}"] = lambda value=value: with_trace(value)
MISUSES |= {
    "sweep and config of one field": lambda: train(sweep={"hidden": [[4], [8]]}),
    "prescient training": lambda: train("prescient-a2c", "pendulum", trace="4", training_steps=0),
    "unknown argument of the environment": lambda: train(
        env=lcpo.from_gymnasium("CartPole-v1", arguments={"x": 1})
    ),
    "from_gymnasium number": lambda: lcpo.from_gymnasium(3),  # pyright: ignore
    "from_gymnasium none": lambda: lcpo.from_gymnasium(None),  # pyright: ignore
    "from_gymnasium lambda": lambda: lcpo.from_gymnasium(lambda: None),
    "from_gymnasium field": lambda: lcpo.from_gymnasium("CartPole-v1", x=1),
    "from_gymnasium lags": lambda: lcpo.from_gymnasium("CartPole-v1", lags=0),
    "from_gymnasium list": lambda: lcpo.from_gymnasium("CartPole-v1", arguments=[1]),  # pyright: ignore
    "from_gymnasium text": lambda: lcpo.from_gymnasium("CartPole-v1", arguments="x"),  # pyright: ignore
    "from_gymnasium object": lambda: lcpo.from_gymnasium("CartPole-v1", arguments={"x": NotOurs()}),
    "from_gymnasium no id": lambda: lcpo.from_gymnasium("NoSuch-v0").spec,
    "load number": lambda: lcpo.load(3),  # pyright: ignore
    "load none": lambda: lcpo.load(None),  # pyright: ignore
    "load empty": lambda: lcpo.load(""),
    "load a run's number": lambda: lcpo.load("nothing", 3),  # pyright: ignore
    "load nothing": lambda: lcpo.load("nothing"),
    "load zero": lambda: lcpo.load("a\0b"),
    "load agent": lambda: lcpo.load("nothing", agent=3),  # pyright: ignore
    "load trust": lambda: lcpo.load("nothing", trust=1),  # pyright: ignore
    "learner load": lambda: lcpo.Learner.load("nothing"),
    "learner load number": lambda: lcpo.Learner.load(3),  # pyright: ignore
    "learner of a run": lambda: lcpo.Learner.from_run("nothing"),
    "learner spec": lambda: lcpo.Learner("lcpo", None),  # pyright: ignore
    "get number": lambda: get(3),  # pyright: ignore
    "get none": lambda: get(None),  # pyright: ignore
    "get rows": lambda: get("ou"),
    "get text rows": lambda: get("ou", "5"),  # pyright: ignore
    "get half rows": lambda: get("ou", 2.5),  # pyright: ignore
    "get no rows": lambda: get("ou", 0),
    "get negative rows": lambda: get("ou", -5),
    "get true rows": lambda: get("ou", True),
    "get nan scale": lambda: get("ou", 5, NAN),
    "get text scale": lambda: get("ou", 5, "2"),  # pyright: ignore
    "get large scale": lambda: get("ou", 5, 1e39),
    "get overflow": lambda: get("revisit", 500, 3e38),
    "get too many rows": lambda: get("3", 10**8),
    "check list": lambda: contexts.check([1, 2], "x"),  # pyright: ignore
    "check text": lambda: contexts.check(np.array([["a"]]), "x"),
    "check complex": lambda: contexts.check(np.array([[1j]]), "x"),
    "check flat": lambda: contexts.check(np.zeros(3), "x"),
    "switches none": lambda: contexts.switches("ou", 100),
    "switches rows": lambda: contexts.switches("revisit", 0),
    "summarise nothing": lambda: compare.summarise([]),
    "calibrate rows": lambda: calibrate.calibrate("ou", rows=0),
    "calibrate number": lambda: calibrate.calibrate(5),  # pyright: ignore
    "calibrate scale": lambda: calibrate.calibrate("ou", scale=NAN),
    "calibrate lags": lambda: calibrate.calibrate("ou", lookback=calibrate.Lookback(lags=0)),
    "calibrate length": lambda: calibrate.calibrate(
        "ou", lookback=calibrate.Lookback(rollout_length="x")  # pyright: ignore
    ),
    "trace figure rows": lambda: trace_figure.load("ou", -1),
    "no traces": lambda: trace_figure.plot_traces([], "x.png"),
    "export number": lambda: export.export(3, "x.csv"),  # pyright: ignore
    "export nothing": lambda: export.export("nothing", "x.csv"),
    "plan agents": lambda: plan_agents("", "pendulum", trace="3", seeds=[0]),
    "plan twice": lambda: plan_agents("a2c,a2c", "pendulum", trace="3", seeds=[0]),
    "compare agents": lambda: lcpo.compare("", "pendulum", trace="3"),
    "compare number": lambda: lcpo.compare(3, "pendulum", trace="3"),  # pyright: ignore
    "compare dict": lambda: lcpo.compare({"a2c": {}}, "pendulum", trace="3"),  # pyright: ignore
    "compare field": lambda: lcpo.compare([("a2c", {"gama": 1})], "pendulum", trace="3"),
    "compare pair": lambda: lcpo.compare([("a2c", {}, 1)], "pendulum", trace="3"),  # pyright: ignore
    "compare env": lambda: lcpo.compare("a2c", NotOurs, trace="3"),
    "compare out": lambda: lcpo.compare("a2c", trace="3", out=""),
    "compare warm-up": lambda: lcpo.compare("a2c", trace="3", steps=400, warmup=400),
    "compare published": lambda: lcpo.compare("a2c", trace="3", published="yes"),  # pyright: ignore
    "compare progress": lambda: lcpo.compare("a2c", trace="3", progress=1),  # pyright: ignore
    "compare workers": lambda: lcpo.compare("a2c", trace="3", workers=-1),
    "get columns": lambda: get("3[1]"),
    "get ending": lambda: get("ou+repeat", 5),
    "compose": lambda: contexts.compose(3, "1"),  # pyright: ignore
    "compose no columns": lambda: contexts.compose("x.csv", ""),
    "plan no seeds": lambda: plan("a2c", "pendulum-v1", trace=None, steps=400, seeds=[]),
    "plan variant": lambda: plan(
        "a2c", "pendulum-v1", trace=None, steps=400, seeds=[0], variant="x" * 300
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, in which nothing appears."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


def test_there_are_many() -> None:
    assert len(MISUSES) > 150


@for_each("name", MISUSES)
def test_misuse(name: str) -> None:
    with bad_commands.watch(), pytest.raises(InputError) as caught:
        MISUSES[name]()
    assert len(str(caught.value)) > 10
    assert len(str(caught.value).splitlines()) == 1


ACCEPTED: dict[str, dict[str, Any]] = {
    "numpy steps": {"steps": np.int64(40)},
    "whole float steps": {"steps": 40.0},
    "numpy seed count": {"seeds": np.int32(2)},
    "numpy seeds": {"seeds": np.arange(2)},
    "a generator of seeds": {"seeds": (s for s in (3, 5))},
    "numpy config": {"config": {"gamma": np.float32(0.5), "rollout_length": np.int64(20),
                                "hidden": np.array([4])}},
    "numpy sweep": {"config": None, "sweep": {"gamma": np.array([0.5, 0.9]), "hidden": [(4,)],
                                              "rollout_length": [20]}},
    "numpy flags": {"resume": np.bool_(False)},
    "numpy workers": {"workers": np.int64(0), "checkpoint_seconds": np.float64(1.0)},
    "an object": {"env": PlainPendulum(num_bins=3)},
    "a path": {"out": Path("o")},
    "largest seed": {"seeds": [2**31 - 1]},
}  # fmt: skip


@for_each("name", ACCEPTED)
def test_what_stands_for_plain_values_is_taken(name: str) -> None:
    with bad_commands.watch(), pytest.raises(Accepted) as caught:
        train(**ACCEPTED[name])
    assert bad_commands.complaint([name], bad_commands.Outcome(None, caught.value.what, 0.0), "",
                                  may_pass=True) is None  # fmt: skip
    for job in caught.value.what["jobs"]:
        plain = (int, float, str, bool, list, type(None))
        assert all(type(v) in plain for v in (job.steps, job.seed, *job.config.values()))


def test_traces_may_be_paths(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("traces") / "mine.npy"
    np.save(file, np.zeros((100, 2), np.float32))
    with bad_commands.watch(), pytest.raises(Accepted) as caught:
        with_trace(file)
    assert caught.value.what["jobs"][0].trace_name == str(file)
    assert get(file).shape == (100, 2)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> lcpo.Policy:
    out = tmp_path_factory.mktemp("policy") / "o"
    train(out=out)
    return lcpo.load(out)


OBS: list[Any] = [None, "x", [], [1.0, 2.0], np.zeros((2, 2, 3)), [[1.0], [2.0, 3.0]], 3, {},
                  [NAN, 0.0, 0.0], ["a", "b", "c"], np.zeros(3, complex), NotOurs()]  # fmt: skip
KEYS: list[Any] = ["x", 1.5, [1], np.zeros(3), NotOurs(), jax.random.split(jax.random.key(0), 2)]


@for_each("i", range(len(OBS) + len(KEYS)))
def test_policies_refuse(i: int, policy: lcpo.Policy) -> None:
    obs, key = (OBS[i], None) if i < len(OBS) else (np.zeros(3), KEYS[i - len(OBS)])
    with pytest.raises(InputError) as caught:
        policy.act(obs, key)
    assert len(str(caught.value).splitlines()) == 1


@for_each("obs", OBS)
def test_sessions_and_probabilities_refuse(obs: Any, policy: lcpo.Policy) -> None:
    for call in (policy.session().act, policy.probabilities):
        with pytest.raises(InputError) as caught:
            call(obs)
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(InputError, match="True or False"):
        policy.act(np.zeros(3), deterministic=1)  # pyright: ignore

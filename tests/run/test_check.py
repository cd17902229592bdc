"""A user's agent or environment that breaks a rule is told which one, before any work."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from each import for_each

import lcpo
from lcpo import config as configs
from lcpo.agents import AGENTS, a2c
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.plan.check import RECORDED, RESERVED, RESERVED_STARTS, check_agent, check_env
from lcpo.study.report.export import export
from lcpo.types import Guard, Spec, Step

SPEC = Pendulum().spec


def broken_agents() -> dict[str, tuple[Any, str]]:
    agent = AGENTS["a2c"]

    def float_actions(config: Any, spec: Any, state: Any, obs: Any, key: Any) -> Any:
        return obs[:, :1], ()

    def forgets_extra(config: Any, spec: Any, state: Any, obs: Any, key: Any) -> Any:
        return a2c.agent.act(config, spec, state, obs, key)[0]

    def grows(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        state, metrics = a2c.update(config, spec, state, batch, key)
        return state._replace(running_return=jnp.zeros(3)), metrics

    def other_tree(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        return state._replace(entropy=()), {}

    def vector_metric(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        return state, {"loss": batch.reward}

    def no_dict(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        return state, [jnp.float32(0.0)]

    def with_metric(name: Any, value: Any = 0.0) -> Any:
        def update(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
            return state, {name: value}

        return dataclasses.replace(agent, update=update)

    def divides(config: Any, spec: Any, state: Any, batch: Any, key: Any) -> Any:
        return state, {"loss": 1 / 0}

    return {
        **{
            f"metric {name}": (with_metric(name), f"called '{name}', which is a column")
            for name in (
                "step",
                "epoch_return",
                "reward",
                "file",
                "allow_pickle",
                "agent",
                "seed",
                "tv_trap",
                "config.gamma",
                "x.npy",
            )
        },
        "metric without name": (with_metric(""), "called '': needs a name"),
        "metric number": (with_metric(3), "called 3: needs a name"),
        "metric complex": (with_metric("loss", 1j), "'loss' is complex64: needs a real number"),
        "raises": (
            dataclasses.replace(agent, update=divides),
            r"raised: ZeroDivisionError: division by zero \(.*test_check.py:\d+ in divides\)",
        ),
        "exits": (
            dataclasses.replace(agent, check=lambda config, spec: sys.exit(0)),
            "check\\(config, spec\\) raised: SystemExit",
        ),
        "actions": (dataclasses.replace(agent, act=float_actions), "needs integers"),
        "extra": (dataclasses.replace(agent, act=forgets_extra), "act -> \\(action, extra\\)"),
        "shape": (
            dataclasses.replace(agent, update=grows),
            "running_return from float32\\[1\\] to float32\\[3\\]",
        ),
        "tree": (dataclasses.replace(agent, update=other_tree), "structure"),
        "metric": (dataclasses.replace(agent, update=vector_metric), "metric 'loss' has shape"),
        "metrics": (dataclasses.replace(agent, update=no_dict), "needs a dict"),
        "init": (
            dataclasses.replace(agent, init=lambda config: None),
            "init\\(config, spec, key\\)",
        ),
    }


@for_each("name", broken_agents())
def test_broken_agents(name: str) -> None:
    agent, rule = broken_agents()[name]
    with pytest.raises(InputError, match=rule):
        check_agent(agent, agent.config(), SPEC)


def test_no_metric_can_have_the_name_of_a_column(tmp_path: Path) -> None:
    """All that a record and an exported table hold is reserved, but for the agent's own metrics."""
    metrics = {"td_error", "q_learning_rate", "value", "visited"}
    sweep = {"gamma": [0.5, 0.9]}
    results = lcpo.train(
        "tabular-q", "grid-world", steps=40, seeds=1, out=tmp_path / "o", sweep=sweep,
        config={"rollout_length": 20}, workers=0, progress=False,
    )  # fmt: skip
    export(tmp_path / "o", tmp_path / "t.csv")
    columns = set(results[0].record) | set(
        (tmp_path / "t.csv").read_text().split("\n")[0].split(",")
    )
    assert {"tv_trap", "config.gamma", *RECORDED} <= columns
    free = {c for c in columns if c not in RESERVED and not c.startswith(RESERVED_STARTS)}
    assert free == metrics


def test_a_config_without_a_rollout_length() -> None:
    @configs.config
    class Config:
        """Says nothing."""

        rollout_length: int = configs.static(0, "interactions per update")

    agent = dataclasses.replace(AGENTS["a2c"], Config=Config)
    with pytest.raises(InputError, match="static field rollout_length, from 1 on"):
        check_agent(agent, Config(), SPEC)


@pytest.mark.parametrize("size", ["rollout_length", "batch_size", "updates_per_rollout"])
def test_arrays_that_no_memory_holds(size: str) -> None:
    agent = AGENTS["ddqn"]
    config = configs.resolve(agent.config(**{size: 2**31 - 1}), 400)
    with pytest.raises(InputError, match=r"update makes an array of .* GiB"):
        check_agent(agent, config, SPEC)


@configs.config
class Env(Pendulum):
    """A Pendulum with one thing wrong."""

    fault: str = configs.static("", "what is wrong")

    @property
    def spec(self) -> Spec:
        wrong = {
            "readings": {"readings": ("heat", "noise")},
            "guard": {"guard": Guard(entry=0, action=(99,))},
        }
        return super().spec._replace(**wrong.get(self.fault, {}))

    def reset(self, key: Any) -> Any:
        state, obs = super().reset(key)
        return state, jnp.zeros(9) if self.fault == "whole obs" else obs

    def step(self, state: Any, action: Any, context: Any, key: Any) -> Any:
        if self.fault == "too many contexts":
            return super().step(state, action, context[jnp.array([0, 1])] + jnp.ones(5), key)
        after, step = super().step(state, action, context, key)
        if self.fault == "tuple":
            return after, tuple(step)
        if self.fault == "state":
            return after._replace(time=jnp.float32(0.0)), step
        wrong = {
            "obs": {"obs": jnp.zeros(4)},
            "reward": {"reward": jnp.zeros(1)},
            "flag": {"terminated": jnp.float32(0.0)},
            "action": {"action": jnp.zeros(3)},
            "readings": {"readings": jnp.zeros(1)},
        }
        return after, Step(**{**step._asdict(), **wrong.get(self.fault, {})})


RULES = {
    "whole obs": "less 6 context entries, which the driver appends",
    "too many contexts": "step\\(state, action, context, key\\) raised",
    "tuple": "step returns a tuple: needs lcpo.types.Step",
    "state": "time from int32",
    "obs": "step.obs has shape \\(4,\\): needs \\(3,\\)",
    "reward": "step.reward has shape \\(1,\\): needs a scalar",
    "flag": "step.terminated is float32: needs bool",
    "action": "step.action has shape \\(3,\\): needs \\(1,\\), or None",
    "readings": "step.readings has shape \\(1,\\): needs \\(2,\\), a number for each of .*heat",
    "guard": "spec.guard = Guard.*: needs lcpo.types.Guard, an entry of the observation",
}


@for_each("fault", RULES)
def test_broken_environments(fault: str) -> None:
    with pytest.raises(ValueError, match=RULES[fault]):
        check_env(Env(fault=fault))


@configs.config
class Boastful(GridWorld):
    """Promises a new row of the trace at every step, and moves on at the end of an episode."""

    @property
    def spec(self) -> Spec:
        return super().spec._replace(contiguous_contexts=True)


@configs.config
class Odd(Pendulum):
    """A Pendulum whose spec is odd."""

    field: str = configs.static("obs_size", "which entry is odd")

    @property
    def spec(self) -> Any:
        odd: dict[str, Any] = {"obs_size": 0, "num_worlds": -1, "num_actions": (1,), "context": 3}
        if self.field == "raises":
            raise KeyError("no spec today")
        if self.field == "actions":
            return super().spec._replace(num_actions=(10**9,))
        return super().spec._replace(**{self.field: odd[self.field]}) if self.field in odd else ()


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("obs_size", "spec.obs_size = 0: needs a whole number from 1 on"),
        ("num_worlds", "spec.num_worlds = -1"),
        ("num_actions", "needs a tuple with at least two actions"),
        ("context", "spec.context is a int"),
        ("actions", "at most 10,000 per dimension"),
        ("raises", "its spec or advance raised: KeyError: 'no spec today'"),
        ("other", "spec is a tuple: needs lcpo.types.Spec"),
    ],
)
def test_odd_specs(field: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        check_env(Odd(field=field))


def test_a_promise_that_is_not_kept() -> None:
    with pytest.raises(ValueError, match=r"contiguous_contexts promises .* advance = 'episode'"):
        check_env(Boastful())


def test_sound_ones_pass() -> None:
    check_env(Env())
    check_agent(AGENTS["a2c"], AGENTS["a2c"].config(), SPEC)


def test_config_errors_say_what_was_given_and_needed() -> None:
    for values, expected in {
        ("gamma", 1.5): "gamma = 1.5: needs at most 1.0",
        ("gamma", "high"): "needs a number",
        ("hidden", 64): "needs a list",
        ("rollout_length", 2.5): "needs a whole number",
        ("learning_rate", float("nan")): "finite",
        ("learning_rate", 1e39): "= 1e\\+39: needs a finite number, in float32",
        ("rollout_length", 10**12): "needs at most 2,147,483,647",
        ("scale_rewards", 1): "true or false",
        ("gama", 1.0): "did you mean 'gamma'",
    }.items():
        with pytest.raises(ValueError, match=expected):
            AGENTS["a2c"].config(**{values[0]: values[1]})


def test_sizes_are_resolved_from_the_steps() -> None:
    config = AGENTS["lcpo"].config()
    assert configs.resolve(config, 8_000_000).buffer_size == 80_000
    kept = dataclasses.replace(config, buffer_size=5)
    assert configs.resolve(kept, 8_000_000).buffer_size == 5

"""Small configs, random batches and compiled updates of agents, shared by tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from lcpo.agents import presets
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.testing import AgentCase, random_worlds
from lcpo.testing.agents import compiled_function
from lcpo.types import AnyAgent, ContextSlice, Spec, Transition

T = 16
"""Steps per rollout."""
SMALL = {
    "rollout_length": T,
    "hidden": (8, 8),
    "buffer_size": 40,  # a replay's ring closes at the third rollout
    "minibatches": 4,
    "batch_size": 128,
    "random_steps": 24,
    "epsilon_steps": 64,
    "chain_length": 4,
    "permanent_period": 32,
    "target_period": 24,
    "model_hidden": (8,),
    "ensemble_size": 2,
    "model_passes": 1,
    "model_batches": 2,
    "model_batch_size": 16,
    "min_steps": 16,
    "max_models": 3,
    "window": 3,
    "model_samples": 40,
}
SMALL_OF = {
    "pt-dqn": {"batch_size": 16, "updates_per_rollout": 8},
    "ideal-mbpo": {"model_samples": 256, "buffer_size": 256},
    "constant": {"action": 3},
    "hedge-hourly": {"schedule": (2, 8, 0), "num_windows": 24},
}
"""Of one agent: a pass over `permanent_period` transitions takes whole batches; the newest step is
among those that imagination starts from; rules for hedging need something to play."""
RULES = ("random", "constant", "hedge-p95", "hedge-cap", "hedge-table", "hedge-hourly")
"""Agents that learn nothing: neither rewards nor observations reach their states."""
READINGS = (
    "arrived", "hedged", "first_ms", "work_ms", "unsafe", "served", "service_ms", "slower_3",
    "slower_10", "slower_30", "slower_60", "slower_100", "slower_300", "slower_600", "slower_1000",
    "buckets", "p95", "p99", "p999",
)  # fmt: skip
"""Of the straggler task."""


HEDGING = Spec(6, ContextSlice(4, channels=2, lags=1), (9,), elements=(2, 2), readings=READINGS)
"""Readings as the straggler task has them."""


def spec_for(agent: AnyAgent) -> Spec:
    """The Pendulum's; the grid world's, for agents that need finite observations; that of rules."""
    if agent.root.name in RULES:
        return HEDGING
    return GridWorld().spec if agent.name.startswith("tabular") else Pendulum().spec


def faults_of(agent: AnyAgent) -> tuple[str, ...]:
    """Published faults that the agent can repeat."""
    fields = {f.name: f for f in dataclasses.fields(agent.Config)}
    return tuple(fields["faults"].metadata["choices"]) if "faults" in fields else ()


def small_config(agent: AnyAgent, **overrides: Any) -> Any:
    env = "grid-world" if agent.name.startswith("tabular") else "pendulum"
    fields = {f.name for f in dataclasses.fields(agent.Config)}
    small = {k: v for k, v in SMALL.items() if k in fields} | SMALL_OF.get(agent.root.name, {})
    return agent.config(**{**presets.settings(agent, env), **small, **overrides})


def case_of(agent: AnyAgent, **overrides: Any) -> AgentCase:
    """The agent, small, for contracts."""
    return AgentCase(agent, small_config(agent, **overrides), spec_for(agent))


def random_batch(spec: Spec, key: jax.Array, ends: bool = True) -> Transition:
    """Random interactions, T steps."""
    return random_worlds.random_batch(spec, key, T, ends)


def starter(agent: AnyAgent) -> Any:
    """The compiled `init`; variants of an agent share it."""
    return compiled_function(agent.init)


def updater(agent: AnyAgent) -> Any:
    """The compiled update; variants of an agent share it."""
    return compiled_function(agent.update)


def started(agent: AnyAgent, **overrides: Any) -> tuple[Any, Spec, Any]:
    """A config, a spec, and a state after two updates (so that buffers hold something)."""
    case = case_of(agent, **overrides)
    return case.config, case.spec, case.state


def assert_same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a: Any, b: Any, tolerance: float) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, tolerance, tolerance), a, b)

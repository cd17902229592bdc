"""Small configs, random batches and compiled updates of agents, shared by tests."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.agents import presets
from lcpo.config import config
from lcpo.envs.base import Advance
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.types import AnyAgent, Array, ContextSlice, Spec, Step, Transition

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


@config
class Hedging:
    """Readings as the straggler task has them, drawn at random, in an environment that compiles."""

    @property
    def spec(self) -> Spec:
        context = ContextSlice(4, channels=2, lags=1)
        return Spec(6, context, (9,), elements=(2, 2), readings=READINGS)

    @property
    def advance(self) -> Advance:
        return "step"

    def reset(self, key: Array) -> tuple[tuple, Array]:
        del key
        return (), jnp.zeros(4)

    def step(self, state: tuple, action: Array, context: Array, key: Array) -> tuple[tuple, Step]:
        del action, context
        no, readings = jnp.bool_(False), jax.random.uniform(key, (len(READINGS),))
        return state, Step(jnp.zeros(4), jnp.float32(0.0), no, no, readings=readings)


def env_for(agent: AnyAgent) -> Any:
    """The Pendulum; for agents that need finite observations the grid world; for rules theirs."""
    if agent.root.name in RULES:
        return Hedging()
    return GridWorld() if agent.name.startswith("tabular") else Pendulum()


def small_config(agent: AnyAgent, **overrides: Any) -> Any:
    env = "grid-world" if agent.name.startswith("tabular") else "pendulum"
    fields = {f.name for f in dataclasses.fields(agent.Config)}
    small = {k: v for k, v in SMALL.items() if k in fields} | SMALL_OF.get(agent.root.name, {})
    return agent.config(**{**presets.settings(agent, env), **small, **overrides})


@partial(jax.jit, static_argnums=(0, 2))
def random_batch(spec: Spec, key: jax.Array, ends: bool = True) -> Transition:
    """Random interactions, on the levels of the space where it is finite."""
    keys = jax.random.split(key, 6)
    shape = (T, spec.num_worlds)
    if spec.obs_levels is None:
        obs, next_obs = jax.random.normal(keys[0], (2, *shape, spec.obs_size))
    else:
        wanted = (2, *shape, spec.obs_size)
        levels = jnp.broadcast_to(jnp.array(spec.obs_levels), wanted)
        draw = jax.random.randint(keys[0], wanted, 0, levels)
        obs, next_obs = draw.astype(jnp.float32)
    action = jax.random.randint(keys[1], (*shape, spec.action_size), 0, min(spec.num_actions))
    terminated, truncated = jax.random.bernoulli(keys[2], 0.1 if ends else 0.0, (2, *shape))
    ones, reward = jnp.ones(shape), jax.random.normal(keys[3], shape)
    rest: Any = (terminated, truncated, ones, ones, ())
    if spec.readings:
        rest += (jax.random.uniform(keys[4], (*shape, len(spec.readings))),)
    return Transition(obs, action, reward, next_obs, *rest)


@cache
def _jitted(function: Any) -> Any:
    return jax.jit(function, static_argnums=1)


def starter(agent: AnyAgent) -> Any:
    """The compiled `init`; variants of an agent share it."""
    return _jitted(agent.init)


def updater(agent: AnyAgent) -> Any:
    """The compiled update; variants of an agent share it."""
    return _jitted(agent.update)


def started(agent: AnyAgent, **overrides: Any) -> tuple[Any, Spec, Any]:
    """A config, a spec, and a state after two updates (so that buffers hold something)."""
    config, spec = small_config(agent, **overrides), env_for(agent).spec
    config = jax.tree.map(jnp.float32, config)
    state = starter(agent)(config, spec, jax.random.key(0))
    for i in range(2):
        batch = random_batch(spec, jax.random.key(i))
        state, _ = updater(agent)(config, spec, state, batch, jax.random.key(i))
    return config, spec, state


def assert_same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a: Any, b: Any, tolerance: float) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, tolerance, tolerance), a, b)

"""A small agent with one thing wrong where a test says so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.config import config, static, traced
from lcpo.types import Agent, AnyAgent, Array, ContextSlice, Metrics, Spec, Transition

SPEC = Spec(3, ContextSlice(2, channels=1, lags=1), (2,))
_count = itertools.count()


@config
class Config:
    """Linear TD learning."""

    rollout_length: int = static(4, "interactions per update", low=1)
    learning_rate: float = traced(0.1, "learning rate", low=0.0)
    gamma: float = traced(0.9, "discount", low=0.0, high=1.0)


@config
class NoLength:
    """Without the field that drivers need."""

    learning_rate: float = traced(0.1, "learning rate", low=0.0)
    gamma: float = traced(0.9, "discount", low=0.0, high=1.0)


@config
class NoJson(Config):
    """With a field that JSON does not have."""

    phase: complex = static(1j, "of something")


class State(NamedTuple):
    weights: Array  # [D]
    updates: Array
    memory: Array  # large, in earnest


@jax.custom_batching.custom_vmap
def doubled(x: Array) -> Array:
    return 2.0 * x


@doubled.def_vmap
def _tripled(axis_size: int, in_batched: Any, x: Array) -> tuple[Array, bool]:
    return 3.0 * x, True


def make(fault: str = "") -> AnyAgent:
    """The agent; its functions are new each time, because compiled ones are kept."""

    def init(config: Config, spec: Spec, key: Array) -> State:
        weights = 0.1 * jax.random.normal(key, (spec.obs_size,))
        return State(weights, jnp.float32(0.0), jnp.zeros(16))

    def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, Any]:
        chosen = spec.actions.random(jax.nn.sigmoid(obs @ state.weights)[:, None])
        if fault == "real actions":
            return chosen.astype(jnp.float32), ()
        if fault == "no such action":
            return chosen + 2, ()
        if fault == "acts with memory":
            return chosen + (state.memory[:1, None] > 9.0).astype(jnp.int32), ()
        return chosen, {"value": obs @ state.weights} if fault == "" else ()

    def update(
        config: Config, spec: Spec, state: State, batch: Transition, key: Array
    ) -> tuple[State, Metrics]:
        follows = ~batch.terminated
        if fault == "terminated bootstraps":
            follows = jnp.ones_like(follows)
        if fault == "truncated ends":
            follows = follows & ~batch.truncated
        future = config.gamma * follows.astype(jnp.float32) * (batch.next_obs @ state.weights)
        error = batch.reward + future - batch.obs @ state.weights
        step = config.learning_rate * jnp.mean(error[..., None] * batch.obs, axis=(0, 1))
        step = WRONG_STEPS.get(fault, lambda x: x)(step)
        updates = 1.0 if fault == "weak type" else state.updates + 1.0
        weights = state.weights.astype(jnp.float16) if fault == "dtype" else state.weights + step
        metrics = {"error": error if fault == "metric" else jnp.mean(error)}
        if fault == "nan":
            metrics["odds"] = jnp.log(-jnp.abs(metrics["error"]))
        memory = state.memory.at[0].set(batch.reward[0, 0])
        if fault == "copied memory":
            memory = jnp.where(batch.reward[0, 0] > 0.0, state.memory[::-1], memory)
        return State(weights, updates, memory), metrics  # pyright: ignore

    configs = {"no length": NoLength, "no json": NoJson}
    return Agent(fault or "sound", configs.get(fault, Config), init, act, update)


WRONG_STEPS: dict[str, Callable[[Array], Array]] = {
    "numpy's numbers": lambda x: x * np.float32(np.random.default_rng().uniform()),
    "counter": lambda x: x * float(next(_count)),
    "callback": lambda x: x * jax.pure_callback(lambda: np.float32(next(_count)), x[0]),
    "vmap": doubled,
}
"""What becomes of a step."""

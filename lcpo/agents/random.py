"""Uniformly random actions, always: what anything that learns must beat.

Each dimension's actions have the same probability, whatever is observed. Nothing is learnt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config:
    """Random actions, always."""

    rollout_length: int = static(200, "interactions per update, which changes nothing", low=1)


class State(NamedTuple):
    """Nothing is remembered."""


def init(config: Any, spec: Spec, key: Array) -> State:
    """Nothing."""
    del config, spec, key
    return State()


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Each dimension's actions with equal probability."""
    del config, state
    uniform = jax.random.uniform(key, (obs.shape[0], spec.action_size))
    return spec.actions.random(uniform), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learns nothing."""
    del config, spec, batch, key
    return state, {}


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """The same for each action of a dimension, [N, A, K]."""
    del config, state
    equal = jax.nn.softmax(spec.discrete.equal())
    return jnp.broadcast_to(equal, (obs.shape[0], *equal.shape))


agent = Agent("random", Config, init, act, update, probabilities=probabilities, raw=True)

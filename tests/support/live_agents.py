"""Agents for tests of live learners: SEES keeps its last batch, FRAGILE breaks."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static, traced
from lcpo.types import Agent, ContextSlice, Spec, Transition


@config
class Config:
    rollout_length: int = static(4, "steps per update", low=1)
    broken: float = traced(0.0, "what is reported")
    gamma: float = traced(0.5, "discount of the running return")


class State(NamedTuple):
    batch: Transition
    updates: Any


def init(config: Config, spec: Spec, key: Any) -> State:
    each = config.rollout_length, spec.num_worlds
    obs, scalar, flag = jnp.zeros((*each, spec.obs_size)), jnp.zeros(each), jnp.zeros(each, bool)
    action = jnp.zeros((*each, spec.action_size), jnp.int32)
    rest = (flag, flag, scalar, scalar, jnp.zeros((*each, 1)), (), scalar)
    return State(Transition(obs, action, scalar, obs, *rest), jnp.int32(0))


def act(config: Config, spec: Spec, state: State, obs: Any, key: Any) -> Any:
    action = jax.random.randint(key, (obs.shape[0], spec.action_size), 0, 3) + state.updates * 0
    return action, 2.0 * obs[:, :1]


def update(config: Config, spec: Spec, state: State, batch: Transition, key: Any) -> Any:
    if isinstance(batch.running, tuple):
        batch = batch._replace(running=jnp.zeros_like(batch.reward))
    return State(batch, state.updates + 1), {"broken": 1.0 / (1.0 - config.broken)}


SEES = Agent("sees", Config, init, act, update)


def act_of_fragile(config: Config, spec: Spec, state: Any, obs: Any, key: Any) -> Any:
    return jax.random.randint(key, (obs.shape[0], spec.action_size), 0, 3), ()


class Total(NamedTuple):
    total: Any


def refuse(total: Any) -> Any:
    if total > 600.0:
        raise RuntimeError("the disk of the user's is full")
    return total


def add(config: Config, spec: Spec, state: Total, batch: Transition, key: Any) -> Any:
    """A reward of 1e6 breaks a metric, one of -1e6 the state, one of 666 the process."""
    total, most = jnp.sum(batch.reward), jnp.max(batch.reward)
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    asked = jax.pure_callback(refuse, shape, jnp.where(most == 666.0, total, 0.0))
    total = state.total + total + 0.0 * asked
    spoilt = jnp.where(jnp.min(batch.reward) < -1e5, jnp.inf, total)
    return Total(spoilt), {"broken": jnp.where(most > 1e5, jnp.inf, most)}


FRAGILE = Agent("fragile", Config, lambda *_: Total(jnp.float32(0.0)), act_of_fragile, add)
SPEC = Spec(1 + 4, ContextSlice(start=1, channels=2, lags=2), (3,), num_worlds=2)
ONE = SPEC._replace(num_worlds=1)

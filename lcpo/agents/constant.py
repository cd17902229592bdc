"""Baselines that do not learn: one action, always ("constant"), or random actions ("random").

The constant action is a traced field, so that all actions and all seeds are one compiled program.
"constant:2" is an agent, too, and so is "constant:1,0" if actions have two dimensions
(`of_action`).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static, traced
from lcpo.errors import InputError
from lcpo.types import Agent, AnyAgent, Array, Metrics, Spec, Transition


@config
class RandomConfig:
    """Random actions, always."""

    rollout_length: int = static(200, "interactions per update; has no effect on actions", low=1)


@config
class Config(RandomConfig):
    """One action, always."""

    action: float = traced(-1.0, "index of the action, in every dimension; -1: unset", low=-1.0)
    actions: tuple[int, ...] = static(
        (), "index of the action in each dimension, if they differ", low=0
    )


class State(NamedTuple):
    """Nothing is remembered."""


def init(config: Any, spec: Spec, key: Array) -> State:
    """An empty state."""
    del config, spec, key
    return State()


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The same action for every observation."""
    del state, key
    return jnp.broadcast_to(_index(config), (obs.shape[0], spec.action_size)), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Reports the action."""
    del spec, batch, key
    return state, {"action": _index(config)[0].astype(jnp.float32)}


def _index(config: Config) -> Array:
    """[A], or [1] if all dimensions have the same."""
    if config.actions:
        return jnp.array(config.actions, jnp.int32)
    return jnp.asarray(config.action).astype(jnp.int32)[None]


def check(config: Config, spec: Spec) -> None:
    """The action must be chosen, and exist."""
    counts, given = spec.discrete.counts, config.actions
    if not given:
        action, last = float(config.action), min(counts) - 1
        if action == -1.0:
            raise InputError(f"no action is chosen: give its index as action, from 0 to {last}")
        if action not in range(last + 1):
            raise InputError(f"action = {action:g} does not exist: needs a number from 0 to {last}")
        return
    name = PREFIX + ",".join(map(str, given))
    if len(given) != len(counts):
        raise InputError(
            f"{name} has {len(given)} numbers: needs {len(counts)}, one for each dimension of the "
            "action"
        )
    if any(action >= count for action, count in zip(given, counts, strict=True)):
        lasts = ",".join(str(count - 1) for count in counts)
        raise InputError(f"{name} does not exist: needs numbers from 0 to {lasts}")


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """1 for the action, [N, A, K]."""
    action, _ = act(config, spec, state, obs, jax.random.key(0))
    return jax.nn.one_hot(action, max(spec.discrete.counts))


def random_act(
    config: RandomConfig, spec: Spec, state: State, obs: Array, key: Array
) -> tuple[Array, tuple]:
    """Each dimension's actions with equal probability."""
    del config, state
    uniform = jax.random.uniform(key, (obs.shape[0], spec.action_size))
    return spec.actions.random(uniform), ()


def random_update(
    config: RandomConfig, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Reports nothing."""
    del config, spec, batch, key
    return state, {}


def random_probabilities(config: RandomConfig, spec: Spec, state: State, obs: Array) -> Array:
    """The same for each action of a dimension, [N, A, K]."""
    del config, state
    equal = jax.nn.softmax(spec.discrete.equal())
    return jnp.broadcast_to(equal, (obs.shape[0], *equal.shape))


agent = Agent(
    "constant", Config, init, act, update, check=check, probabilities=probabilities, raw=True
)
random = Agent(
    "random", RandomConfig, init, random_act, random_update, probabilities=random_probabilities,
    raw=True,
)  # fmt: skip

PREFIX = "constant:"


def is_action(name: object) -> bool:
    """Whether a name means one action, as in "constant:2". (A user's module may be constant.py.)"""
    if not isinstance(name, str) or not name.startswith(PREFIX):
        return False
    parts = name.removeprefix(PREFIX).split(",")
    return all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)


@functools.cache
def of_action(name: str) -> AnyAgent:
    """The agent "constant:2", or "constant:1,0" with an action for each dimension."""
    actions = [int(part) for part in name.removeprefix(PREFIX).split(",")]
    if len(actions) == 1:
        return agent.variant(name, action=float(actions[0]))
    return agent.variant(name, actions=tuple(actions))

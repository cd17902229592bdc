"""One action, always: what a policy that adapts must beat.

The action is a traced field, so that all actions and all seeds are one compiled program. Nothing is
learnt. "constant:2" is an agent, too, and so is "constant:1,0" where actions have two dimensions
(`of_action`).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from lcpo.agents.random import State, init
from lcpo.config import config, static, traced
from lcpo.errors import InputError
from lcpo.types import Agent, AnyAgent, Array, Metrics, Spec, Transition


@config
class Config:
    """One action, always."""

    rollout_length: int = static(200, "interactions per update, which changes nothing", low=1)
    action: float = traced(
        -1.0, "number of the action, the same in every dimension; -1: not chosen", low=-1.0
    )
    actions: tuple[int, ...] = static(
        (), "the action of each dimension, where they differ; empty: `action`", low=0
    )


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The same for every observation."""
    del state, key
    return jnp.broadcast_to(_index(config), (obs.shape[0], spec.action_size)), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learns nothing; tells which action it is."""
    del spec, batch, key
    return state, {"action": _index(config)[0].astype(jnp.float32)}


def _index(config: Config) -> Array:
    """[A], or [1] where all dimensions have the same."""
    if config.actions:
        return jnp.array(config.actions, jnp.int32)
    return jnp.asarray(config.action).astype(jnp.int32)[None]


def check(config: Config, spec: Spec) -> None:
    """The action must be chosen, and exist."""
    counts = spec.discrete.counts
    if config.actions:
        _check_each(config.actions, counts)
        return
    action, last = float(config.action), min(counts) - 1
    if action == -1.0:
        raise InputError(f"no action is chosen: give its number as action, from 0 to {last}")
    if action not in range(last + 1):
        raise InputError(f"action = {action:g} does not exist: needs a number from 0 to {last}")


def _check_each(actions: tuple[int, ...], counts: tuple[int, ...]) -> None:
    given = ",".join(map(str, actions))
    if len(actions) != len(counts):
        raise InputError(
            f"constant:{given} has {len(actions)} numbers: needs {len(counts)}, one for each "
            "dimension of the action"
        )
    if any(action >= count for action, count in zip(actions, counts, strict=True)):
        lasts = ",".join(str(count - 1) for count in counts)
        raise InputError(f"constant:{given} does not exist: needs numbers from 0 to {lasts}")


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """1 for the action, [N, A, K]."""
    action, _ = act(config, spec, state, obs, jax.random.key(0))
    return jax.nn.one_hot(action, max(spec.discrete.counts))


agent = Agent(
    "constant", Config, init, act, update, check=check, probabilities=probabilities, raw=True
)

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

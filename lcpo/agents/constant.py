"""One action, always: what a policy that adapts must beat.

The action is a traced field, so that all actions and all seeds are one compiled program. Nothing is
learnt. On the straggler task an action is a timeout: `HEDGES` names each (docs/agents/hedging.md).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

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


class State(NamedTuple):
    """Nothing is remembered."""


def init(config: Config, spec: Spec, key: Array) -> State:
    """Nothing."""
    del config, spec, key
    return State()


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The same for every observation."""
    del state, key
    return jnp.full((obs.shape[0], spec.action_size), _index(config)), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learns nothing; tells which action it is."""
    del spec, batch, key
    return state, {"action": _index(config).astype(jnp.float32)}


def _index(config: Config) -> Array:
    return jnp.asarray(config.action).astype(jnp.int32)


def check(config: Config, spec: Spec) -> None:
    """The action must be chosen, and exist."""
    action, last = float(config.action), min(spec.num_actions) - 1
    if action == -1.0:
        raise InputError(f"no action is chosen: give its number as action, from 0 to {last}")
    if action not in range(last + 1):
        raise InputError(f"action = {action:g} does not exist: needs a number from 0 to {last}")


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """1 for the action, [N, A, K]."""
    action, _ = act(config, spec, state, obs, jax.random.key(0))
    return jax.nn.one_hot(action, max(spec.num_actions))


agent = Agent("constant", Config, init, act, update, check=check, probabilities=probabilities)


def check_hedges(config: Any, spec: Spec) -> None:
    """Rules for hedging are for environments that hedge."""
    del config
    if "hedged" not in spec.readings:
        raise InputError(
            "a rule for hedging requests needs the straggler task: this environment does not read "
            "how many were hedged (spec.readings)"
        )


def _hedge(name: str, action: int) -> AnyAgent:
    def check_timeout(config: Config, spec: Spec) -> None:
        check_hedges(config, spec)
        check(config, spec)

    return dataclasses.replace(agent.variant(name, action=action), check=check_timeout)


HEDGES: tuple[AnyAgent, ...] = (
    _hedge("never-hedge", 8),
    *(_hedge(f"hedge-{ms}ms", i) for i, ms in enumerate((3, 10, 30, 60, 100, 300, 600, 1000))),
)
"""The actions of the straggler task, each under its name."""

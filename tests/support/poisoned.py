"""A probe that can be learnt in a minute, in which one number of a run is poison."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static, traced
from lcpo.core import pendulum
from lcpo.envs.base import Advance
from lcpo.types import Agent, Array, Spec, Step, Transition

NAN, INF = -1.0, -2.0
"""A config holds finite numbers only: these values stand for what they are called."""


class State(NamedTuple):
    time: Array
    side: Array


@config
class Poisoned:
    """Pays 1 for the action of the side that is shown, else -1; sizes are those of the Pendulum.

    What differs between two runs is traced: all poisons of an agent are one program.
    """

    in_reward: float = traced(0.0, "1: the poison is a reward")
    in_obs: float = traced(0.0, "1: it is an entry of the observation")
    value: float = traced(0.0, "the poison; NAN and INF stand for those")
    at: float = traced(-1.0, "the step that it comes at")
    levels: bool = static(False, "observations are finite, for tables")

    @property
    def advance(self) -> Advance:
        return "step"

    @property
    def spec(self) -> Spec:
        spec = pendulum.make_spec(2)
        return spec._replace(obs_levels=(2,) * spec.obs_size) if self.levels else spec

    def reset(self, key: Array) -> tuple[State, Array]:
        side = jax.random.bernoulli(key).astype(jnp.float32)
        return State(jnp.float32(0.0), side), _show(side, side)

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        del context
        value = jnp.where(self.value == NAN, jnp.nan, self.value)
        value = jnp.where(self.value == INF, jnp.inf, value)
        now = state.time == self.at
        right = action[0].astype(jnp.float32) == state.side
        reward = jnp.where(right, 1.0, -1.0)
        reward = jnp.where(now & (self.in_reward > 0.0), value, reward)
        side = jax.random.bernoulli(key).astype(jnp.float32)
        shown = _show(side, jnp.where(now & (self.in_obs > 0.0), value, side))
        no = jnp.bool_(False)
        return State(state.time + 1.0, side), Step(shown, reward, no, no)


def _show(side: Array, again: Array) -> Array:
    return jnp.stack([side, 1.0 - side, again])


@config
class SilentConfig:
    """Of an agent whose metrics are finite whatever happens."""

    rollout_length: int = static(16, "steps per update", low=1)


class Level(NamedTuple):
    """What it has learnt."""

    level: Array


def _update(
    config: SilentConfig, spec: Spec, state: Level, batch: Transition, key: Array
) -> tuple[Level, dict[str, Array]]:
    """The tenth update is one too many."""
    del config, spec, batch, key
    return Level(state.level * 1e4), {"fine": jnp.float32(1.0)}


def _act(
    config: SilentConfig, spec: Spec, state: Level, obs: Array, key: Array
) -> tuple[Array, tuple]:
    del config, state, key
    return jnp.zeros((obs.shape[0], spec.action_size), jnp.int32), ()


silent = Agent("silent", SilentConfig, lambda *_: Level(jnp.float32(1.0)), _act, _update)

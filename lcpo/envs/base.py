"""The compiled-environment protocol, and the one place that assembles observations and resets.

An environment is a frozen config (`lcpo.config.config`) with three members. It knows one world,
no batch axis, no auto-reset, and not where its context comes from:

    spec                                   what an agent may know of it
    reset(key) -> (state, obs)             a fresh episode
    step(state, action, context, key) -> (state, Step)

`obs` here means the environment's own features. An external context [channels] is an argument of
`step`; its history is appended to the features by `observe`, newest value first, channel by
channel. An environment that makes its own context declares `advance = "own"` and writes the
entries itself. It may also have `landmarks`, a dict of `Landmark`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from lcpo.types import Array, Spec, Step

Advance = Literal["step", "episode", "own"]
"""What moves the trace on by one row: every step, or every episode. "own": there is no trace."""


class Env(Protocol):
    """A compiled environment: pure functions of one world."""

    @property
    def spec(self) -> Spec: ...

    @property
    def advance(self) -> Advance: ...

    def reset(self, key: Array) -> tuple[Any, Array]: ...

    def step(self, state: Any, action: Array, context: Array, key: Array) -> tuple[Any, Step]: ...


class Landmark(NamedTuple):
    """A state whose best action is known: runs record how far the policy is from it."""

    obs: tuple[float, ...]
    action: tuple[int, ...]


def entries(history: Array) -> Array:
    """A history [lags, channels], newest row first, as it stands in an observation."""
    return history.T.reshape(-1)


def observe(features: Array, history: Array) -> Array:
    """Observation of one world: features, then the entries of the history."""
    return jnp.concatenate([features, entries(history).astype(features.dtype)])


def select(mask: Array, if_true: Any, if_false: Any) -> Any:
    """Per world: `if_true` where `mask` [N], else `if_false`; leaves [N, ...]."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(pick, if_true, if_false)

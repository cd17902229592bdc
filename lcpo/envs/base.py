"""The environment protocols, compiled and host, and the one place that puts observations together.

An environment is a frozen config (`lcpo.config.config`) with three members. It knows one world,
no batch axis, no auto-reset, and not where its context comes from:

    spec                                   what an agent may know of it
    reset(key) -> (state, obs)             a fresh episode
    step(state, action, context, key) -> (state, Step)

`obs` here means the environment's own features. An external context [channels] is an argument of
`step`; its history is appended to the features by `observe`, newest value first, channel by
channel. An environment that makes its own context declares `advance = "own"` and writes the
entries itself. It may also have `landmarks`, a dict of `Landmark`.

A *host* environment (a simulator outside XLA) is the same frozen config with `spec` and `advance`,
but in place of `reset` and `step` it has `open`, which makes N worlds that step together in NumPy:

    worlds = env.open(num_worlds, seeds)
    features = worlds.reset(mask)          # fresh episodes where mask [N] is set
    step = worlds.step(action, context)    # never resets
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

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


class HostEnv(Protocol):
    """A host environment, told from a compiled one by its `open`."""

    @property
    def spec(self) -> Spec: ...

    @property
    def advance(self) -> Advance: ...

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> HostWorlds:
        """Make `num_worlds` worlds, world i with its own random stream from seeds[i].

        What a world does depends on its seed and inputs alone, not on the worlds beside it.
        `threads`: how many the simulator may use; None: one per core.
        """
        ...


class HostWorlds(Protocol):
    """N worlds that step together. They know no context history: the driver appends it."""

    def reset(self, mask: np.ndarray) -> np.ndarray:
        """Begin an episode where `mask` [N] is set; features [N, F] float32 of all worlds."""
        ...

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """One step with actions [N, A] int, contexts [N, channels]: arrays [N, ...]. No resets."""
        ...

    def get_state(self) -> dict[str, np.ndarray] | None:
        """Copies of all that is needed to continue exactly, leaves [N, ...]; None: cannot."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in these worlds or in others of the same env."""
        ...

    def close(self) -> None:
        """Free what the simulator holds; the worlds are of no use afterwards."""
        ...


class WorldError(RuntimeError):
    """A world of a host environment cannot go on; `worlds` has its cause, by the world's index."""

    def __init__(self, worlds: Mapping[int, str]) -> None:
        self.worlds = dict(worlds)
        super().__init__("; ".join(f"world {i}: {cause}" for i, cause in self.worlds.items()))


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


def context_history(trace: np.ndarray, cursor: np.ndarray, lags: int) -> np.ndarray:
    """What the history adds to observations at rows `cursor` [N] of a trace: [N, channels * lags].

    Before row 0 the history repeats row 0; after the last row the trace starts again.
    """
    rows = np.maximum(cursor[:, None] - np.arange(lags), 0) % len(trace)
    return trace[rows].swapaxes(1, 2).reshape(len(cursor), -1)


def select(mask: Array, if_true: Any, if_false: Any) -> Any:
    """Per world: `if_true` where `mask` [N], else `if_false`; leaves [N, ...]."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(pick, if_true, if_false)

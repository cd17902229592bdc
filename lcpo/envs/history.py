"""The context history of one stream, for callers that give features and context themselves.

Drivers read histories off a trace. Callers without a trace - a user's own loop, a policy at work -
give the current context, and the history is kept here, by the same rules: it begins with the first
context, repeated; it moves on with every step, or with every episode; a reset takes no time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo import values
from lcpo.envs.base import Advance, first_history, push_context, replace_context
from lcpo.errors import InputError
from lcpo.types import Spec

Seen = tuple[np.ndarray, np.ndarray | None]
"""Features and context, or a whole observation and None."""


class ContextHistory(NamedTuple):
    """Puts observations together: features, and the newest `lags` values of each channel.

    A value and a pytree, of `entries` and `moved`: what changes it returns another one.
    """

    spec: Spec
    advance: Advance = "step"
    """What moves the history on. Contexts of an environment's own move by step."""
    entries: np.ndarray | None = None
    """[channels * lags]; None before the first context."""
    moved: bool = False
    """Whether time has passed since the newest context was seen."""

    def read(self, obs: Any, context: Any = None, what: str = "obs") -> Seen:
        """What a user gives, checked; InputError where its sizes do not fit the spec."""
        spec = self.spec
        found = values.reals(what, obs)
        if context is None:
            if found.shape == (spec.obs_size,):
                return found, None
            more = f", or [{spec.obs_size - spec.context.size}] and a context"
            hint = more if spec.context.size else ""
            raise InputError(f"{what} has shape {list(found.shape)}: needs [{spec.obs_size}]{hint}")
        given = np.atleast_1d(values.reals("context", context))
        channels, features = spec.context.channels, spec.obs_size - spec.context.size
        if not spec.context.size:
            raise InputError("a context is given, but the spec has none: put it into the obs")
        if given.shape != (channels,):
            raise InputError(f"context has shape {list(given.shape)}: needs [{channels}]")
        if found.shape != (features,):
            raise InputError(
                f"{what} has shape {list(found.shape)}: needs the {features} features that are no "
                "context, for a context is given beside them"
            )
        return found, given

    def join(self, seen: Seen) -> tuple[np.ndarray, ContextHistory]:
        """The observation [D] of what `read` returned, and the history that ends with it."""
        obs, context = seen
        place = self.spec.context
        if context is None:
            obs = obs.copy()  # the user's own array may be used again
            return obs, self.at(obs[place.start : place.end], False)
        if self.entries is None:
            entries = first_history(context, place.lags)
        else:
            move = push_context if self.moved else replace_context
            entries = move(self.entries, context)
        whole = np.concatenate([obs[: place.start], entries, obs[place.start :]])
        return whole, self.at(entries, False)

    def pass_step(self) -> ContextHistory:
        """After a step: the next context is a new one."""
        return self.at(self.entries, self.moved or self.advance != "episode")

    def end_episode(self) -> ContextHistory:
        """In another episode. Where the context moves by step, a reset takes no time."""
        return self.at(self.entries, self.moved or self.advance == "episode")

    def at(self, entries: np.ndarray | None, moved: bool) -> ContextHistory:
        """The history of the same stream at another moment."""
        return ContextHistory(self.spec, self.advance, entries, moved)


def _flatten(history: ContextHistory) -> tuple[Any, Any]:
    entries, moved = map(jax.tree_util.GetAttrKey, ("entries", "moved"))
    return ((entries, history.entries), (moved, history.moved)), history[:2]


jax.tree_util.register_pytree_with_keys(
    ContextHistory, _flatten, lambda rest, parts: ContextHistory(*rest, *parts)
)

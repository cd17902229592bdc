"""The context history of one stream, for those who give features and context by themselves.

Drivers read histories off a trace. Who has no trace - a loop of a user's own, a policy at work -
gives the context of now, and the history is kept here, by the same rules: it begins with the first
context, repeated; it moves on with every step, or with every episode; a reset takes no time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lcpo import values
from lcpo.envs.base import Advance, first_history, push_context, replace_context
from lcpo.errors import InputError
from lcpo.types import Spec

Seen = tuple[np.ndarray, np.ndarray | None]
"""Features and context, or a whole observation and None."""


class ContextHistory:
    """Puts observations together: features, and the newest `lags` values of each channel."""

    def __init__(self, spec: Spec, advance: Advance = "step") -> None:
        """`advance`: what moves the history on. Contexts of an environment's own move by step."""
        self.spec, self.by_episode = spec, advance == "episode"
        self.entries: np.ndarray | None = None
        """[channels * lags]; None before the first context."""
        self.moved = False
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

    def join(self, seen: Seen) -> np.ndarray:
        """The observation [D] of what `read` returned, which is now the newest."""
        obs, context = seen
        place = self.spec.context
        if context is None:
            self.entries, self.moved = obs[place.start : place.end].copy(), False
            return obs
        if self.entries is None:
            self.entries = first_history(context, place.lags)
        else:
            move = push_context if self.moved else replace_context
            self.entries = move(self.entries, context)
        self.moved = False
        return np.concatenate([obs[: place.start], self.entries, obs[place.start :]])

    def pass_step(self) -> None:
        """A step is taken: the next context is a new one."""
        self.moved = self.moved or not self.by_episode

    def end_episode(self) -> None:
        """Another episode begins. Where the context moves by step, that takes no time."""
        self.moved = self.moved or self.by_episode

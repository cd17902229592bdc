"""The context history of one stream, for callers that have no trace.

Drivers read histories off a trace. A user's own loop, a policy in use and Gymnasium's environments
give the current context, and the history follows the same rules: it begins with the first context,
repeated; it advances with every step, or with every episode; a reset does not advance it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.errors import InputError

if TYPE_CHECKING:
    from lcpo.types import Spec

Seen = tuple[np.ndarray, np.ndarray | None]  # features and context, or a whole observation and None


def extend(history: np.ndarray | None, context: np.ndarray, lags: int, moved: bool) -> np.ndarray:
    """The history [channels * lags] after another context [channels] has been seen.

    `moved`: time has passed since the newest one; otherwise the context replaces that. Without a
    history, the context is repeated.
    """
    if history is None:
        return np.repeat(context, lags)
    by_channel = history.reshape(len(context), lags)
    kept = by_channel[:, :-1] if moved else by_channel[:, 1:]
    return np.concatenate([context[:, None], kept], axis=1).reshape(-1)


class ContextHistory(NamedTuple):
    """Assembles observations from features and the newest `lags` values of each channel.

    Immutable: methods return a new history. `lcpo.live` treats `entries` and `moved` as a pytree.
    """

    spec: Spec
    advance: str = "step"
    """What advances the history. An environment's own contexts advance by step."""
    entries: np.ndarray | None = None  # [channels * lags]; None before the first context
    moved: bool = False  # whether time has passed since the newest context was seen

    def read(self, obs: Any, context: Any = None, what: str = "obs") -> Seen:
        """A user's values, checked; InputError if their sizes do not match the spec."""
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
                f"{what} has shape {list(found.shape)}: needs the {features} features only, "
                "because a context is given separately"
            )
        return found, given

    def join(self, seen: Seen) -> tuple[np.ndarray, ContextHistory]:
        """The observation [D] of what `read` returned, and the history that ends with it."""
        obs, context = seen
        place = self.spec.context
        if context is None:
            obs = obs.copy()  # the user's own array may be used again
            return obs, ContextHistory(*self[:2], obs[place.start : place.end])
        entries = extend(self.entries, context, place.lags, self.moved)
        whole = np.concatenate([obs[: place.start], entries, obs[place.start :]])
        return whole, ContextHistory(*self[:2], entries)  # `_replace` takes far longer

    def pass_step(self) -> ContextHistory:
        """After a step: the next context is a new one."""
        return ContextHistory(*self[:3], self.moved or self.advance != "episode")

    def end_episode(self) -> ContextHistory:
        """In another episode. Where the context advances by step, a reset does not count."""
        return self._replace(moved=self.moved or self.advance == "episode")


class Session:
    """A policy in one stream: give it features and context, it remembers the newest contexts.

    A context is in the units of training: a row of the trace times `policy.about.scale`.
    """

    def __init__(self, policy: Any) -> None:
        """`policy`: of `lcpo.load` or `lcpo.acting.load`."""
        self.policy = policy
        by_episode = policy.about.advance == "episode"
        self.history = ContextHistory(policy.spec, "episode" if by_episode else "step")

    def act(
        self, obs: Any, context: Any = None, key: Any = None, deterministic: bool = False
    ) -> Any:
        """An action as the environment takes it (`Policy.decode`), for one step.

        `obs`: the features [F], and `context` [channels]; or whole observations [D], without.
        """
        whole, seen = self.history.join(self.history.read(obs, context))
        self.history = seen.pass_step()
        return self.policy.decode(self.policy.act(whole, key, deterministic))

    def reset(self) -> None:
        """Begin another episode; the context continues."""
        self.history = self.history.end_episode()

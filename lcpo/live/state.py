"""`LearnerState`: all that changes in a live learner, as one value.

It is a pytree of immutable parts, so that a state can be kept, compared, hashed, saved, and gone
back to. `lcpo.live.loop` has the functions that lead from one state to the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lcpo.envs.history import ContextHistory
from lcpo.run.store.checkpoint import flatten
from lcpo.types import Tree


class Experience(NamedTuple):
    """One step of a stream: `act` begins it, `observe` and the successor complete it."""

    obs: np.ndarray
    action: np.ndarray
    extra: tuple[np.ndarray, ...]
    """Leaves of what the agent's `act` gave beside the action."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    elapsed: float = 0.0
    weight: float = 0.0
    readings: np.ndarray | None = None
    next_obs: np.ndarray | None = None


class Stream(NamedTuple):
    """A world of the user's, between two calls."""

    column: int
    """Its place among the worlds of a rollout."""
    history: ContextHistory
    steps: tuple[Experience, ...] = ()
    """Of the rollout that is being filled."""
    under_way: Experience | None = None
    """The step that is not complete; None where there is none, or it will not be learnt from."""
    acted: bool = False
    """An action is out; its reward has not come."""
    open: bool = False
    """The reward has come; the successor has not."""
    skipped: int = 0
    """Steps since its part of the rollout was full, while it waited for other streams."""

    # Built by position, as in all that every call of `act` does: `_replace` takes far longer.

    def begin_step(self, step: Experience, is_full: bool) -> Stream:
        """An action is out; where the stream's part is full, the step is not learnt from."""
        history, steps = self.history.pass_step(), self.steps
        if not is_full:
            return Stream(self.column, history, steps, step, True, False, self.skipped)
        # The next part begins somewhere else: no return may run on from here to there.
        cut = steps[-1]._replace(truncated=steps[-1].truncated or not steps[-1].terminated)
        return Stream(self.column, history, (*steps[:-1], cut), None, True, False, self.skipped + 1)

    def complete_step(self, successor: np.ndarray, history: ContextHistory) -> Stream:
        """The step that was under way led here."""
        step, steps = self.under_way, self.steps
        if step is not None:
            steps = (*steps, Experience(*step[:-1], successor))
        return Stream(self.column, history, steps, None, False, False, self.skipped)


class LearnerState(NamedTuple):
    """What a learner carries from one call to the next; its `Settings` are the rest of it."""

    agent: Tree
    sums: tuple[np.ndarray, np.ndarray]
    """Returns and lengths of the unfinished episodes, [N]."""
    obs: np.ndarray
    """What each stream has seen last, [1, N, D]."""
    streams: Mapping[str, Stream]
    updates: int = 0
    """So far; the version of the policy."""
    dropped: int = 0
    """Updates that were dropped; `updates` does not count them."""
    metrics: Mapping[str, float] = {}
    """Of the newest update that was not dropped."""

    @property
    def in_order(self) -> list[tuple[str, Stream]]:
        """The streams and their names, by column."""
        return sorted(self.streams.items(), key=lambda item: item[1].column)

    def with_stream(self, name: str, stream: Stream) -> LearnerState:
        """The state in which a stream is so."""
        streams = {**self.streams, name: stream}
        return LearnerState(self.agent, self.sums, self.obs, streams, *self[4:])

    def begin_rollout(self) -> LearnerState:
        """The state in which no stream has any steps to learn from."""
        fresh = {name: s._replace(steps=(), skipped=0) for name, s in self.streams.items()}
        return self._replace(streams=fresh)

    def digest(self) -> str:
        """A fingerprint: equal for equal states, on any machine."""
        found = hashlib.sha256()
        for path, leaf in flatten(self).items():
            found.update(f"{path} {leaf.dtype}{leaf.shape}\n".encode())
            found.update(np.ascontiguousarray(leaf).data)
        return found.hexdigest()

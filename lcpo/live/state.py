"""`LearnerState`: all that changes in a live learner, as one value.

It is a pytree of immutable parts, so that a state can be kept, compared, hashed, saved and
restored. `lcpo.live.loop` has the functions from one state to the next. `Backup` keeps a copy of
the agent's state on the host, for updates in place that fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.replay import Replay
from lcpo.history import ContextHistory
from lcpo.run.store.checkpoint import flatten
from lcpo.types import Tree


def _flatten(history: ContextHistory) -> tuple[Any, Any]:
    entries, moved = map(jax.tree_util.GetAttrKey, ("entries", "moved"))
    return ((entries, history.entries), (moved, history.moved)), history[:2]


jax.tree_util.register_pytree_with_keys(
    ContextHistory, _flatten, lambda rest, parts: ContextHistory(*rest, *parts)
)


class Experience(NamedTuple):
    """One step of a stream: `act` begins it, `observe` and the successor complete it."""

    obs: np.ndarray
    action: np.ndarray
    extra: tuple[np.ndarray, ...]
    """Leaves of what the agent's `act` returns besides the action."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    elapsed: float = 0.0
    weight: float = 0.0
    readings: np.ndarray | None = None
    next_obs: np.ndarray | None = None


class Stream(NamedTuple):
    """One of the user's worlds, between two calls."""

    column: int
    """Its place among the worlds of a rollout."""
    history: ContextHistory
    steps: tuple[Experience, ...] = ()
    """Steps of the current rollout."""
    under_way: Experience | None = None
    """The incomplete step; None if there is none, or if it will not be learned from."""
    acted: bool = False
    """Whether the stream waits for a reward."""
    open: bool = False
    """Whether the stream has its reward, and waits for the successor."""
    skipped: int = 0
    """Steps since its part of the rollout was full, while it waited for other streams."""

    # Built by position, as in all that every call of `act` does: `_replace` takes far longer.

    def begin_step(self, step: Experience, is_full: bool) -> Stream:
        """After an action. If the stream's part is full, the step is not learned from."""
        history, steps = self.history.pass_step(), self.steps
        if not is_full:
            return Stream(self.column, history, steps, step, True, False, self.skipped)
        # The next part begins elsewhere: no return may continue from here to there.
        cut = steps[-1]._replace(truncated=steps[-1].truncated or not steps[-1].terminated)
        return Stream(self.column, history, (*steps[:-1], cut), None, True, False, self.skipped + 1)

    def complete_step(self, successor: np.ndarray, history: ContextHistory) -> Stream:
        """The stream after the successor of its current step."""
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
    """The latest observation of each stream, [1, N, D]."""
    streams: Mapping[str, Stream]
    updates: int = 0
    """Updates so far, which is the version of the policy."""
    dropped: int = 0
    """Updates that were dropped; `updates` does not count them."""
    metrics: Mapping[str, float] = {}
    """Metrics of the newest update that was not dropped."""

    @property
    def in_order(self) -> list[tuple[str, Stream]]:
        """The streams and their names, by column."""
        return sorted(self.streams.items(), key=lambda item: item[1].column)

    def with_stream(self, name: str, stream: Stream) -> LearnerState:
        """The state with another stream of that name."""
        streams = {**self.streams, name: stream}
        return LearnerState(self.agent, self.sums, self.obs, streams, *self[4:])

    def begin_rollout(self) -> LearnerState:
        """The state with an empty rollout."""
        fresh = {name: s._replace(steps=(), skipped=0) for name, s in self.streams.items()}
        return self._replace(streams=fresh)

    def digest(self) -> str:
        """A fingerprint: equal for equal states, on any machine."""
        found = hashlib.sha256()
        for path, leaf in flatten(self).items():
            found.update(f"{path} {leaf.dtype}{leaf.shape}\n".encode())
            found.update(np.ascontiguousarray(leaf).data)
        return found.hexdigest()


class Backup:
    """A copy of an agent's state on the host that is cheap to keep up to date.

    An update takes the buffers of the state that it is given, even if it fails. Copying a replay of
    a million steps before every update would take longer than the update, so only the rows that
    were added since the last copy are copied.
    """

    def __init__(self, state: Tree) -> None:
        self._kept = jax.tree.map(np.array, state)

    def follow(self, state: Tree) -> None:
        """Copy `state`, which has evolved from the last one by updates."""

        def parts(tree: Tree) -> list[Tree]:
            return jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Replay))

        for kept, now in zip(parts(self._kept), parts(state), strict=True):
            if not isinstance(now, Replay):
                np.copyto(kept, np.asarray(now))
                continue
            step, last = int(kept.added), int(now.added)
            while step < last:  # at most up to the end of the ring at a time
                first = step % now.num_rows
                count = min(last - step, now.num_rows - first)
                for old, new in zip(kept.rows, now.rows, strict=True):
                    length = count + new.shape[0] - now.num_rows  # contexts have `lags` rows more
                    rows = jax.lax.dynamic_slice_in_dim(new, first, length)
                    np.copyto(old[first : first + length], np.asarray(rows))
                step += count
            np.copyto(kept.added, np.asarray(now.added))
            np.copyto(kept.capacity, np.asarray(now.capacity))

    def restore(self) -> Tree:
        """The state that was last copied, on the device."""
        return jax.tree.map(jnp.array, self._kept)

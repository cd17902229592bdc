"""An agent's state on the host: what a learner returns to if an update in place fails."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.replay import Replay
from lcpo.types import Array, Tree


class Backup:
    """A copy of a state that keeps up with it cheaply.

    An update takes the buffers of the state that it is given, even if it fails. To copy a replay of
    a million steps before every update would take longer than the update: only the rows that were
    added since are copied.
    """

    def __init__(self, state: Tree) -> None:
        self._kept = jax.tree.map(np.array, state)

    def follow(self, state: Tree) -> None:
        """Become a copy of `state`, which has come about from the last one by updates."""
        pairs = zip(_parts(self._kept), _parts(state), strict=True)
        for kept, now in pairs:
            if isinstance(kept, Replay):
                _follow_replay(kept, now)
            else:
                np.copyto(kept, np.asarray(now))

    def restore(self) -> Tree:
        """The state that was last copied, on the device."""
        return jax.tree.map(jnp.array, self._kept)


def _parts(state: Tree) -> list[Tree]:
    return jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, Replay))


def _follow_replay(kept: Tree, now: Replay) -> None:
    for first, count in _written(int(kept.added), int(now.added), now.num_rows):
        _copy_rows(kept.rows.floats, now.rows.floats, first, count)
        _copy_rows(kept.rows.small, now.rows.small, first, count)
        _copy_rows(kept.rows.context, now.rows.context, first, count + now.lags)
    np.copyto(kept.added, np.asarray(now.added))
    np.copyto(kept.capacity, np.asarray(now.capacity))


def _written(before: int, after: int, num_rows: int) -> Iterator[tuple[int, int]]:
    """First rows and numbers of rows that hold the steps before .. after - 1 of a ring."""
    while before < after:
        first = before % num_rows
        count = min(after - before, num_rows - first)
        yield first, count
        before += count


def _copy_rows(kept: np.ndarray, now: Array, first: int, count: int) -> None:
    rows = jax.lax.dynamic_slice_in_dim(now, first, count)
    np.copyto(kept[first : first + count], np.asarray(rows))

"""Replay on disk: segments that are written once, so that a checkpoint costs only what is new.

A replay of all history grows to gigabytes, of which a minute adds megabytes. A segment holds the
rows of some consecutive steps. It is cut on the device, and at most `SEGMENT_BYTES` of a replay
are ever in memory twice. Segments that the ring has overwritten are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.replay import Replay, ReplayRows
from lcpo.errors import InputError
from lcpo.run.store.files import load_arrays, save_arrays
from lcpo.run.store.layout import CheckpointFiles
from lcpo.types import Array, Tree

SEGMENT_BYTES = 16 * 2**20


class Segment(NamedTuple):
    """Rows of steps first .. last - 1; the ring does not close among them."""

    first: int
    last: int
    digest: str
    """Of its file, whose name says the same: see `CheckpointFiles.segment`."""


def replays(state: Tree, many: bool) -> list[Replay]:
    """The replays of a state; with `many`, of states stacked along a leading axis."""
    found = jax.tree.leaves(state, is_leaf=_is_replay(many))
    return [leaf for leaf in found if isinstance(leaf, Replay)]


def without_rows(state: Tree, many: bool) -> Tree:
    """The state with replays that have no rows, only counters."""
    return _with_rows(state, [None] * len(replays(state, many)), many)


def on_host(state: Tree, many: bool) -> Tree:
    """The state with all but the rows of replays on the host, where they are fetched at once."""
    rows = [replay.rows for replay in replays(state, many)]
    return _with_rows(jax.device_get(without_rows(state, many)), rows, many)


def write(
    files: CheckpointFiles, state: Tree, member: int | None, known: Sequence[list[Segment]]
) -> list[list[Segment]]:
    """Write what the `known` segments lack; return all that the state needs, replay by replay.

    `member`: which of the stacked states; None where there is one.
    """
    found = replays(state, member is not None)
    if len(known) != len(found):  # the first checkpoint, or the first of a phase without replay
        known = [[] for _ in found]
    return [
        _write_one(files, number, replay, member, old)
        for number, (replay, old) in enumerate(zip(found, known, strict=True))
    ]


def restore(
    state: Tree,
    template: Tree,
    saved: list[tuple[CheckpointFiles, Sequence[list[Segment]]]],
    many: bool,
) -> Tree:
    """Put rows back into a state without them, segment by segment.

    `saved`: files and segments of each member; `template`: the shapes of one member's state.
    """
    rows = []
    counters = replays(state, many)
    for number, like in enumerate(replays(template, False)):
        axis = (len(saved),) if many else ()
        empty = [jnp.zeros((*axis, *x.shape), x.dtype) for x in like.rows]
        for member, (files, segments) in enumerate(saved):
            added = counters[number].added
            _check_complete(files, segments[number], like, int(added[member] if many else added))
            for segment in segments[number]:
                index = (member if many else None, segment.first % like.num_rows)
                new = _load(files.segment(number, segment.first, segment.last), like, segment)
                empty = [_put(x, y, *index) for x, y in zip(empty, new, strict=True)]
        rows.append(ReplayRows(*empty))
    return _with_rows(state, rows, many)


def _is_replay(many: bool) -> Callable[[object], bool]:
    # An agent that stacks replays itself has more axes: those are saved whole, like other arrays.
    return lambda x: isinstance(x, Replay) and np.ndim(x.added) == int(many)


def _with_rows(state: Tree, rows: list, many: bool) -> Tree:
    waiting = iter(rows)
    chosen = _is_replay(many)
    return jax.tree.map(
        lambda x: x._replace(rows=next(waiting)) if chosen(x) else x, state, is_leaf=chosen
    )


def _write_one(
    files: CheckpointFiles, number: int, replay: Replay, member: int | None, known: list[Segment]
) -> list[Segment]:
    count = int(replay.added if member is None else replay.added[member])
    oldest = count - replay.num_rows  # what came before is overwritten
    kept = [segment for segment in known if segment.last > oldest]
    first = kept[-1].last if kept else max(oldest, 0)
    row_bytes = sum(x.dtype.itemsize * int(np.prod(x.shape[-2:])) for x in replay.rows)
    longest = max(1, SEGMENT_BYTES // row_bytes)
    while first < count:
        start = first % replay.num_rows
        length = min(longest, count - first, replay.num_rows - start)
        file = files.segment(number, first, first + length)
        rows = [_cut(x, member, start, _length(replay, x, length)) for x in replay.rows]
        digest = save_arrays(file, dict(zip(ReplayRows._fields, rows, strict=True)))
        kept.append(Segment(first, first + length, digest))
        first += length
    return kept


def _length(replay: Replay, rows: Array, steps: int) -> int:
    """Rows of an array that belong to `steps`: the contexts have those before the first, too."""
    return steps + rows.shape[-3] - replay.num_rows


def _check_complete(
    files: CheckpointFiles, segments: list[Segment], replay: Replay, added: int
) -> None:
    """Raise InputError unless the segments hold, one after the other, all that the ring holds."""
    ends = [segment.last for segment in segments]
    begins = [segment.first for segment in segments[1:]]
    oldest = max(added - replay.num_rows, 0)
    missing = added > 0 and (not segments or segments[0].first > oldest or ends[-1] != added)
    if missing or begins != ends[:-1]:
        raise InputError(f"{files.manifest} does not name all rows of the replay")


def _load(path: Path, replay: Replay, segment: Segment) -> list[np.ndarray]:
    arrays = load_arrays(path, segment.digest)
    steps = segment.last - segment.first
    for name, like in replay.rows._asdict().items():
        shape = (_length(replay, like, steps), *like.shape[1:])
        if name not in arrays or (arrays[name].shape, arrays[name].dtype) != (shape, like.dtype):
            raise InputError(f"{path} does not fit this agent's replay")
    return [arrays[name] for name in ReplayRows._fields]


def _cut(rows: Array, member: int | None, start: int, length: int) -> np.ndarray:
    sizes = (*[1] * (rows.ndim - 3), length, *rows.shape[-2:])
    found = _slice(rows, _index(member, start), sizes)
    return np.asarray(found).reshape(sizes[-3:])


def _put(rows: Array, new: np.ndarray, member: int | None, start: int) -> Array:
    new = new.reshape(*[1] * (rows.ndim - 3), *new.shape)
    return _update(rows, new, _index(member, start))


def _index(member: int | None, start: int) -> Array:
    return jnp.array([start, 0, 0] if member is None else [member, start, 0, 0])


_slice = jax.jit(jax.lax.dynamic_slice, static_argnums=2)
_update = jax.jit(jax.lax.dynamic_update_slice, donate_argnums=0)

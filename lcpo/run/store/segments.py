"""Replay on disk: segments are written once, so that a checkpoint costs only what is new.

A replay of all history grows to gigabytes, by megabytes a minute. A segment holds the rows of
consecutive steps. It is cut on the device, so that at most `SEGMENT_BYTES` of a replay are in
memory twice. Segments that the ring has overwritten are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Rows of steps first .. last - 1; the ring does not wrap among them."""

    first: int
    last: int
    digest: str
    """Name of its file: see `CheckpointFiles.segment`."""


def replays(state: Tree, many: bool) -> list[Replay]:
    """The replays of a state; with `many`, of states stacked along a leading axis."""
    found = jax.tree.leaves(state, is_leaf=_is_replay(many))
    return [leaf for leaf in found if isinstance(leaf, Replay)]


def without_rows(state: Tree, many: bool) -> Tree:
    """The state with replays that have no rows, only counters."""
    return _with_rows(state, [None] * len(replays(state, many)), many)


def on_host(state: Tree, many: bool) -> Tree:
    """The state on the host, fetched at once, but for the rows of replays."""
    rows = [replay.rows for replay in replays(state, many)]
    return _with_rows(jax.device_get(without_rows(state, many)), rows, many)


def write(
    files: CheckpointFiles, state: Tree, member: int | None, known: Sequence[list[Segment]]
) -> list[list[Segment]]:
    """Write what the `known` segments lack; return all that the state needs, replay by replay.

    `member`: which of the stacked states; None if there is one.
    """
    found, lead = replays(state, member is not None), () if member is None else (member,)
    if len(known) != len(found):  # the first checkpoint, or the first of a phase without replay
        known = [[] for _ in found]
    needed = []
    for number, replay in enumerate(found):
        count = int(replay.added[lead])
        oldest = count - replay.num_rows  # earlier steps are overwritten
        kept = [segment for segment in known[number] if segment.last > oldest]
        first = kept[-1].last if kept else max(oldest, 0)
        row_bytes = sum(x.dtype.itemsize * int(np.prod(x.shape[-2:])) for x in replay.rows)
        longest = max(1, SEGMENT_BYTES // row_bytes)
        while first < count:
            start = first % replay.num_rows
            length = min(longest, count - first, replay.num_rows - start)
            rows = [_cut(x, lead, start, _length(replay, x, length)) for x in replay.rows]
            file = files.segment(number, first, first + length)
            digest = save_arrays(file, dict(zip(ReplayRows._fields, rows, strict=True)))
            kept.append(Segment(first, first + length, digest))
            first += length
        needed.append(kept)
    return needed


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
        filled = [jnp.zeros((*axis, *x.shape), x.dtype) for x in like.rows]
        for member, (files, segments) in enumerate(saved):
            lead = (member,) if many else ()
            added = int(counters[number].added[lead])
            for new, start in _load(files, number, segments[number], like, added):
                filled = [_put(x, y, lead, start) for x, y in zip(filled, new, strict=True)]
        rows.append(ReplayRows(*filled))
    return _with_rows(state, rows, many)


def _load(
    files: CheckpointFiles, number: int, segments: list[Segment], like: Replay, added: int
) -> Iterator[tuple[list[np.ndarray], int]]:
    """Rows of the segments and their places; InputError unless they are all that the ring holds."""
    ends, oldest = [segment.last for segment in segments], max(added - like.num_rows, 0)
    missing = added > 0 and (not segments or segments[0].first > oldest or ends[-1] != added)
    if missing or [segment.first for segment in segments[1:]] != ends[:-1]:
        raise InputError(f"{files.manifest} does not list all rows of the replay")
    for first, last, digest in segments:
        path = files.segment(number, first, last)
        arrays = load_arrays(path, digest)
        for name, x in like.rows._asdict().items():
            wanted = (_length(like, x, last - first), *x.shape[1:]), x.dtype
            if name not in arrays or (arrays[name].shape, arrays[name].dtype) != wanted:
                raise InputError(f"{path} does not fit this agent's replay")
        yield [arrays[name] for name in ReplayRows._fields], first % like.num_rows


def _is_replay(many: bool) -> Callable[[object], bool]:
    # An agent that stacks replays itself has more axes: those are saved whole, like other arrays.
    return lambda x: isinstance(x, Replay) and np.ndim(x.added) == int(many)


def _with_rows(state: Tree, rows: list, many: bool) -> Tree:
    waiting = iter(rows)
    chosen = _is_replay(many)
    return jax.tree.map(
        lambda x: x._replace(rows=next(waiting)) if chosen(x) else x, state, is_leaf=chosen
    )


def _length(replay: Replay, rows: Array, steps: int) -> int:
    """Rows of an array that belong to `steps`: the contexts also have those before the first."""
    return steps + rows.shape[-3] - replay.num_rows


def _cut(rows: Array, lead: tuple[int, ...], start: int, length: int) -> np.ndarray:
    sizes = (*[1] * len(lead), length, *rows.shape[-2:])
    found = _slice(rows, jnp.array([*lead, start, 0, 0]), sizes)
    return np.asarray(found).reshape(sizes[-3:])


def _put(rows: Array, new: np.ndarray, lead: tuple[int, ...], start: int) -> Array:
    new = new.reshape(*[1] * len(lead), *new.shape)
    return _update(rows, new, jnp.array([*lead, start, 0, 0]))


_slice = jax.jit(jax.lax.dynamic_slice, static_argnums=2)
_update = jax.jit(jax.lax.dynamic_update_slice, donate_argnums=0)

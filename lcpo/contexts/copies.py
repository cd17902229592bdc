"""A repaired copy of a trace file: empty cells filled, a fixed interval, channels scaled.

Nothing is repaired while a trace is read. `lcpo trace FILE --write COPY.csv` writes a file that
needs no repair, and says what it changed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from lcpo.contexts import clock as clocks
from lcpo.contexts import files
from lcpo.contexts.refs import TraceRef
from lcpo.errors import InputError
from lcpo.values import number, refuse

Fill = Literal["previous", "linear"]


class Copy(NamedTuple):
    """A csv file, and what differs from the original."""

    content: bytes
    notes: list[str]


def make(
    trace: TraceRef,
    fill: Fill | None = None,
    every: str | None = None,
    scale: Sequence[float] = (),
) -> Copy:
    """A copy of a file. `every`: the interval of its rows; `scale`: a factor for each channel.

    A row of an interval is the mean of the rows in it.
    """
    if not trace.is_file or trace.ending or trace.fraction != 1:
        raise InputError(f"trace {trace!r}: only a file can be copied; give its path alone")
    wanted = None if trace.columns is None else [column.strip() for column in trace.columns]
    found = files.read(trace.source, wanted, allow_empty=True)
    clock = clocks.read_clock(trace.source)
    values, notes = found.values, []
    names = found.names or tuple(str(c + 1) for c in range(values.shape[1]))
    times = None if clock is None else clock.times
    if every is not None:
        if clock is None:
            raise InputError(
                f"every = {every!r}: {trace.source} has no column of times; --every needs ISO "
                "dates such as 2024-03-01 10:15, or a first column 'time' of increasing numbers"
            )
        before = len(values)
        values, times = clocks.resample(values, clock, clocks.read_interval(every, clock))
        notes.append(f"{before:,} rows are now {len(values):,}, one every {every}")
    empty = np.isnan(values)
    if empty.any():
        if fill is None:
            row, column = np.argwhere(empty)[0].tolist()
            at = (
                f"row {row + 1}"
                if clock is None or times is None
                else clock.shown(float(times[row]))
            )
            raise InputError(
                f"{trace.source}: column {names[column]!r} has no value at {at} "
                f"({int(empty.sum()):,} such cells): choose how to fill them: --fill previous or "
                "--fill linear"
            )
        values = _filled(values, fill, names)
        counts = [f"{name} {n:,}" for name, n in zip(names, empty.sum(axis=0), strict=True) if n]
        notes.append(f"filled {int(empty.sum()):,} cells ({fill}): {', '.join(counts)}")
    if scale:
        values = values * factors(scale, values.shape[1])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = [[f"{x:.9g}" for x in row] for row in values.tolist()]
    header = list(found.names)
    if clock is not None and times is not None:
        rows = [[clock.shown(t), *row] for t, row in zip(times.tolist(), rows, strict=True)]
        header = [clock.column, *header]
    writer.writerows([header, *rows] if found.names else rows)
    return Copy(text.getvalue().encode(), notes)


def read_scale(text: str) -> tuple[float, ...]:
    """One factor, or several that are separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        refuse("scale", text, "a number, or one for each channel, such as 0.001,1,5")


def factors(scale: float | Sequence[float], channels: int) -> np.ndarray:
    """A factor for each channel, or one for all; InputError where they do not fit."""
    found = [number("scale", x) for x in np.atleast_1d(scale).tolist()]
    if len(found) not in (1, channels):
        raise InputError(
            f"scale has {len(found)} numbers: needs one, or {channels}, one for each channel"
        )
    return np.array(found)


def _filled(values: np.ndarray, fill: Fill, names: Sequence[str]) -> np.ndarray:
    """Without NaN. Before the first value and after the last one, that value."""
    values, place = values.copy(), np.arange(len(values))
    for name, column in zip(names, values.T, strict=True):
        known = np.flatnonzero(~np.isnan(column))
        if not len(known):
            raise InputError(f"column {name!r} has no value at all: leave it out (--columns)")
        if fill == "linear":
            column[:] = np.interp(place, known, column[known])
        else:
            last = np.searchsorted(known, place, side="right") - 1
            column[:] = column[known[np.maximum(last, 0)]]
    return values

"""Context traces: arrays [rows, channels] that drive an environment, one row per step or episode.

A trace is named by a string: one of `TRACES`, or a file (npy, csv, parquet). The same string gives
the same numbers everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.contexts import paper


class Trace(NamedTuple):
    """A named trace."""

    help: str
    channels: int
    length: int | None
    """Rows it has; None: as many as are asked for."""
    make: Callable[[int], np.ndarray]
    """make(rows) -> [rows, channels]"""


TRACES: dict[str, Trace] = {
    "3": Trace("piecewise constant wind with noise (paper)", 2, 8_000_000, paper.trace_3),
    "4": Trace("hand-crafted bursts of circling wind (paper)", 2, 8_000_000, paper.trace_4),
}


def get(name: str, rows: int | None = None) -> np.ndarray:
    """The trace called `name`, checked: at least `rows` rows (all of them where None), float32."""
    if name not in TRACES:
        raise ValueError(configs.unknown("trace", name, TRACES))
    trace = TRACES[name]
    if rows is None and trace.length is None:
        raise ValueError(f"trace {name!r} can have any length: say how many steps to run")
    if rows is not None and trace.length is not None and rows > trace.length:
        raise ValueError(
            f"trace {name!r} has {trace.length:,} rows, the run needs {rows:,}: "
            "run fewer steps or use a longer trace"
        )
    return check(trace.make(rows if trace.length is None else trace.length), name)  # pyright: ignore


def check(values: np.ndarray, name: str) -> np.ndarray:
    """Raise ValueError unless `values` is a usable trace; returns it as float32."""
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"trace {name!r} has shape {values.shape}: needs [rows, channels]")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"trace {name!r}: row {row}, column {column} is {values[row, column]} "
            f"({len(bad):,} such entries): every entry must be finite"
        )
    return np.ascontiguousarray(values, np.float32)

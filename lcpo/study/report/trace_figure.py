"""The paper's trace figure: contexts along a trace, as means over blocks of 200 steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.run.plan.budget import available_bytes
from lcpo.study.report import figures
from lcpo.values import whole

BLOCK = 200
"""Rows per point: one rollout."""
ANY_LENGTH_ROWS = 2_000_000
"""Rows drawn where a trace can have any length and none is given."""
COLOURS = ("#1f4e79", "#c0504d", "#6a994e", "#b08900", "#7b4f9d", "#4f9d97")

Named = str | TraceRef


def load(name: Named, rows: int | None = None) -> np.ndarray:
    """A trace for display: `rows` rows, or all, or 2 million if it has any length."""
    rows = None if rows is None else whole("rows", rows)
    trace = TraceRef.parse(name)
    if trace.any_length:
        rows = ANY_LENGTH_ROWS if rows is None else rows
        # Making and drawing a trace takes about four times its size.
        needed, free = 16 * rows * trace.describe().channels, available_bytes()
        if free is not None and needed > free:
            raise InputError(
                f"{rows:,} rows of trace {trace!r} need about {needed / 2**30:.1f} GiB, "
                f"{free / 2**30:.1f} GiB are free: ask for fewer rows"
            )
    return trace.load(rows)[:rows]


def trace_summary(name: Named, rows: int | None = None) -> dict[str, Any]:
    """Rows and channels of a trace, and lists of statistics with an entry per channel."""
    values = load(name, rows)
    mean = values.mean(axis=0, dtype=np.float64)
    square = np.zeros(values.shape[1])
    for start in range(0, len(values), 1 << 20):  # a float64 copy of 20 M rows would be 320 MB
        square += np.sum((values[start : start + (1 << 20)] - mean) ** 2, axis=0)
    return {
        "name": str(name),
        "names": channel_names(name, values.shape[1]),
        "rows": len(values),
        "channels": values.shape[1],
        "mean": mean.tolist(),
        "std": np.sqrt(square / len(values)).tolist(),
        "min": values.min(axis=0).tolist(),
        "max": values.max(axis=0).tolist(),
    }


def channel_names(name: Named, channels: int) -> list[str]:
    """The names of channels: as in the file, or x and y, or numbers."""
    found = TraceRef.parse(name).describe().names
    if found:
        return list(found)
    return ["x", "y"] if channels == 2 else [str(c) for c in range(channels)]


def block_means(values: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """Means over consecutive blocks of rows; the last block may be shorter."""
    starts = np.arange(0, len(values), block)
    counts = np.diff(starts, append=len(values))[:, None]
    return np.add.reduceat(values, starts, axis=0, dtype=np.float64) / counts


def plot_traces(
    names: Sequence[Named], path: str | Path | None = None, rows: int | None = None
) -> list[Any]:
    """Draw one panel per trace; returns their axes. `path`: picture to write, if any."""
    if not names:
        raise InputError("no trace to draw: give the name of at least one trace")
    columns = min(2, len(names))
    lines = -(-len(names) // columns)
    figure = figures.new_figure(5.2 * columns + 0.6, 2.3 * lines + 0.5)
    axes = figure.subplots(lines, columns, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        _draw(axis, name, load(name, rows))
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    if path is not None:
        figures.save(figure, path, "lcpo trace")
    return figure.axes[: len(names)]


def _draw(axis: Any, name: Named, values: np.ndarray) -> None:
    block = BLOCK if len(values) >= 50 * BLOCK else 1  # short traces show every row
    means = block_means(values, block)
    unit, label = (1e6, "million steps") if len(values) >= 200_000 else (1.0, "steps")
    time = (np.arange(len(means)) + 0.5) * block / unit
    labels = channel_names(name, values.shape[1])
    for channel, text in enumerate(labels):
        colour = COLOURS[channel % len(COLOURS)]
        axis.plot(time, means[:, channel], lw=0.9, color=colour, label=text)
    axis.axhline(0.0, color="0.8", lw=0.7, zorder=0)
    axis.set(xlabel=label, ylabel="context", xlim=(0, len(values) / unit))
    axis.set_title(f"trace {name}", loc="left", parse_math=False)
    axis.spines[["top", "right"]].set_visible(False)
    if len(labels) <= len(COLOURS):  # else the legend would not fit beside the title
        above = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.97), "borderaxespad": 0.2}
        axis.legend(frameon=False, ncols=len(labels), handlelength=1.2, **above)

"""Figures, without matplotlib's global state and its import until one is drawn; learning curves."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lcpo.errors import InputError, MissingPackage
from lcpo.run.store import outputs
from lcpo.run.store.record import Record
from lcpo.study.measure import stats
from lcpo.study.report.output import write_bytes
from lcpo.study.study import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

MOST_POINTS = 2000
"""Most points of a line that an SVG draws as a path; longer lines are rasterized."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackage("figures need matplotlib: pip install matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained")


def to_picture(figure: Figure, heading: str = "", caption: str = "", dpi: int = 150) -> Picture:
    """The figure as the content of a PNG and of an SVG file; the same figure, the same bytes.

    `heading`: what it shows; `caption`: how to read it.
    """
    png = _render(figure, "png", dpi)
    for artist in figure.findobj(_is_dense):
        artist.set_rasterized(True)
    return Picture(png, _render(figure, "svg", dpi), heading, caption)


def _is_dense(artist: Artist) -> bool:
    found = [artist.get_path()] if hasattr(artist, "get_path") else []  # pyright: ignore
    found = artist.get_paths() if hasattr(artist, "get_paths") else found  # pyright: ignore
    return sum(len(path.vertices) for path in found) > MOST_POINTS


MARKS = {"png": "Software", "pdf": "Creator", "svg": "Creator"}
"""Picture formats, and the metadata field that names the program in each."""


def check_path(path: str | Path, by: str) -> str:
    """The picture format for a path's suffix.

    InputError if no picture can be written there, or if a file exists that `by`, such as
    `lcpo trace` or `Comparison.plot`, did not write.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in MARKS:
        raise InputError(f"{path}: cannot draw {path.suffix!r}: use .png, .pdf or .svg")
    new_figure(1, 1)  # raises without matplotlib
    outputs.check_file(path, by, outputs.is_marked(by))
    return kind


def save(figure: Figure, path: str | Path, by: str, dpi: int = 150) -> None:
    """Write the figure in the format of the path's suffix; `by`: as in `check_path`."""
    kind = check_path(path, by)
    write_bytes(Path(path), _render(figure, kind, dpi, {MARKS[kind]: outputs.mark(by)}))


def _render(figure: Figure, kind: str, dpi: int, more: Mapping[str, str] | None = None) -> bytes:
    """An SVG has neither a date nor random ids, so that the same figure is the same file."""
    import matplotlib

    file = io.BytesIO()
    metadata = {**({"Date": None} if kind == "svg" else {}), **(more or {})}
    with matplotlib.rc_context({"svg.hashsalt": "lcpo"}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    return file.getvalue()


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, safe for color-blind readers; further curves repeat them dashed, then dotted."""
STYLES = ("-", "--", ":")
LEGEND_WIDTH, TITLE_WIDTH, LABEL_LENGTH = 100, 80, 24
"""Characters that fit into a legend's row, lines and gaps included, above a panel, and beside an
axis."""


def smooth(record: Record, share: float = 0.01, endless: bool = False) -> np.ndarray:
    """`epoch_return` averaged over a window of epochs around each row; NaN without epochs.

    `share`: the window, as a share of the run. `endless`: the mean reward of updates instead.
    """
    window = np.ones(max(1, round(share * len(record["step"]))))
    weight, value = ("updates", "reward") if endless else ("epochs", "epoch_return")
    epochs = record[weight].astype(np.float64)
    count = np.convolve(epochs, window, "same")
    total = np.convolve(epochs * record[value], window, "same")
    return np.where(count > 0.5, total / np.maximum(count, 1.0), np.nan)


def plot_curves(
    groups: Mapping[str, Mapping[Any, Sequence[Record]]],
    reference: str,
    switches: Sequence[int],
    title: str,
    unit: str = "seed",
    endless: bool = False,
) -> list[Any]:
    """The axes of the mean return of each agent, and below it of its distance to the reference.

    `groups` has the records by label and unit, a seed or a trace, whose records are averaged.
    Bands: Student's 95 % interval over units at each point, in the lower panel of the differences
    by unit. Light vertical lines mark the steps `switches`.
    """
    every = [run for units in groups.values() for runs in units.values() for run in runs]
    last = max(int(run["step"][-1]) for run in every)
    size, name = (1e6, "million steps") if last >= 200_000 else (1.0, "steps")
    paired = len(groups) > 1 and len(groups[reference]) > 0
    figure = new_figure(7.2, 5.4 if paired else 3.6)
    axes = figure.subplots(2 if paired else 1, sharex=True, squeeze=False)[:, 0]
    curves = {
        label: {one: _mean([_curve(r, size, endless) for r in runs]) for one, runs in units.items()}
        for label, units in groups.items()
    }
    shown = "reward per step" if endless else "episode return"
    counts = {label: len(runs) for label, runs in groups.items()}
    each = len(groups) > 1 and len(set(counts.values())) == 1
    names = {k: f"{k} ({n} {unit}{'s' * (n != 1)}{' each' * each})" for k, n in counts.items()}
    names |= {label: label for label in list(groups)[1:]} if each else {}
    base = curves[reference]
    for i, (label, runs) in enumerate(curves.items()):
        style = {"color": COLOURS[i % len(COLOURS)], "ls": STYLES[i // len(COLOURS) % len(STYLES)]}
        _band(axes[0], list(runs.values()), label=names[label], **style)
        if paired and label == reference:
            axes[1].axhline(0.0, lw=1.0, **style)
        elif paired:
            pairs = [(*runs[one], *base[one]) for one in sorted(runs.keys() & base.keys())]
            _band(axes[1], [(x, y - np.interp(x, p, q)) for x, y, p, q in pairs], **style)
    against = reference if len(reference) <= LABEL_LENGTH else "the first"
    for axis, label in zip(axes, (shown, f"minus {against}"), strict=False):
        axis.set(ylabel=label, xlim=(0, last / size))
        axis.spines[["top", "right"]].set_visible(False)
        for step in switches:
            axis.axvline(step / size, color="0.88", lw=0.7, zorder=0)
    axes[0].set_title(textwrap.fill(title, TITLE_WIDTH), loc="left", fontsize=10)
    axes[-1].set_xlabel(name)
    columns = LEGEND_WIDTH // (max(map(len, names.values())) + 5)
    above = {"loc": "outside upper left", "ncols": max(min(len(groups), 4, columns), 1)}
    figure.legend(frameon=False, fontsize=9, handlelength=1.4, **above)
    return list(axes)


Curve = tuple[np.ndarray, np.ndarray]


def _curve(record: Record, size: float, endless: bool) -> Curve:
    middle = (record["step"] - 0.5 * np.diff(record["step"], prepend=0)) / size
    values = smooth(record, endless=endless)
    known = np.isfinite(values)  # unknown where episodes are longer than the window
    if known.any():
        values = np.interp(middle, middle[known], values[known], left=np.nan, right=np.nan)
    return middle, values


def _stack(curves: Sequence[Curve]) -> Curve:
    """x of the shortest curve, and the y of all there, [curves, points].

    Runs of one agent on one trace share their x. Traces may differ in length, and records in rows.
    """
    x = min((x for x, _ in curves), key=lambda x: (x[-1], len(x)))
    same = (y if np.array_equal(x, at) else np.interp(x, at, y) for at, y in curves)
    return x, np.stack(list(same))


def _mean(curves: Sequence[Curve]) -> Curve:
    x, values = _stack(curves)
    return x, values.mean(axis=0)


def _band(axis: Any, curves: Sequence[Curve], **style: Any) -> None:
    """Mean over curves, with its interval if there are enough."""
    if curves:
        x, values = _stack(curves)
        mean, half = values.mean(axis=0), stats.half_width(values)
        axis.plot(x, mean, lw=1.2, **style)
        if len(curves) >= stats.FEWEST:
            axis.fill_between(x, mean - half, mean + half, alpha=0.22, lw=0, color=style["color"])

"""Learning curves of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.run.store.record import Record
from lcpo.study.measure import stats
from lcpo.study.report.figures import new_figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, told apart by all readers; further curves repeat them dashed, then dotted."""
STYLES = ("-", "--", ":")
LEGEND_WIDTH = 100
"""Characters that fit beside each other, those of lines and gaps included."""
LABEL_LENGTH = 24
"""Characters of a name that fit beside an axis."""
SMOOTH = 0.01
"""Share of a run that a point averages over."""


def smooth(record: Record, share: float = SMOOTH, endless: bool = False) -> np.ndarray:
    """`epoch_return` as a mean over the epochs of a window around each row; NaN without any.

    `endless`: the mean reward of the updates instead, where there are no episodes.
    """
    window = np.ones(max(1, round(share * len(record["step"]))))
    weight, value = ("updates", "reward") if endless else ("epochs", "epoch_return")
    epochs = record[weight].astype(np.float64)
    count = np.convolve(epochs, window, "same")
    total = np.convolve(epochs * record[value], window, "same")
    return np.where(count > 0.5, total / np.maximum(count, 1.0), np.nan)


def plot(
    groups: Mapping[str, Mapping[int, Record]],
    reference: str,
    switches: Sequence[int],
    title: str,
    endless: bool = False,
) -> list[Any]:
    """The mean return of each agent; below it, how far each is from the reference: the axes.

    `groups` has the records by label and seed. Bands: Student's 95 % interval at each point, in
    the lower panel of the differences by seed. Light vertical lines mark the steps `switches`.
    """
    last = max(int(run["step"][-1]) for runs in groups.values() for run in runs.values())
    unit, name = (1e6, "million steps") if last >= 200_000 else (1.0, "steps")
    paired = len(groups) > 1 and len(groups[reference]) > 0
    figure = new_figure(7.2, 5.4 if paired else 3.6)
    axes = figure.subplots(2 if paired else 1, sharex=True, squeeze=False)[:, 0]
    curves = {
        k: {seed: _curve(r, unit, endless) for seed, r in v.items()} for k, v in groups.items()
    }
    shown = "reward per step" if endless else "episode return"
    base, names = curves[reference], _names(groups)
    for i, (label, runs) in enumerate(curves.items()):
        style = {"color": COLOURS[i % len(COLOURS)], "ls": STYLES[i // len(COLOURS) % len(STYLES)]}
        _band(axes[0], list(runs.values()), label=names[label], **style)
        if paired and label == reference:
            axes[1].axhline(0.0, lw=1.0, **style)
        elif paired:
            pairs = [(*runs[seed], *base[seed]) for seed in sorted(runs.keys() & base.keys())]
            _band(axes[1], [(x, y - np.interp(x, p, q)) for x, y, p, q in pairs], **style)
    against = reference if len(reference) <= LABEL_LENGTH else "the first"
    for axis, label in zip(axes, (shown, f"minus {against}"), strict=False):
        axis.set(ylabel=label, xlim=(0, last / unit))
        axis.spines[["top", "right"]].set_visible(False)
        for step in switches:
            axis.axvline(step / unit, color="0.88", lw=0.7, zorder=0)
    axes[0].set_title(title, loc="left", fontsize=10)
    axes[-1].set_xlabel(name)
    columns = LEGEND_WIDTH // (max(map(len, names.values())) + 5)
    above = {"loc": "outside upper left", "ncols": max(min(len(groups), 4, columns), 1)}
    figure.legend(frameon=False, fontsize=9, handlelength=1.4, **above)
    return list(axes)


def _names(groups: Mapping[str, Mapping[int, Record]]) -> dict[str, str]:
    """For the legend: with the number of seeds; where all have the same, the first one tells."""
    counts = {label: len(runs) for label, runs in groups.items()}
    several = len(groups) > 1 and len(set(counts.values())) == 1
    names = {
        label: f"{label} ({n} seed{'s' * (n != 1)}{' each' * several})"
        for label, n in counts.items()
    }
    rest = list(groups)[1:] if several else []
    return {**names, **{label: label for label in rest}}


def _curve(record: Record, unit: float, endless: bool) -> tuple[np.ndarray, np.ndarray]:
    middle = (record["step"] - 0.5 * np.diff(record["step"], prepend=0)) / unit
    values = smooth(record, endless=endless)
    known = np.isfinite(values)  # not where episodes are longer than what a point averages over
    if known.any():
        values = np.interp(middle, middle[known], values[known], left=np.nan, right=np.nan)
    return middle, values


def _band(axis: Any, curves: Sequence[tuple[np.ndarray, np.ndarray]], **style: Any) -> None:
    """Mean over curves with the same x, and its interval where there are enough."""
    if curves:
        x, values = curves[0][0], np.stack([y for _, y in curves])  # [curves, points]
        mean, half = values.mean(axis=0), stats.half_width(values)
        axis.plot(x, mean, lw=1.2, **style)
        if len(curves) >= stats.FEWEST:
            axis.fill_between(x, mean - half, mean + half, alpha=0.22, lw=0, color=style["color"])

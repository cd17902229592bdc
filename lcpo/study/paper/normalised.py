"""The paper's figures of normalised returns: how often is an agent how good?

For each environment and trace 0 and 1 are the lowest and the highest return among the agents. The
same is done with what the paper prints for the same agents, environments and traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.study.paper.returns import Column, Part, printed, rows_of
from lcpo.study.report import figures, tables

Key = tuple[str, str]
"""(agent, variant)"""
Interval = tuple[float, float, float]
"""Mean, low, high."""


def ours(part: Part) -> dict[Key, Interval]:
    """Returns after warm-up."""
    return {key: row.after_warmup[:3] for key, row in rows_of(part).items()}


def theirs(table: str, part: Part) -> dict[Key, Interval]:
    """The same from the paper."""
    found = {}
    for key, cell in printed(table, part).items():
        mean, _, half = cell.partition(" ± ")
        width = float(half or 0.0)
        found[key] = (float(mean), float(mean) - width, float(mean) + width)
    return found


def normalise(returns: Mapping[Key, Interval]) -> dict[Key, Interval]:
    """0 is the lowest mean, 1 the highest; none where there are not two of them."""
    known = {key: value for key, value in returns.items() if np.isfinite(value[0])}
    means = [value[0] for value in known.values()]
    if len(set(means)) < 2:
        return {}
    low, span = min(means), max(means) - min(means)
    return {
        k: ((m - low) / span, (a - low) / span, (b - low) / span) for k, (m, a, b) in known.items()
    }


def both(
    parts: Sequence[Part], table: str
) -> tuple[dict[Key, list[Interval]], dict[Key, list[Interval]]]:
    """Normalised returns of each agent over the parts, ours and the paper's of the same cells."""
    mine: dict[Key, list[Interval]] = {}
    printed: dict[Key, list[Interval]] = {}
    for part in parts:
        here = ours(part)
        there = {key: value for key, value in theirs(table, part).items() if key in here}
        for found, into in ((normalise(here), mine), (normalise(there), printed)):
            for key, value in found.items():
                into.setdefault(key, []).append(value)
    return mine, printed


def table_and_figure(
    parts: Sequence[Part], columns: Sequence[Column], table: str
) -> tuple[dict[str, tables.Table], dict[str, figures.Picture]]:
    """Table and figure by name; none where there are no two agents to compare."""
    found = summary(parts, columns, table)
    if not found.rows:
        return {}, {}
    return {"normalised": found}, {"figure": draw(parts, columns, table)}


def summary(parts: Sequence[Part], columns: Sequence[Column], table: str) -> tables.Table:
    """Mean and median of the normalised returns of each agent, and the paper's mean."""
    mine, printed = both(parts, table)
    rows = []
    for key, title in _titles(columns).items():
        if key in mine:
            means = [value[0] for value in mine[key]]
            paper = [value[0] for value in printed.get(key, [])]
            theirs = f"{np.mean(paper):.2f}" if paper else tables.NONE
            cells = [f"{np.mean(means):.2f}", f"{np.median(means):.2f}", f"{min(means):.2f}"]
            rows.append([title, str(len(means)), *cells, theirs])
    rows.sort(key=lambda row: -float(row[2]))
    header = ["agent", "cells", "mean", "median", "worst", "paper"]
    title = "normalised return: 0 and 1 are the lowest and highest of the agents here"
    return tables.Table(header, rows, "lrrrrr", title)


def draw(parts: Sequence[Part], columns: Sequence[Column], table: str) -> figures.Picture:
    """Cumulative shares of environments and traces, ours and the paper's."""
    shape = figures.new_figure(10.4, 4.2)
    axes = shape.subplots(1, 2, sharex=True, sharey=True)
    panels = zip(axes, both(parts, table), ("ours", "from the paper's table"), strict=True)
    for axis, found, title in panels:
        for number, (key, name) in enumerate(_titles(columns).items()):
            if key in found:
                _curve(axis, found[key], name, number)
        axis.set(xlabel="normalised return", title=title, xlim=(-0.02, 1.02), ylim=(0, 1.02))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of environments and traces")
    lines, labels = axes[0].get_legend_handles_labels()
    shape.legend(lines, labels, loc="outside right upper", frameon=False, fontsize=7)
    return figures.to_picture(shape)


def _curve(axis: Any, values: Sequence[Interval], name: str, number: int) -> None:
    """A step per cell; the band is between the ends of the intervals over seeds."""
    share = np.arange(len(values) + 1) / len(values)
    style = {"color": f"C{number % 10}", "ls": ("-", "--", ":")[number // 10 % 3]}
    mean, low, high = (np.sort([value[i] for value in values]) for i in range(3))
    axis.step([0.0, *mean], share, where="post", lw=1.3, label=name, **style)
    if np.isfinite([*low, *high]).all():
        left, right = [low[0], *low], [high[0], *high]
        axis.fill_betweenx(share, left, right, step="pre", alpha=0.12, lw=0, color=style["color"])


def _titles(columns: Sequence[Column]) -> dict[Key, str]:
    return {(c.agent, c.variant): c.title or c.agent for c in columns}

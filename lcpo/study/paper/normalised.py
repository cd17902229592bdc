"""The paper's figures of normalized returns: the distribution of each agent's scores.

For each environment and trace, 0 and 1 are the lowest and the highest return among the agents. The
paper's numbers for the same agents, environments and traces are normalized in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.study.paper.columns import Found, Line
from lcpo.study.report import figures
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table

Interval = tuple[float, float, float]
"""Mean, low, high."""
Scores = dict[str, list[Interval]]
"""Normalized returns by the title of a case, one for each environment and trace."""


def normalise(returns: Mapping[str, Interval | None]) -> dict[str, Interval]:
    """0 is the lowest mean, 1 the highest; empty without two different ones."""
    known = {title: x for title, x in returns.items() if x is not None and np.isfinite(x[0])}
    means = [mean for mean, _, _ in known.values()]
    if len(set(means)) < 2:
        return {}
    low, span = min(means), max(means) - min(means)
    return {
        k: ((m - low) / span, (a - low) / span, (b - low) / span) for k, (m, a, b) in known.items()
    }


def both(found: Found) -> tuple[Scores, Scores]:
    """Ours and the paper's for the same cells, in the order of the cases."""

    def theirs(line: Line) -> Interval | None:
        cell = line.printed(found.paper)
        half = (cell and cell.half) or 0.0
        return cell and (cell.mean, cell.mean - half, cell.mean + half)

    titles = [line.title for part in found.parts for line in part.lines]
    mine, paper = ({title: [] for title in titles} for _ in range(2))
    for part in found.parts:
        for returns, into in ((lambda line: line.row.after_warmup[:3], mine), (theirs, paper)):
            for title, value in normalise({x.title: returns(x) for x in part.lines}).items():
                into[title].append(value)
    return mine, paper


def table_and_figure(found: Found) -> tuple[dict[str, Table], dict[str, figures.Picture]]:
    """Table and figure by name; none without two agents to compare."""
    mine, paper = both(found)
    if not any(mine.values()):
        return {}, {}
    return {"normalised": summary(mine, paper)}, {"figure": draw(mine, paper)}


def summary(mine: Scores, paper: Scores) -> Table:
    """Mean and median of the normalised returns of each agent, and the paper's mean."""
    rows = []
    for title, values in mine.items():
        means = [value[0] for value in values]
        printed = [value[0] for value in paper.get(title, [])]
        theirs = float(np.mean(printed)) if printed else None
        if means:
            rows.append([title, np.mean(means), np.median(means), min(means), theirs, len(means)])
    rows.sort(key=lambda row: -round(row[1], 2))
    cells = "environments and traces with a return of the agent"
    about = {
        "mean": "over environments and traces", "median": "over environments and traces",
        "worst": "the lowest", "paper": "mean of the paper's returns, normalized in the same way",
    }  # fmt: skip
    numbers = (Column(name, decimals=2, about=words) for name, words in about.items())
    return Table(
        ["agent", *numbers, Column("cells", about=cells)],
        rows,
        title="0 and 1 are the lowest and highest return of the agents here",
        heading="Normalized return of each agent",
    )


def draw(mine: Scores, paper: Scores) -> figures.Picture:
    """Cumulative shares of environments and traces, ours and the paper's."""
    shape = figures.new_figure(10.4, 4.2)
    axes = shape.subplots(1, 2, sharex=True, sharey=True)
    panels = zip(axes, (mine, paper), ("ours", "from the paper's table"), strict=True)
    for axis, found, title in panels:
        for number, (name, values) in enumerate(found.items()):
            if values:
                _curve(axis, values, name, number)
        axis.set(xlabel="normalized return", title=title, xlim=(-0.02, 1.02), ylim=(0, 1.02))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of environments and traces")
    lines, labels = axes[0].get_legend_handles_labels()
    shape.legend(lines, labels, loc="outside right upper", frameon=False, fontsize=9)
    return figures.to_picture(
        shape,
        "Normalized returns: ours and the paper's",
        "For each agent, the share of environments and traces (vertical) in which its normalized "
        "return is at most the value on the horizontal axis: lines further right are better. "
        "Bands are between the ends of the intervals over seeds, if there are any.",
    )


def _curve(axis: Any, values: Sequence[Interval], name: str, number: int) -> None:
    """A step per cell; the band is between the ends of the intervals over seeds."""
    share = np.arange(len(values) + 1) / len(values)
    style = {"color": f"C{number % 10}", "ls": ("-", "--", ":")[number // 10 % 3]}
    mean, low, high = (np.sort([value[i] for value in values]) for i in range(3))
    axis.step([0.0, *mean], share, where="post", lw=1.3, label=name, **style)
    if np.isfinite([*low, *high]).all():
        left, right = [low[0], *low], [high[0], *high]
        axis.fill_betweenx(share, left, right, step="pre", alpha=0.12, lw=0, color=style["color"])

"""The paper's Figure 2: change-point detection and out-of-distribution detection side by side.

A context that drifts smoothly has no change points. A detector finds some anyway, and how many
depends on its sensitivity. Whether two contexts are more than 1 apart has a clear answer.

The trace is trace 2, wind along y, rebuilt from the published figure, which shows means over 200
steps. The values between them are unknown, so this study draws them several times: a count that
depends on the draw says little about the trace. The control is trace 3, whose wind jumps five
times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lcpo.contexts import TraceRef, paper
from lcpo.core.changepoint import ChangePoints, find_changes
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Column, Median
from lcpo.study.report.document import data_table
from lcpo.study.report.tables import Table
from lcpo.study.report.trace_figure import COLOURS, block_means
from lcpo.study.study import NO_RUNS, Options, Report, Study
from lcpo.values import whole

TRACE, CONTROL = "2", "3"
CHANNEL = 1
SIGMAS = (3.1, 3.0)
"""From the less sensitive detector to the more sensitive one."""
PAPER = {3.0: 34}
"""Change points that the paper counts; it gives no number for the other."""
RADIUS = 1.0
"""Two contexts differ if they are further apart than this."""
POINTS = 2000
"""Places along the trace, evenly spaced, that are compared with those before them."""


@dataclasses.dataclass(frozen=True)
class CpdOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = NO_RUNS

    seeds: int = 16
    """Draws of the trace's fine noise; the first is trace 2 as it is elsewhere."""
    rows: int = 20 * paper.MILLION
    """Rows of the trace; of the control, which has 8 million, no more than it has."""


def plan_runs(options: CpdOptions) -> list[Job]:
    """None: nothing is trained."""
    whole("seeds", options.seeds)
    TraceRef.parse(TRACE).shape(options.rows)  # raises where there are fewer
    return []


def report(options: CpdOptions, results: Sequence[Result]) -> Report:
    """Counts of change points by draw, and the share of the past that is OOD."""
    del results
    rows = options.rows
    draws = [measure(paper.trace_2(rows, draw), TRACE, draw) for draw in range(options.seeds)]
    control = measure(paper.trace_3(min(rows, TraceRef.parse(CONTROL).shape()[0])), CONTROL)
    return Report(
        seeds=data_table(
            ["trace", "seed", *(f"changes_{sigmas:.1f}" for sigmas in SIGMAS), "ood_share"],
            [[d.trace, d.number, *(len(d.changes[s]) for s in SIGMAS), d.ood.mean()]
             for d in (*draws, control)],
        ),
        tables={"table": summary(draws, control)},
        figures={"figure": figure(draws)},
        made={"traces": [TRACE, CONTROL], "steps": [rows], "seeds": options.seeds},
    )  # fmt: skip


class Draw(NamedTuple):
    """What is found on one draw of a trace."""

    trace: str
    number: int
    rows: int
    means: np.ndarray  # of the context, over `POINTS` blocks
    changes: dict[float, np.ndarray]  # positions, by sigmas
    ood: np.ndarray  # [POINTS], which share of the past is OOD


def measure(trace: np.ndarray, name: str, number: int = 0) -> Draw:
    """Look for changes and differences in one channel of a trace [rows, channels]."""
    values, rows = np.ascontiguousarray(trace[:, CHANNEL]), len(trace)
    changes = {sigmas: find_changes(values, ChangePoints(sigmas)) for sigmas in SIGMAS}
    means = block_means(values[:, None], -(-rows // POINTS))[:, 0]
    places = np.linspace(0, rows - 1, min(rows, POINTS)).round().astype(np.int64)
    far = np.abs(values[places][:, None] - values[places][None]) > RADIUS
    before = np.tri(len(places), k=-1, dtype=bool)
    ood = (far & before).sum(axis=1) / np.maximum(np.arange(len(places)), 1)
    return Draw(name, number, rows, means, changes, ood)


def summary(draws: Sequence[Draw], control: Draw) -> Table:
    """Trace 2 as it is, all of its draws, and the control."""
    rows: list[list[Cell]] = []
    for sigmas in SIGMAS:
        counts = [len(draw.changes[sigmas]) for draw in draws]
        first = ", ".join(f"{x / 1e6:.3f}" for x in draws[0].changes[sigmas][:4]) or None
        label = f"change points, sigmas = {sigmas:.1f}"
        control_count = len(control.changes[sigmas])
        rows.append([label, counts[0], PAPER.get(sigmas), Median.of(counts), control_count, first])
    shares = [100 * float(draw.ood.mean()) for draw in draws]
    label = f"share of the past with |z_i - z_j| > {RADIUS:g}, in %"
    last = [Median.of(shares), 100 * float(control.ood.mean()), None]
    rows.append([label, shares[0], None, *last])
    columns = [
        Column(name, "g", decimals=3, about=about)
        for name, about in (
            ("trace 2", "the paper's trace"),
            ("paper", "what the paper reports for it"),
            (f"{len(draws)} draws", "median over trace 2 with other fine noise (range)"),
            ("trace 3", "for comparison: a trace with jumps"),
        )
    ]
    columns.append(Column("first at", about="in trace 2, in million steps"))
    title = f"wind along y, {draws[0].rows:,} steps; a draw is trace 2 with other fine noise"
    heading = "Change points, and the share of the past that is out of distribution"
    return Table(["found", *columns], rows, title=title, heading=heading)


def figure(draws: Sequence[Draw]) -> figures.Picture:
    """Trace 2, and the draw on which the two detectors disagree the most."""
    chosen = [draws[0]]
    if len(draws) > 1:
        few, many = SIGMAS
        apart = [abs(len(draw.changes[many]) - len(draw.changes[few])) for draw in draws]
        chosen.append(max(draws[1:], key=lambda draw: apart[draw.number]))
    shape = figures.new_figure(5.6 * len(chosen), 5.6)
    axes = shape.subplots(3, len(chosen), sharex=True, squeeze=False)
    for column, draw in zip(axes.T, chosen, strict=True):
        name = "trace 2" if draw.number == 0 else f"trace 2, other fine noise (draw {draw.number})"
        for axis, sigmas in zip(column, SIGMAS, strict=False):
            _draw_changes(axis, draw, sigmas)
        column[0].set_title(f"{name}\n{column[0].get_title(loc='left')}", loc="left")
        _draw_shares(column[-1], draw)
    caption = (
        "Above: the wind along y, with a vertical line at each change point found, for two "
        f"sensitivities. Below: the share of the past that is more than {RADIUS:g} away."
    )
    if len(chosen) > 1:
        caption += " Right: the draw of the noise on which the two sensitivities disagree most."
    return figures.to_picture(
        shape, "Change points depend on the sensitivity; distances do not", caption
    )


def _draw_changes(axis: Any, draw: Draw, sigmas: float) -> None:
    middle = (np.arange(len(draw.means)) + 0.5) * -(-draw.rows // POINTS) / 1e6
    axis.plot(middle, draw.means, lw=0.9, color=COLOURS[0])
    for place in draw.changes[sigmas]:
        axis.axvline(place / 1e6, color=COLOURS[1], lw=0.9)
    count = len(draw.changes[sigmas])
    axis.set_title(f"change points: {count}, at {sigmas:.1f} standard deviations", loc="left")
    axis.set(ylabel="wind along y")
    axis.spines[["top", "right"]].set_visible(False)


def _draw_shares(axis: Any, draw: Draw) -> None:
    time = np.linspace(0, draw.rows, len(draw.ood)) / 1e6
    axis.fill_between(time, 100 * draw.ood, color=COLOURS[2], alpha=0.4, lw=0)
    axis.plot(time, 100 * draw.ood, lw=0.9, color=COLOURS[2])
    axis.set_title(f"Past more than {RADIUS:g} away from the present (OOD)", loc="left")
    axis.set(xlabel="million steps", ylabel="share (%)", ylim=(0, 101))
    axis.set(xlim=(0, draw.rows / 1e6))
    axis.spines[["top", "right"]].set_visible(False)


HELP = "Figure 2: change points of a smooth context depend on the sensitivity; distances do not"
study = Study(HELP, CpdOptions, plan_runs, report)

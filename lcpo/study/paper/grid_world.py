"""The paper's Figure 1: a grid world in which a trap appears and later disappears.

A2C learns the way around the trap and forgets the direct way; LCPO and tabular A2C return to it at
once. All seeds count; the published figure shows four that were picked by hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lcpo.run.plan.job import Job
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.study.cases import agent_cases, plan_cases
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Column, Median, count_of
from lcpo.study.report.document import seeds_table
from lcpo.study.report.report import SEEDS
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Report, Study

AGENTS = {"a2c": "A2C", "tabular-a2c": "Tabular A2C", "lcpo": "LCPO"}
COLOURS = {"a2c": "#D55E00", "tabular-a2c": "#7f7f7f", "lcpo": "#0072B2"}
STEPS_PER_EPOCH = 200
EPOCHS = 20_000
MEANING = (
    "The trap is there from 20 % to 80 % of the run. Best returns: -3 without it, -5 with it.",
    "back: epochs after it left until ten epochs average -3.3 or better.",
    "TV: largest distance to the best action beside the start, with the trap's context, after the "
    "trap left: 0 remembers it, 1 has forgotten it.",
    "return with trap: mean over the last 5 % of the run before the trap leaves.",
)


@dataclasses.dataclass(frozen=True)
class GridWorldOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("agents", "envs", "traces")


def plan_runs(options: GridWorldOptions) -> list[Job]:
    """The slowest agent first: no core waits for it at the end."""
    cases, name = agent_cases("lcpo,a2c,tabular-a2c"), ["grid-world"]
    return plan_cases(options, cases, name, name, steps=EPOCHS * STEPS_PER_EPOCH, seeds=4)


def report(options: GridWorldOptions, results: Sequence[Result]) -> Report:
    """The figure, and what it shows in numbers."""
    del options
    return Report(
        seeds=seeds_table(results, seed_numbers),
        tables={"table": summary(results)},
        figures={"figure": draw(results)},
    )


def seed_numbers(result: Result) -> dict[str, float]:
    """A run's numbers in seeds.csv.

    The mean return over the last 5 % of the run with the trap; epochs after it left until a
    ten-epoch mean of the return reaches -3.3 (inf: never); the largest total-variation distance at
    the trap's landmark after it left.
    """
    record, epoch = result.record, result.record["step"] / STEPS_PER_EPOCH
    end = float(epoch[-1])
    left = 0.8 * end
    late, before = epoch > left, (epoch > left - 0.05 * end) & (epoch <= left)
    rows = max(1, round(10 / record["updates"][0]))
    means = np.convolve(record["epoch_return"][late], np.full(rows, 1 / rows), "valid")
    reached = np.flatnonzero(means >= -3.3)
    back = epoch[late][reached[0] + rows - 1] - left if len(reached) else np.inf
    return {
        "return_with_trap": float(record["epoch_return"][before].mean()),
        "epochs_to_return": float(back),
        "worst_tv_trap": float(record["tv_trap"][late].max()),
    }


def summary(results: Sequence[Result]) -> Table:
    """Median over all seeds, and their range."""
    rows: list[list[Cell]] = []
    for agent, title in AGENTS.items():
        runs = [r for r in results if r.job.agent == agent]
        mine = [seed_numbers(r) for r in runs if r.status == "finished"]
        if not mine:
            continue
        returns, back, distance = (Median.of([x[name] for x in mine]) for name in mine[0])
        rows.append([title, back, distance, returns, count_of(len(mine), len(runs))])
    columns = [Column("back", "until"), Column("TV", decimals=2),
               Column("return with trap", decimals=2), SEEDS]  # fmt: skip
    steps = max(r.job.steps for r in results)
    title = f"grid world, {steps:,} steps; median over seeds (lowest .. highest)"
    heading = "How fast each agent returns to the direct way after the trap left"
    return Table(["agent", *columns], rows, title=title, notes=MEANING, heading=heading)


def draw(results: Sequence[Result]) -> figures.Picture:
    """The two modes with their best paths, returns over time, distance to the best action."""
    shape = figures.new_figure(11, 6.4)
    grid = shape.add_gridspec(2, 3, width_ratios=[1, 2.6, 2.6])
    _draw_mode(shape.add_subplot(grid[0, 0]), trap=False)
    _draw_mode(shape.add_subplot(grid[1, 0]), trap=True)
    whole = shape.add_subplot(grid[0, 1:])
    no_trap, trap = shape.add_subplot(grid[1, 1]), shape.add_subplot(grid[1, 2])
    for agent, title in AGENTS.items():
        records = [r.record for r in results if r.job.agent == agent and r.record]
        if records:
            _curve(whole, records, "epoch_return", COLOURS[agent], title)
            _curve(no_trap, records, "tv_no_trap", COLOURS[agent], title)
            _curve(trap, records, "tv_trap", COLOURS[agent], title)
    whole.set(ylabel="episode return", ylim=(-21, -2), title="Return (line: mean; band: all seeds)")
    whole.legend(loc="lower right", frameon=False, ncols=3)
    no_trap.set(ylabel="distance to the best action", title="Beside the start, no trap: best is up")
    trap.set(title="Beside the start, trap: best is left")
    end = max(float(r.record["step"][-1] / STEPS_PER_EPOCH) for r in results if r.record)
    for axis in (whole, no_trap, trap):
        axis.axvspan(0.2 * end, 0.8 * end, color="0.93", zorder=0)
        axis.set(xlim=(0, end), xlabel="epoch (grey: the trap is there)")
        axis.set_xticks([0.2 * k * end for k in range(6)])
        axis.spines[["top", "right"]].set_visible(False)
    for axis in (no_trap, trap):
        axis.set_ylim(-0.03, 1.03)
    return figures.to_picture(
        shape,
        "Return, and distance to the best action, over the run",
        "Lines are means over seeds, bands their range; grey: the trap is there. Left: the best "
        "path without and with the trap. Below: total variation distance of the policy to the best "
        "action beside the start, in the context without (left) and with the trap (right).",
        dpi=130,
    )


def _curve(axis: Any, records: list[Record], column: str, colour: str, label: str) -> None:
    """Mean over seeds of means over about 20 epochs, and the range over seeds."""
    width = max(1, 20 // int(records[0]["updates"][0]))
    count = min(len(r[column]) for r in records) // width * width
    values = np.stack([r[column][:count].reshape(-1, width).mean(axis=1) for r in records])
    epoch = records[0]["step"][:count].reshape(-1, width)[:, -1] / STEPS_PER_EPOCH
    axis.fill_between(epoch, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, lw=0)
    axis.plot(epoch, values.mean(axis=0), color=colour, lw=1.2, label=label)


def _draw_mode(axis: Any, trap: bool) -> None:
    """The grid with start, exit, wall, and the best path in blue."""
    path = [(2, 2), (2, 1), (1, 1), (0, 1), (0, 2)]
    if trap:
        path = [(2, 2), (2, 1), (2, 0), (1, 0), (0, 0), (0, 1), (0, 2)]
    names = {(2, 2): "start", (0, 2): "exit", (1, 2): "wall", (1, 1): "trap" if trap else ""}
    fills = {(1, 2): "0.35", (0, 2): "#b7e3b0", (2, 1): "#9ecae1"}
    if trap:
        fills[(1, 1)] = "#f4a582"
    for row in range(3):
        for col in range(3):
            face = fills.get((row, col), "white")
            axis.add_patch(_square(row, col, face))
            colour = "white" if face == "0.35" else "black"
            axis.text(col + 0.5, 2.78 - row, names.get((row, col), ""), color=colour,
                      ha="center", va="center", fontsize=8)  # fmt: skip
    xs, ys = [c + 0.5 for _, c in path], [2.45 - r for r, _ in path]
    axis.plot(xs, ys, color="#2171b5", lw=2)
    axis.annotate("", (xs[-1], ys[-1]), (xs[-2], ys[-2]), arrowprops={"arrowstyle": "->",
                  "color": "#2171b5", "lw": 2})  # fmt: skip
    axis.set(xlim=(-0.03, 3.03), ylim=(-0.03, 3.03), aspect="equal", xticks=[], yticks=[])
    axis.set_title("trap: best return -5" if trap else "no trap: best return -3", fontsize=9)
    axis.axis("off")


def _square(row: int, col: int, face: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((col, 2 - row), 1, 1, facecolor=face, edgecolor="0.5")


study = Study(
    "Figure 1: what A2C forgets, and LCPO and tables do not", GridWorldOptions, plan_runs, report
)

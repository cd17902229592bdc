"""Which agent to use? LCPO, its variants and rivals, and their costs. Not in the paper.

The paper's agents make one gradient step of their value function per rollout, and those with replay
one step in all. Here they also make more, and LCPO takes larger steps. LCPO+ has its defaults. The
cost is the time of one core per interaction, measured by `benchmarks/rivals_cost.py`.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lcpo.study.cases import Case
from lcpo.study.controls import drawn_tables
from lcpo.study.controls.drawn import DrawnRun, Key, drawn_study, points_of
from lcpo.study.controls.drawn_tables import BETTER, DIFFERENCE, Returns, gains
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Change, Column
from lcpo.study.report.tables import Table

VALUE_STEPS = {"value_steps": (1, 5)}
ANCHORED = {"c_anchor": (1e-4, 1e-3), **VALUE_STEPS}
REPLAY = {"updates_per_rollout": (1, 10)}
MORE_REPLAY = {"updates_per_rollout": (1, 2, 4, 10)}
CASES = [
    Case("lcpo", sweep=ANCHORED),
    Case("lcpo-uniform", sweep=ANCHORED),
    Case("a2c", sweep=VALUE_STEPS),
    Case("ppo", sweep=VALUE_STEPS),
    Case("sac", sweep=MORE_REPLAY),
    Case("ddqn", sweep=REPLAY),
    Case("clear", sweep=REPLAY),
    Case("lcpo-plus"),
]
POINTS = points_of(CASES)
PAPER: Key = ("lcpo", "c_anchor=0.0001-value_steps=1")
UNIFORM: Key = ("lcpo-uniform", "c_anchor=0.001-value_steps=5")
"""The best of LCPO's own settings, which change no part of the algorithm but its anchors."""
COST = Column(
    "microseconds",
    about="of one core per interaction on the Pendulum, by benchmarks/rivals_cost.py",
)


def report(runs: Sequence[DrawnRun]) -> tuple[dict[str, Table], dict[str, figures.Picture]]:
    """The tables, and returns against cost."""
    shown = {"table": summary(runs), "work": more_work(runs)}
    best, cases = best_of(runs), drawn_tables.groups(runs)
    shown["best"] = beside(runs, best, "best over all whole runs")
    if best != UNIFORM and UNIFORM in cases:
        shown["uniform"] = beside(runs, UNIFORM, "the best of LCPO's own settings")
    # An agent that the study does not list has no measured cost, and may be alone.
    shown = {name: table for name, table in shown.items() if table.rows}
    return shown, {"cost": draw(runs)} if costs().keys() & cases.keys() else {}


def summary(runs: Sequence[DrawnRun]) -> Table:
    """A row per family and case, with what it costs."""
    note = f"microseconds: {COST.about}"
    if any(run.env != "pendulum" for run in runs):
        note += "; another environment adds the same to all agents"
    columns = ["agent", "setting", COST._replace(side="l", about="")]
    against = "the paper's LCPO"
    return drawn_tables.summary(runs, columns, describe, lambda key: PAPER, against, [note])


def describe(key: Key) -> tuple[str, str, float | None]:
    """Agent, setting in words, cost."""
    point = POINTS.get(key)
    words = (f"{field.replace('_', ' ')} {value}" for field, value in (point or {}).items())
    setting = key[1] if point is None else ", ".join(words)
    return key[0], setting or "defaults", costs().get(key)


def more_work(runs: Sequence[DrawnRun]) -> Table:
    """What more gradient steps per rollout do: a row per family and line of the figure."""
    rows: list[list[Cell]] = []
    for part, cases in drawn_tables.parts(runs).items():
        for name, (less, *_, more) in lines(at_least=2).items():
            if less in cases and more in cases:
                late, whole = (gains(cases, more, less, field) for field in ("after", "whole"))
                steps = Change(*(list(POINTS[key].values())[-1] for key in (less, more)))
                cost = Change(*map(costs().get, (less, more)))
                rows.append([part, name, steps, cost, late[0], *whole])
    columns = [
        Column("steps per rollout", side="l", about="gradient steps, of less and of more work"),
        COST,
        Column("gain after warm-up", "+", about=DIFFERENCE),
        Column("gain, whole run", "+", about=DIFFERENCE),
        BETTER,
    ]
    title = f"{drawn_tables.title(runs)}: what more gradient steps change"
    return Table(["trace", "agent", *columns], rows, title=title, heading="Return for more work")


def best_of(runs: Sequence[DrawnRun]) -> Key:
    """The case that is best over all whole runs. It need not be the best on each family."""
    cases = drawn_tables.groups(runs).items()
    found = {key: drawn_tables.returns(mine, "whole") for key, mine in cases}
    means = {key: drawn_tables.estimate(mine).mean for key, mine in found.items() if mine}
    return max(means, key=lambda key: means[key], default=PAPER)


def beside(runs: Sequence[DrawnRun], chosen: Key, words: str) -> Table:
    """A case minus each other one: a row per family and case; `words`: why this case."""
    rows: list[list[Cell]] = []
    for part, cases in drawn_tables.parts(runs).items():
        for key in cases:
            if key != chosen:
                whole, late = (gains(cases, chosen, key, field) for field in ("whole", "after"))
                rows.append([part, *describe(key), *whole, *late])
    agent, setting, _ = describe(chosen)
    columns = [
        COST,
        Column("whole run", "+", about=DIFFERENCE),
        BETTER,
        Column("after warm-up", "+", about=DIFFERENCE),
        Column("better then on", about=BETTER.about),
    ]
    title = f"{drawn_tables.title(runs)}: {agent}, {setting}, {words}, minus others"
    heading = f"{agent}, {setting}, minus each other agent"
    return Table(["trace", "minus", "setting", *columns], rows, title=title, heading=heading)


@functools.cache
def costs() -> dict[Key, float]:
    """Microseconds of one core per interaction, on the windy Pendulum."""
    file = importlib.resources.files("lcpo.study") / "data" / "rivals-cost.csv"
    with file.open("r") as lines:
        rows = list(csv.DictReader(lines))
    return {(row["agent"], row["setting"]): float(row["microseconds"]) for row in rows}


ROWS = (
    ("whole", False, "whole run", "return"),
    ("whole", True, "whole run", "gain over the paper's LCPO"),
    ("after", True, "after warm-up", "gain over the paper's LCPO"),
)
"""Axes of the figure: what is shown, whether as a difference on the same traces, the label."""
TICKS = (4, 8, 16, 32, 64)


def draw(runs: Sequence[DrawnRun]) -> figures.Picture:
    """Return against cost, a column per family.

    A line joins an agent with little work per rollout to the same with more (the last is filled).
    A grey line is the frontier: the best return for the cost or less.
    """
    kinds = list(dict.fromkeys((run.env, run.kind) for run in runs))
    figure = figures.new_figure(3.4 * len(kinds) + 2.0, 9.0)
    for place, (env, kind) in enumerate(kinds):
        cases = drawn_tables.groups([r for r in runs if (r.env, r.kind) == (env, kind)])
        for row, (field, gain, words, label) in enumerate(ROWS):
            axes = figure.add_subplot(len(ROWS), len(kinds), row * len(kinds) + place + 1)
            found = {key: drawn_tables.returns(mine, field) for key, mine in cases.items()}
            shown = {key: _place(found, key, gain) for key in POINTS}
            for colour, (name, keys) in enumerate(lines().items()):
                _draw_line(axes, [point for key in keys if (point := shown[key])], name, colour)
            _draw_frontier(axes, [point for point in shown.values() if point])
            axes.set(xscale="log", title=f"{kind}, {words}")
            axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
            axes.minorticks_off()
            if row == len(ROWS) - 1:
                axes.set_xlabel("microseconds per interaction (Pendulum)")
            if place == 0:
                axes.set_ylabel(label)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", frameon=False, ncols=4)
    figure.supxlabel("filled: most gradient steps per rollout; grey: best return for the cost")
    return figures.to_picture(
        figure,
        "Return of each agent against its cost",
        "A column per family of traces. A line joins an agent with one gradient step per rollout "
        "(open) to the same agent with more (filled: most). The grey line is the frontier: the "
        "best return at this cost or less. Bars are 95 % intervals.",
    )


def lines(at_least: int = 1) -> dict[str, list[Key]]:
    """By name, the cases that a line of the figure joins: from little work to much."""
    found: dict[str, list[Key]] = {}
    for key, point in POINTS.items():
        fixed = (f"{field} {value}" for field, value in list(point.items())[:-1])
        found.setdefault(", ".join([key[0], *fixed]), []).append(key)
    return {name: keys for name, keys in found.items() if len(keys) >= at_least}


class Place(NamedTuple):
    """A point of the figure."""

    cost: float
    height: Estimate


def _place(found: Mapping[Key, Returns], key: Key, gain: bool) -> Place | None:
    mine, paper = found.get(key), found.get(PAPER)
    if not mine or key not in costs() or (gain and not paper):
        return None
    height = drawn_tables.gain(mine, paper or {}) if gain else drawn_tables.estimate(mine)
    return Place(costs()[key], height)


def _draw_line(axes: Any, points: Sequence[Place], name: str, number: int) -> None:
    if not points:
        return
    colour = f"C{number}" if number < 10 else "black"
    axes.plot([p.cost for p in points], [p.height.mean for p in points], color=colour, label=name)
    for point in points:
        y = point.height
        bars = [[max(y.mean - y.low, 0.0)], [max(y.high - y.mean, 0.0)]]
        face = colour if point is points[-1] else "white"
        axes.errorbar(point.cost, y.mean, bars, fmt="o", color=colour, markerfacecolor=face)


def _draw_frontier(axes: Any, points: Sequence[Place]) -> None:
    best: list[tuple[float, float]] = []
    for cost, height in sorted(points):
        if not best or height.mean > best[-1][1]:
            best.append((cost, height.mean))
    if best:
        costs_there, heights = zip(*best, strict=True)
        axes.step(costs_there, heights, where="post", color="0.7", linewidth=4, zorder=0)


HELP = "Not in the paper: LCPO's variants and rivals on drawn traces, and what each costs"
study = drawn_study(HELP, CASES, report)

"""What should a user take? Not in the paper: LCPO, its variants and rivals, with what each costs.

The paper's agents make one gradient step of their value function per rollout, and those with replay
one step in all. Here they also make more, and LCPO takes larger steps. Cost is the time of one core
per interaction, as `benchmarks/rivals_cost.py` measured it.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from collections.abc import Sequence
from typing import Any

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study import drawn, drawn_tables, figures, stats, tables
from lcpo.study.drawn import Case, DrawnOptions
from lcpo.study.drawn_tables import Key, Run
from lcpo.study.study import Report, Study

VALUE_STEPS = {"value_steps": (1, 5)}
ANCHORED = {"c_anchor": (1e-4, 1e-3), **VALUE_STEPS}
REPLAY = {"updates_per_rollout": (1, 10)}
CASES = {
    "lcpo": Case(ANCHORED),
    "lcpo-uniform": Case(ANCHORED),
    "a2c": Case(VALUE_STEPS),
    "ppo": Case(VALUE_STEPS),
    "sac": Case(REPLAY),
    "ddqn": Case(REPLAY),
}
PAPER: Key = ("lcpo", "c_anchor=0.0001-value_steps=1")


def plan_runs(options: DrawnOptions) -> list[Job]:
    """Every case on every trace."""
    return drawn.plan_runs(options, CASES)


def make_report(options: DrawnOptions, results: Sequence[Result]) -> Report:
    """The table, and returns against cost."""
    seeds, made = drawn.seeds_of(options, results, drawn.chosen_cases(options, CASES))
    runs = drawn_tables.runs_of(seeds)
    table = drawn_tables.summary(
        runs, ["agent", "setting", "microseconds"], describe, lambda key: PAPER, "the paper's LCPO"
    )
    note = "microseconds of one core per interaction, measured by benchmarks/rivals_cost.py"
    table = table._replace(notes=[note])
    both = {"table": table, "work": more_work(runs)}
    return Report(seeds, both, figures={"cost": draw(runs)}, made=made)


def describe(key: Key) -> list[str]:
    """Agent, setting in words, cost."""
    agent, setting = key
    words = setting.replace("updates_per_rollout", "gradient steps").replace("_", " ")
    return [agent, words.replace("=", " ").replace("-v", ", v"), tables.number(costs().get(key))]


def more_work(runs: Sequence[Run]) -> tables.Table:
    """What more gradient steps per rollout do: a row per family and line of the figure."""
    rows = []
    for part, here in drawn_tables.parts(runs).items():
        cases = drawn_tables.groups(here)
        for name, (less, more) in lines().items():
            if less in cases and more in cases:
                late, whole = (
                    drawn_tables.gain_cells(
                        *(drawn_tables.returns(cases[key], field) for key in (more, less))
                    )
                    for field in ("after", "whole")
                )
                times = [costs().get(key, stats.NAN) for key in (less, more)]
                steps = " to ".join(key[1].rpartition("=")[2] for key in (less, more))
                cost = " to ".join(tables.number(us) for us in times)
                rows.append([part, name, steps, cost, late[0], *whole])
    return tables.Table(
        ["trace", "agent", "steps per rollout", "microseconds", "gain after warm-up",
         "gain, whole run", "better on"],
        rows,
        "lllrrrr",
        f"{drawn_tables.title(runs)}: what more gradient steps change",
    )  # fmt: skip


@functools.cache
def costs() -> dict[Key, float]:
    """Microseconds of one core per interaction, on the windy Pendulum."""
    file = importlib.resources.files("lcpo.study") / "data" / "rivals-cost.csv"
    with file.open("r") as lines:
        return {
            (row["agent"], row["setting"]): float(row["microseconds"])
            for row in csv.DictReader(lines)
        }


def draw(runs: Sequence[Run]) -> bytes:
    """Return against cost, a column per family: over the whole run, and after the warm-up.

    A line joins an agent with little work per rollout to the same with more (the filled point).
    """
    kinds = list(dict.fromkeys((run.env, run.kind) for run in runs))
    figure = figures.new_figure(3.6 * len(kinds) + 1.6, 6.4)
    for place, (env, kind) in enumerate(kinds):
        here = [run for run in runs if (run.env, run.kind) == (env, kind)]
        for row, (field, words) in enumerate((("whole", "whole run"), ("after", "after warm-up"))):
            axes = figure.add_subplot(2, len(kinds), row * len(kinds) + place + 1)
            for number, (name, pair) in enumerate(lines().items()):
                _draw_line(axes, here, field, name, pair, f"C{number}")
            axes.set(xscale="log", title=f"{kind}, {words}")
            if row == 1:
                axes.set_xlabel("microseconds per interaction")
            if place == 0:
                axes.set_ylabel("return")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    return figures.to_png(figure)


def lines() -> dict[str, list[Key]]:
    """By name, the two cases that a line of the figure joins: little work, and more."""
    found: dict[str, list[Key]] = {}
    for agent, case in CASES.items():
        for point in case.settings():
            fixed = point.rpartition("-")[0]
            name = f"{agent}, {fixed.replace('=', ' ')}" if fixed else agent
            found.setdefault(name, []).append((agent, point))
    return found


def _draw_line(
    axes: Any, runs: Sequence[Run], field: str, name: str, keys: Sequence[Key], colour: str
) -> None:
    points = []
    for key in keys:
        mine = drawn_tables.returns([r for r in runs if (r.agent, r.setting) == key], field)
        if mine and key in costs():
            points.append((costs()[key], drawn_tables.estimate(mine), key == keys[-1]))
    if not points:
        return
    axes.plot([x for x, *_ in points], [y.mean for _, y, _ in points], color=colour, label=name)
    for x, y, more in points:
        half = 0.5 * (y.high - y.low)
        axes.errorbar(
            x, y.mean, half, fmt="o", color=colour, markerfacecolor=colour if more else "white"
        )


study = Study(
    "Not in the paper: LCPO's variants and rivals on drawn traces, and what each costs",
    DrawnOptions,
    plan_runs,
    make_report,
)

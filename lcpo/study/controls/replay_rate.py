"""DDQN and SAC with more than the paper's one gradient step per 200 interactions.

Not in the paper. On-policy agents with the same number of interactions are shown for comparison.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from lcpo.agents import find_agent
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.cases import Case
from lcpo.study.measure import stats
from lcpo.study.measure.compare import Summary
from lcpo.study.measure.stats import Estimate
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Field, Line, column_study
from lcpo.study.report.cells import Column
from lcpo.study.study import Options, listed, listed_numbers

PHASES = {"random_steps": 200_000, "epsilon_steps": 1_000_000}
"""As in the paper, in runs that are shorter than its own."""


@dataclasses.dataclass(frozen=True)
class ReplayRateOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs",)

    traces: str = "3"
    """Context: a name or a file."""
    agents: str = "ddqn,sac"
    """Agents with replay, separated by commas."""
    rates: str = "1,10,50"
    """Gradient steps per rollout, separated by commas."""
    beside: str = "lcpo,a2c"
    """Agents without replay, separated by commas."""
    steps: int = 2_000_000
    """Interactions of each run."""


def cases(options: ReplayRateOptions) -> list[Case]:
    """Every agent with every rate, then those without replay."""
    rates, found = listed_numbers("rates", options.rates, int), []
    for agent in listed("agents", options.agents):
        known = {field.name for field in dataclasses.fields(find_agent(agent).Config)}
        values = {name: value for name, value in PHASES.items() if name in known}
        found.append(Case(agent, values=values, sweep={"updates_per_rollout": rates}))
    return [*found, Case(options.beside)] if options.beside.strip() else found


def numbers(comparison: Summary, result: Result) -> dict[str, float | None]:
    """A run's numbers in seeds.csv: returns of its first and last quarter, and of all of it."""
    record, steps = result.record, comparison.steps
    return {
        "first_quarter": records.lifelong_return(record, 0, steps // 4 + 1),
        "last_quarter": records.lifelong_return(record, steps - steps // 4),
        "whole_run": records.lifelong_return(record),
    }


def mean_field(title: str, name: str, about: str) -> Field:
    """One of the numbers, over seeds."""

    def cell(line: Line) -> Estimate:
        found = [numbers(line.part.comparison, run)[name] for run in line.finished]
        return stats.mean_ci([value for value in found if value is not None])

    return Column(title, about=about), cell


study = column_study(
    "Not in the paper: DDQN and SAC with more gradient steps per rollout",
    ReplayRateOptions,
    cases,
    where=lambda options: (["pendulum"], [options.traces]),
    steps=lambda options: options.steps,
    seeds=8,
    marked=False,
    fields=[
        columns.AGENT,
        (
            Column("steps per rollout", about="gradient steps after each rollout"),
            lambda line: line.job.config.get("updates_per_rollout"),
        ),
        mean_field("last {quarter}", "last_quarter", "return over the last {quarter} steps"),
        mean_field("whole run", "whole_run", columns.WHOLE[0].about),
        mean_field("first {quarter}", "first_quarter", "return over the first {quarter} steps"),
        columns.ENDED,
    ],
    heading="Return by the number of gradient steps per rollout",
    title="pendulum, trace {trace}, {longest} steps: return; {intervals}",
    numbers=numbers,
)

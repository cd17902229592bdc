"""Are the paper's DDQN and SAC starved? They make one gradient step per 200 interactions.

Not in the paper: the same agents with more steps per rollout, beside on-policy ones over the same
interactions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lcpo.agents import find_agent
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.cases import Case, plan_cases
from lcpo.study.measure import compare, stats
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report.cells import Column, count_of
from lcpo.study.report.tables import Table, short_count
from lcpo.study.study import Options, Report, Study, listed

PHASES = {"random_steps": 200_000, "epsilon_steps": 1_000_000}
"""The paper's, in runs that are shorter than its own."""


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


def plan_runs(options: ReplayRateOptions) -> list[Job]:
    """Every agent with every rate and seed, then those without replay."""
    try:
        rates = [int(rate) for rate in options.rates.split(",")]
    except ValueError:
        raise InputError(f"rates = {options.rates!r}: needs numbers, as in 1,10,50") from None
    cases = []
    for agent in listed("agents", options.agents):
        known = {field.name for field in dataclasses.fields(find_agent(agent).Config)}
        values = {name: value for name, value in PHASES.items() if name in known}
        cases.append(Case(agent, values=values, sweep={"updates_per_rollout": rates}))
    if options.beside.strip():
        cases.append(Case(options.beside))
    where = ["pendulum"], [options.traces]
    return plan_cases(options, cases, *where, steps=options.steps, seeds=8)


def report(options: ReplayRateOptions, results: Sequence[Result]) -> Report:
    """The table."""
    del options
    steps = max(result.job.steps for result in results)
    table = summary(results, steps)
    return Report(seeds_table(results, lambda r: seed_numbers(r, steps)), {"table": table})


def seed_numbers(result: Result, steps: int) -> dict[str, float]:
    """What seeds.csv says of a run: returns of its first and last quarter, and of all of it."""
    record = result.record
    return {
        "first_quarter": records.lifelong_return(record, 0, steps // 4 + 1),
        "last_quarter": records.lifelong_return(record, steps - steps // 4),
        "whole_run": records.lifelong_return(record),
    }


def summary(results: Sequence[Result], steps: int) -> Table:
    """A row per agent and rate."""
    rows = []
    for members in compare.group(results).values():
        job, finished = members[0].job, compare.finished_runs(members)
        numbers = [seed_numbers(run, steps) for run in finished]
        means = (
            stats.mean_ci([mine[name] for mine in numbers])
            for name in ("first_quarter", "last_quarter", "whole_run")
        )
        rate = job.config.get("updates_per_rollout")
        rows.append([job.agent, rate, count_of(len(finished), len(members)), *means])
    quarter = short_count(steps // 4)
    numbers = ("steps per rollout", "seeds", f"first {quarter}", f"last {quarter}", "whole run")
    where = f"pendulum, trace {results[0].job.trace}, {steps:,} steps"
    title = f"{where}: return; 95 % intervals over seeds"
    return Table(["agent", *map(Column, numbers)], rows, title=title)


study = Study(
    "Not in the paper: DDQN and SAC with more gradient steps per rollout",
    ReplayRateOptions,
    plan_runs,
    report,
)

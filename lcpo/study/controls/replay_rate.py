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
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report import tables
from lcpo.study.study import Options, Report, Study, listed


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


PHASES = {"random_steps": 200_000, "epsilon_steps": 1_000_000}
"""The paper's, in runs that are shorter than its own."""


def plan_runs(options: ReplayRateOptions) -> list[Job]:
    """Every agent with every rate and seed, then those without replay."""
    try:
        rates = [int(rate) for rate in options.rates.split(",")]
    except ValueError:
        raise InputError(f"rates = {options.rates!r}: needs numbers, as in 1,10,50") from None

    def planned(agents: str, sweep: dict[str, list[int]], **values: int) -> list[Job]:
        return plan_agents(
            agents,
            "pendulum",
            trace=options.traces,
            steps=options.steps,
            fraction=options.fraction,
            seeds=range(options.num_seeds(8)),
            published=options.published,
            sweep=sweep,
            overrides=values,
        )

    beside = planned(options.beside, {}) if options.beside.strip() else []
    jobs = []
    for agent in listed("agents", options.agents):
        known = {f.name for f in dataclasses.fields(find_agent(agent).Config)}
        values = {name: value for name, value in PHASES.items() if name in known}
        jobs += planned(agent, {"updates_per_rollout": rates}, **values)
    return jobs + beside


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


def summary(results: Sequence[Result], steps: int) -> tables.Table:
    """A row per agent and rate."""
    rows = []
    for members in compare.group(results).values():
        finished = compare.finished_runs(members)
        numbers = [seed_numbers(r, steps) for r in finished]
        total = str(len(members))
        rows.append(
            [
                members[0].job.agent,
                str(members[0].job.config.get("updates_per_rollout", tables.NONE)),
                total if len(finished) == len(members) else f"{len(finished)} of {total}",
                *(
                    tables.plus_minus(stats.mean_ci([mine[name] for mine in numbers]))
                    for name in ("first_quarter", "last_quarter", "whole_run")
                ),
            ]
        )
    quarter = tables.short_count(steps // 4)
    return tables.Table(
        ["agent", "steps per rollout", "seeds", f"first {quarter}", f"last {quarter}", "whole run"],
        rows,
        "lrrrrr",
        f"pendulum, trace {results[0].job.trace}, {steps:,} steps: return; 95 % intervals over "
        "seeds",
    )


study = Study(
    "Not in the paper: DDQN and SAC with more gradient steps per rollout",
    ReplayRateOptions,
    plan_runs,
    report,
)

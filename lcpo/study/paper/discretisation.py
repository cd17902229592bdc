"""The paper's table on discretised actions: how well do baselines learn plain Pendulum-v1?

15 torques, no wind, 2 million steps (10,000 epochs of 200). Reported is the mean return in training
over epochs 8001 to 8999, a tenth of the run, as the published code does. (The paper's text
says 1000 test episodes after 8000 epochs.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.cases import Case, plan_cases
from lcpo.study.measure import compare, stats
from lcpo.study.measure.paper_numbers import printed
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report.cells import Column, count_of
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Report, Setting, Study

FROM, UNTIL = 0.8, 0.9
"""The part of a run that counts."""


@dataclasses.dataclass(frozen=True)
class DiscretisationOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs", "traces")

    agents: str = "a2c,trpo,ddqn,sac,mbpo"
    """Agents, separated by commas."""
    setting: Setting = "published"
    """published: with the values and all faults of the published code, as the paper's numbers were
    made; or corrected."""


def plan_runs(options: DiscretisationOptions) -> list[Job]:
    """Every agent with every seed."""
    cases, where = [Case(options.agents)], (["pendulum-v1"], [None])
    return plan_cases(options, cases, *where, steps=2_000_000, seeds=10)


def report(options: DiscretisationOptions, results: Sequence[Result]) -> Report:
    """The table, beside the paper's."""
    del options
    seeds = seeds_table(results, lambda result: {"return": late_return(result)})
    return Report(seeds, tables={"table": summary(results)})


def late_return(result: Result) -> float:
    """Mean over the epochs that count of the mean return of the episodes that ended in each."""
    first, last = (round(share * result.job.steps) for share in (FROM, UNTIL))
    return records.lifelong_return(result.record, first, last)


def summary(results: Sequence[Result]) -> Table:
    """A row per agent: ours with its interval over seeds, and what the paper prints."""
    rows = []
    for agent in dict.fromkeys(r.job.agent for r in results):
        mine = [r for r in results if r.job.agent == agent]
        returns = [late_return(r) for r in compare.finished_runs(mine)]
        spread = [float(np.median(returns)), min(returns)] if returns else [None, None]
        paper = [
            printed("discretisation", agent, "pendulum", variant=variant)
            for variant in ("discrete-15", "sb3-rl-zoo")
        ]
        seeds = count_of(len(returns), len(mine))
        faults = ", ".join(mine[0].job.config.get("faults", ())) or "none"
        rows.append([agent, seeds, stats.mean_ci(returns), *spread, *paper, faults])
    numbers = ("seeds", "return", "median", "worst seed", "paper", "paper: SB3, continuous")
    steps = max((r.job.steps for r in results), default=0)
    return Table(
        ["agent", *map(Column, numbers), "faults repeated"],
        rows,
        title=f"Pendulum-v1, 15 torques, {steps:,} steps: mean return in training from 80 % to "
        "90 % of the run; 95 % intervals over seeds",
        compared=("return", "paper"),
    )


study = Study(
    "Table 'pend_original': baselines on Pendulum-v1 with 15 torques, beside the paper's",
    DiscretisationOptions,
    plan_runs,
    report,
)

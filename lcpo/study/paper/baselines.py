"""The paper's table of lifelong returns, in part: its learners on the windy Pendulum.

Every agent on every trace, beside what the paper prints. As everywhere, `published` repeats the
faults of the code behind the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study import compare, report, tables
from lcpo.study.compare import Comparison
from lcpo.study.paper_numbers import paper_number
from lcpo.study.seeds import seeds_table
from lcpo.study.study import Options, Report, Study, names


@dataclasses.dataclass(frozen=True)
class BaselineOptions(Options):
    """Options of the study."""

    envs: str = "pendulum"
    """Environment."""
    traces: str = "3,4"
    """Contexts, separated by commas."""
    agents: str = "lcpo,lcpo-noent,a2c,a2c-entropy,lcpo-p,ppo,ppo-entropy,trpo,ddqn,sac"
    """Agents, separated by commas."""

    def folder(self, study: str) -> Path:
        """A folder for each environment, too."""
        name = f"{study}-{self.envs}"
        return super().folder(name.replace("/", "_").replace(":", "."))


def plan_runs(options: BaselineOptions) -> list[Job]:
    """Every agent with every trace and seed."""
    return [
        job
        for trace in names(options.traces)
        for job in plan_agents(
            options.agents,
            options.envs,
            trace=trace,
            fraction=options.fraction,
            seeds=range(options.num_seeds(8)),
            published=options.published,
            label="published" if options.published else "",
        )
    ]


def make_report(options: BaselineOptions, results: Sequence[Result]) -> Report:
    """The table, beside the paper's."""
    traces = dict.fromkeys(result.job.trace for result in results)
    by_trace = {
        trace: compare.summarise([r for r in results if r.job.trace == trace]) for trace in traces
    }
    seeds = seeds_table(
        results, lambda result: report.seed_numbers(by_trace[result.job.trace], result)
    )
    return Report(seeds, tables={"table": summary(list(by_trace.values()), options.published)})


def summary(comparisons: Sequence[Comparison], published: bool) -> tables.Table:
    """A row per trace and agent."""
    rows = []
    for comparison in comparisons:
        for row in comparison.rows:
            agent = row.label.removesuffix("-published")
            rows.append(
                [
                    str(comparison.trace),
                    agent,
                    report.seeds_cell(row),
                    tables.plus_minus(row.after_warmup),
                    tables.plus_minus(row.whole_run),
                    _printed(agent, comparison.env, str(comparison.trace)),
                    tables.NONE if row.activity is None else f"{100 * row.activity:.1f} %",
                ]
            )
    first = comparisons[0]
    late = f"return after {tables.short_count(first.warmup)}"
    setting = "as published, with its faults" if published else "faults corrected"
    return tables.Table(
        ["trace", "agent", "seeds", late, "whole run", "paper", "active"],
        rows,
        "llrrrrr",
        f"{first.env}, {first.steps:,} steps, {setting}; 95 % intervals over seeds",
    )


def _printed(agent: str, env: str, trace: str) -> str:
    """What the paper prints; LCPO-P stands in a table of its own."""
    cells = (paper_number(table, agent, env, trace) for table in ("gym-all", "lcpo-variants"))
    return next((cell for cell in cells if cell != tables.NONE), tables.NONE)


study = Study(
    "Table 'gym_all', Pendulum: LCPO and the baselines, beside the paper's",
    BaselineOptions,
    plan_runs,
    make_report,
)

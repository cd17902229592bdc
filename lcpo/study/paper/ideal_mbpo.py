"""The paper's table of ideal MBPO: is it the learnt model that makes MBPO fail?

MBPO, MBPO with the true dynamics, LCPO and A2C on the windy Pendulum, beside what the paper prints.
For both MBPOs also what the paper's argument rests on: how good the learnt model is, and how old
the states are that SAC learns from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lcpo.contexts import TraceRef
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import Comparison
from lcpo.study.measure.paper_numbers import paper_number
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.paper.pendulum import PendulumOptions, plan_pendulum
from lcpo.study.report import report, tables
from lcpo.study.study import Report, Study, listed

METRICS = ("model_reward_error", "model_obs_error", "sample_age")
HEADERS = ("reward unexplained", "obs unexplained", "sample age")


@dataclasses.dataclass(frozen=True)
class IdealMbpoOptions(PendulumOptions):
    """Options of the study."""

    agents: str = "lcpo,mbpo,ideal-mbpo,a2c"
    """Agents, separated by commas."""


def plan_runs(options: IdealMbpoOptions) -> list[Job]:
    """Every agent with every trace and seed."""
    return plan_pendulum(options, listed("agents", options.agents))


def make_report(options: IdealMbpoOptions, results: Sequence[Result]) -> Report:
    """The table, beside the paper's."""
    by_trace = {
        trace: compare.summarise([r for r in results if r.job.trace == trace])
        for trace in dict.fromkeys(r.job.trace for r in compare.finished_runs(results))
    }

    def numbers(result: Result) -> dict[str, float | None]:
        comparison = by_trace[result.job.trace]
        found = {name: _late(comparison, result, name) for name in METRICS}
        return {**report.seed_numbers(comparison, result), **found}

    table = summary(by_trace, results, options.published)
    return Report(seeds_table(results, numbers), tables={"table": table})


def summary(
    by_trace: dict[TraceRef | None, Comparison], results: Sequence[Result], published: bool
) -> tables.Table:
    """A row per trace and agent."""
    rows = []
    for trace, comparison in by_trace.items():
        groups = compare.group([r for r in results if r.job.trace == trace])
        name = str(trace and trace.whole)
        for row in comparison.rows:
            agent = row.label.removesuffix("-published")
            runs = compare.finished_runs(groups[row.label])
            errors = [_mean([_late(comparison, r, name) for r in runs]) for name in METRICS]
            rows.append(
                [
                    name,
                    agent,
                    report.seeds_cell(row),
                    tables.plus_minus(row.after_warmup),
                    tables.plus_minus(row.whole_run),
                    paper_number("ideal-mbpo", agent, "pendulum", name),
                    *(tables.NONE if x is None else f"{100 * x:.3g} %" for x in errors),
                ]
            )
    first = next(iter(by_trace.values()))
    late = f"return after {tables.short_count(first.warmup)}"
    setting = "as published, with its faults" if published else "faults corrected"
    lengths = tables.lengths(comparison.steps for comparison in by_trace.values())
    random = max(result.job.config.get("random_steps", 0) for result in results)
    return tables.Table(
        ["trace", "agent", "seeds", late, "whole run", "paper", *HEADERS],
        rows,
        "llrrrrrrr",
        f"pendulum, {lengths} steps, {setting}; 95 % intervals over seeds",
        notes=(
            "unexplained: share of the variance that the learnt model does not predict, one step "
            "ahead; age: of the states that SAC learns from, as a share of the run so far; both "
            "after warm-up",
            f"MBPO's first {random:,} interactions are random",
        ),
    )


def _late(comparison: Comparison, result: Result, name: str) -> float | None:
    """Mean of a metric after warm-up; None where the agent does not have it."""
    return records.mean_metric(result.record, name, comparison.warmup)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return stats.mean_ci(known).mean if known else None


study = Study(
    "Table 'imbpo_return', Pendulum: MBPO with a learnt model and with the true one",
    IdealMbpoOptions,
    plan_runs,
    make_report,
)

"""Constraint or entropy bonus: which of the two makes LCPO what it is? Not in the paper.

                    without entropy bonus    with it
    A2C             a2c                      a2c-entropy
    constrained     lcpo-noent               lcpo

All four with the same seeds, so that effects are differences seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcpo.contexts import TraceRef
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import Comparison
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.paper.pendulum import PendulumOptions, plan_pendulum
from lcpo.study.report import report, tables
from lcpo.study.study import Report, Study, listed

AGENTS = ("a2c", "a2c-entropy", "lcpo-noent", "lcpo")
EFFECTS = {
    "entropy, of A2C": ("a2c-entropy", "a2c"),
    "entropy, of LCPO": ("lcpo", "lcpo-noent"),
    "constraint, without entropy": ("lcpo-noent", "a2c"),
    "constraint, with entropy": ("lcpo", "a2c-entropy"),
}
"""Which agent minus which other."""
SEEDS = 8


def plan_runs(options: PendulumOptions) -> list[Job]:
    """The four agents on every trace."""
    agents = AGENTS if options.agents is None else listed("agents", options.agents)
    return plan_pendulum(options, agents, seeds=SEEDS)


def make_report(options: PendulumOptions, results: Sequence[Result]) -> Report:
    """Returns, and effects."""
    del options
    traces = list(dict.fromkeys(r.job.trace for r in compare.finished_runs(results)))
    runs = {trace: [r for r in results if r.job.trace == trace] for trace in traces}
    found = {trace: compare.summarise(mine) for trace, mine in runs.items()}
    seeds = seeds_table(results, lambda r: report.seed_numbers(found[r.job.trace], r))
    both = {"table": summary(list(found.values())), "effects": effects(runs, found)}
    return Report(seeds, both)


def summary(comparisons: Sequence[Comparison]) -> tables.Table:
    """A row per trace and agent."""
    rows = [
        [str(one.trace), row.label.removesuffix("-published"), report.seeds_cell(row),
         tables.plus_minus(row.after_warmup), tables.plus_minus(row.whole_run)]
        for one in comparisons
        for row in one.rows
    ]  # fmt: skip
    first = comparisons[0]
    late = f"return after {tables.short_count(first.warmup)}"
    header = ["trace", "agent", "seeds", late, "whole run"]
    steps = tables.lengths(one.steps for one in comparisons)
    title = f"{first.env}, {steps} steps; 95 % intervals over seeds"
    return tables.Table(header, rows, "llrrr", title)


def effects(
    runs: Mapping[TraceRef | None, Sequence[Result]],
    comparisons: Mapping[TraceRef | None, Comparison],
) -> tables.Table:
    """A row per trace and effect, then how much more both do together than each alone."""
    rows = []
    for trace, results in runs.items():
        warmup = comparisons[trace].warmup
        late, whole = (_returns(results, after) for after in (warmup, 0))
        for name, (a, b) in EFFECTS.items():
            cells = [stats.paired_difference(x.get(a, {}), x.get(b, {})) for x in (late, whole)]
            rows.append([str(trace), name, *(tables.plus_minus(x, sign=True) for x in cells)])
        both = [
            stats.paired_difference(_gain(x, "lcpo", "lcpo-noent"), _gain(x, "a2c-entropy", "a2c"))
            for x in (late, whole)
        ]
        cells = (tables.plus_minus(x, sign=True) for x in both)
        rows.append([str(trace), "both, beyond the sum of each", *cells])
    header = ["trace", "effect", "return after warm-up", "whole run"]
    return tables.Table(header, rows, "llrr", "differences by seed; 95 % intervals over seeds")


def _returns(results: Sequence[Result], after: int) -> dict[str, dict[int, float]]:
    """By agent and seed."""
    finished = compare.finished_runs(results)
    endless = compare.is_endless(results)
    found: dict[str, dict[int, float]] = {}
    for r in finished:
        found.setdefault(r.job.agent, {})[r.job.seed] = compare.run_return(r.record, after, endless)
    return found


def _gain(found: Mapping[str, Mapping[int, float]], a: str, b: str) -> dict[int, float]:
    first, second = found.get(a, {}), found.get(b, {})
    return {seed: first[seed] - second[seed] for seed in first.keys() & second.keys()}


study = Study(
    "Not in the paper: LCPO's constraint and its entropy bonus, each without the other",
    PendulumOptions,
    plan_runs,
    make_report,
)

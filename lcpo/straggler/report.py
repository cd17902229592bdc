"""The tables of hedging policies, from finished runs."""

from __future__ import annotations

import importlib.resources
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.agents import AGENTS, presets
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.straggler import latency
from lcpo.straggler.latency import FIXED, NEVER, ORACLE, WorkloadRuns, best_fixed, hindsight
from lcpo.straggler.task import Straggler
from lcpo.study.costs import Steps, gradient_steps
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import paper_numbers
from lcpo.study.report.cells import NONE, Cell, Column, Count, Printed, count_of
from lcpo.study.report.document import seeds_table
from lcpo.study.report.report import SEEDS
from lcpo.study.report.tables import Table
from lcpo.study.study import Report

PAPER = importlib.resources.files("lcpo.straggler") / "data" / "straggler.csv"
"""What the paper prints."""
STEPS = 20_736_000  # interactions of the paper's runs
TRAINING, TRPO_TRAINING = 3_072_000, 2_457_600
"""Interactions that the paper's prescient agents are trained on."""
REFERENCES = ("lcpo-agg", "lcpo-med", "lcpo-cons", "lcpo-uniform-fast")
"""Agents that all others are compared with, seed by seed."""
PAPER_VARIANTS = {"lcpo-agg": "agg;sigma=5", "lcpo-med": "med;sigma=6", "lcpo-cons": "cons;sigma=7"}


class Judged(NamedTuple):
    """A run in numbers; latencies in ms, means over 5-minute buckets after the first pass."""

    p95: float
    p99: float
    p999: float
    extra_load: float  # percent
    worst_hour: float  # of the ratios to never-hedge with the same requests
    worse_hours: float  # percent of the hours that are 5 % worse than never-hedge's
    hours_until: float  # until a pass is better than with the best fixed timeout
    active: float | None  # percent of LCPO's updates
    ood: float | None  # percent of what LCPO draws from its reservoir
    budget: float | None  # gradient steps, in percent of the paper's; None: nothing is learned
    model_budget: float | None  # the same for a learned model


def judge(part: WorkloadRuns, result: Result, best: str | None) -> Judged:
    """One finished run; what needs a run of another agent with its seed is NaN without that."""
    record, after, first = result.record, part.windows, part.pass_hours
    mine, unknown = latency.by_hour(record, part.num_hours), np.full(part.num_hours, stats.NAN)
    never, fixed = (part.hours(name).get(result.job.seed, unknown) for name in (NEVER, best))
    metrics = (records.mean_metric(record, x, after) for x in ("constraint_active", "ood_share"))
    shares = budget(result.job, int(record["step"][-1])) or (None, None)
    p95, p99, p999 = (latency.mean_latency(record, after, x) for x in ("p95", "p99", "p999"))
    percents = [None if x is None else 100.0 * x for x in (*metrics, *shares)]
    extra = 100.0 * latency.extra_load(record, after)
    worst, worse = latency.worst_hour(mine, never, first), latency.worse_share(mine, never, first)
    until = latency.hours_until_better(mine, fixed, first)
    return Judged(p95, p99, p999, extra, worst, 100.0 * worse, until, *percents)


def budget(job: Job, steps: int) -> Steps | None:
    """Gradient steps of a run of so many interactions, as a share of those in the paper.

    In shortened runs agents are comparable only where their shares are about equal, whether they
    learn from their newest rollout or from replay. None: the agent does not learn, or is not ours.
    """
    if "gamma" not in job.config or job.agent not in AGENTS:
        return None
    agent, theirs = AGENTS[job.agent], STEPS
    if job.training is not None:
        steps = job.training["steps"]
        theirs = TRPO_TRAINING if job.agent == "prescient-trpo" else TRAINING
    usual = configs.to_json(agent.config(**presets.settings(agent, job.env, Straggler)))
    mine, paper = gradient_steps(job.config, steps), gradient_steps(usual, theirs)
    model = None if mine.model is None or not paper.model else mine.model / paper.model
    return Steps(mine.policy / paper.policy, model)


class AgentLine(NamedTuple):
    """A row of the table: the runs of an agent, or of one of its settings, on a workload."""

    part: WorkloadRuns
    name: str
    runs: Mapping[int, Judged]  # by seed, those that have finished
    best: Mapping[int, Judged]  # of the best fixed timeout
    oracle: Mapping[int, Judged]  # of the hourly plan

    @property
    def is_best(self) -> bool:
        """Whether it is the best fixed timeout."""
        return bool(self.runs) and self.runs is self.best

    def mean(self, field: str) -> Estimate | None:
        """Over seeds; None where a run has no such number."""
        values = [getattr(run, field) for run in self.runs.values()]
        return None if None in values else stats.mean_ci(values)

    def minus(self, other: Mapping[int, Judged], field: str = "p95") -> Estimate:
        """The mean difference to other runs, seed by seed."""
        mine, theirs = ({s: getattr(x, field) for s, x in y.items()} for y in (self.runs, other))
        return stats.paired_difference(mine, theirs)

    def share(self, field: str) -> float | None:
        """The mean of a number that does not depend on the seed; None: no run has it."""
        known = [x for x in (getattr(run, field) for run in self.runs.values()) if x is not None]
        return float(np.mean(known)) if known else None


def lines_of(part: WorkloadRuns) -> list[AgentLine]:
    """The lowest latency first; those without a finished run last."""
    best = best_fixed(part)
    runs = {
        name: {r.job.seed: judge(part, r, best) for r in part.runs(name)} for name in part.groups
    }
    fixed, oracle = (runs.get(name or "", {}) for name in (best, ORACLE))
    lines = [AgentLine(part, name, mine, fixed, oracle) for name, mine in runs.items()]
    return sorted(lines, key=lambda line: _p95(line.runs) if line.runs else math.inf)


def _p95(runs: Mapping[int, Judged]) -> float:
    return float(np.mean([run.p95 for run in runs.values()])) if runs else stats.NAN


def _way(line: AgentLine) -> float | None:
    """Percent of the way from the best fixed timeout to the hourly plan."""
    start, goal = _p95(line.best), _p95(line.oracle)
    if line.name in FIXED or start == goal:
        return None
    return 100.0 * (start - _p95(line.runs)) / (start - goal)


def _until(line: AgentLine) -> float | None:
    known = [run.hours_until for run in line.runs.values() if not math.isnan(run.hours_until)]
    return float(np.median(known)) if known else None


def printed(workload: str, name: str) -> Printed | None:
    """What the paper prints for its workload 1 or 2."""
    trace = workload.removeprefix("workload-")
    variant = PAPER_VARIANTS.get(name, "best-prescient" if name.startswith("prescient") else "")
    agent = "lcpo" if name in PAPER_VARIANTS else name
    return paper_numbers.printed(PAPER, agent, "straggler", trace, variant)


def _mean(title: str, field: str, about: str) -> tuple[Column, Callable[[AgentLine], Cell]]:
    return Column(title, about=about), lambda line: line.mean(field)


FIELDS: tuple[tuple[Column, Callable[[AgentLine], Cell]], ...] = (
    (Column("workload", side="l"), lambda line: line.part.workload),
    (Column("agent", side="l"), lambda line: line.name + " (best fixed)" * line.is_best),
    _mean("p95", "p95", "95th percentile of latency in ms"),
    (Column("minus best fixed", "+", about="p95 less that of the best fixed timeout, by seed"),
     lambda x: None if x.is_best else x.minus(x.best)),
    (Column("paper", about="what the paper prints: its workloads are private, these are twins; "
            "compare the order, not the values"),
     lambda line: printed(line.part.workload, line.name)),
    _mean("p99", "p99", "99th percentile of latency in ms"),
    _mean("p99.9", "p999", "99.9th percentile of latency in ms"),
    _mean("extra load %", "extra_load", "work for duplicated requests, relative to the others"),
    _mean("worst hour", "worst_hour",
          "largest ratio to never-hedge with the same requests, of hours after the first pass"),
    _mean("worse hours %", "worse_hours", f"hours whose ratio is above {latency.WORSE:g}"),
    (Column("hours until", "until", about="median over seeds of the first hour from which on a "
            "whole pass is better than with the best fixed timeout"), _until),
    (Column("of the way %", about="from the best fixed timeout to the hourly plan, which was made "
            "by simulation with other seeds"), _way),
    _mean("active %", "active", "updates in which the constraint was active"),
    _mean("OOD %", "ood", "share of the reservoir's samples that are out of distribution"),
    (Column("budget %", about="gradient steps, relative to those that the agent takes in the "
            "paper"), lambda line: line.share("budget")),
    (Column("model %", about="the same of its model of the environment"),
     lambda line: line.share("model_budget")),
    (SEEDS, lambda x: count_of(len(x.runs), len(x.part.groups[x.name]))),
)  # fmt: skip


def make_report(
    parts: Sequence[WorkloadRuns], results: Sequence[Result], published: bool
) -> Report:
    """All of it."""
    lines = [line for part in parts for line in lines_of(part)]
    runs = {
        run.job.name: line.runs[run.job.seed]._asdict()
        for line in lines
        for run in line.part.runs(line.name)
    }

    def numbers(result: Result) -> dict[str, float | None]:
        found = runs[result.job.name].items()
        return {k: v for k, v in found if v is None or math.isfinite(v)}

    return Report(
        seeds_table(results, numbers),
        {"table": _table(parts, lines, published), "pairs": _pairs(parts, lines)},
        figures={"figure": latency.draw(parts)},
    )


def _table(parts: Sequence[WorkloadRuns], lines: Sequence[AgentLine], published: bool) -> Table:
    """A row per line. Columns without a value are left out."""
    found = [(column, [cell(line) for line in lines]) for column, cell in FIELDS]
    found = [(c, cells) for c, cells in found if any(c.text(cell) != NONE for cell in cells)]
    columns, cells = zip(*found, strict=True)
    setting = "as published, with its faults" if published else "faults corrected"
    hourly = [
        f"{part.workload}: the best fixed timeout of each hour, chosen in hindsight on the run "
        f"itself, would have {Column('').text(estimate)} ms"
        for part in parts
        if (estimate := hindsight(part)) is not None
    ]
    return Table(
        columns,
        list(zip(*cells, strict=True)),
        title=f"{parts[0].passes} passes of {parts[0].windows:,} windows, the first left out, "
        f"{setting}; means over 5-minute buckets in ms; 95 % intervals over seeds",
        notes=hourly,
        compared=("p95", "paper") if "paper" in {c.name for c in columns} else None,
        heading="Latency of each agent",
    )


def _pairs(parts: Sequence[WorkloadRuns], lines: Sequence[AgentLine]) -> Table:
    """Every agent minus each reference on its workload, where they share a seed.

    The agents of a seed meet the same requests: differences vary less than latencies do. Of the
    fixed timeouts, only never-hedge is compared.
    """
    rows: list[list[Cell]] = []
    for part in parts:
        mine = {line.name: line for line in lines if line.part is part}
        compared = [mine[name] for name in part.groups if name == NEVER or name not in FIXED]
        others = [mine[name] for name in REFERENCES if name in mine]
        for other, line in itertools.product(others, compared):
            shared = line.runs.keys() & other.runs.keys()
            if line is other or not shared:
                continue
            lower = sum(line.runs[seed].p95 < other.runs[seed].p95 for seed in shared)
            gaps = (line.minus(other.runs, field) for field in ("p95", "p99", "p999"))
            count = Count(lower, len(shared))
            rows.append([part.workload, line.name, other.name, *gaps, count])
    return Table(
        [
            "workload", "agent", "minus",
            *(Column(name, "+", about=f"mean difference in {name} by seed")
              for name in ("p95", "p99", "p99.9")),
            Column("lower p95 on", about="seeds on which the agent has the lower p95"),
        ],
        rows,
        title="differences by seed in ms, with 95 % intervals; below 0: the agent has less latency",
        heading="Each agent minus the variants of LCPO",
    )  # fmt: skip

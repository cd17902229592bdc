"""The table and the figure of hedging policies, from finished runs."""

from __future__ import annotations

import importlib.resources
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.agents import AGENTS, presets
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.straggler import latency, rules
from lcpo.straggler.task import Straggler
from lcpo.study.costs import Steps, gradient_steps
from lcpo.study.measure import stats
from lcpo.study.measure.compare import finished_runs
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import figures, paper_numbers
from lcpo.study.report.cells import NONE, Cell, Column, Count, Printed
from lcpo.study.report.document import seeds_table
from lcpo.study.report.figures import COLOURS, STYLES
from lcpo.study.report.tables import Table
from lcpo.study.study import Report

PAPER = importlib.resources.files("lcpo.straggler") / "data" / "straggler.csv"
"""What the paper prints."""
NEVER, ORACLE = "never-hedge", "hedge-hourly"
FIXED = tuple(agent.name for agent in rules.FIXED)
SHOWN = ("lcpo-cons", "lcpo-uniform", "a2c", "sac", "hedge-table")
"""Curves of the figure, beside the best fixed timeout and the hourly plan."""
STEPS = 20_736_000
"""Interactions of the paper's runs."""
TRAINING = 3_072_000
"""Interactions that the paper's prescient agents are trained on; TRPO has fewer."""
TRPO_TRAINING = 2_457_600
REFERENCES = ("lcpo-agg", "lcpo-med", "lcpo-cons", "lcpo-uniform-fast")
"""Agents that all others are compared with, seed by seed."""
PAPER_VARIANTS = {"lcpo-agg": "agg;sigma=5", "lcpo-med": "med;sigma=6", "lcpo-cons": "cons;sigma=7"}


class Part(NamedTuple):
    """The runs on one workload."""

    workload: str
    windows: int
    """Of a pass."""
    passes: int
    groups: Mapping[str, Sequence[Result]]
    """By the name of the agent or of its setting."""

    @property
    def num_hours(self) -> int:
        return math.ceil(self.passes * self.windows / latency.WINDOWS_PER_HOUR)

    @property
    def pass_hours(self) -> int:
        return round(self.windows / latency.WINDOWS_PER_HOUR)

    def runs(self, name: str | None) -> list[Result]:
        """The finished ones of a group."""
        return finished_runs(self.groups.get(name or "", ()))

    def hours(self, name: str | None) -> dict[int, np.ndarray]:
        """Latency by hour of the runs of a group, by seed."""
        return {r.job.seed: latency.by_hour(r.record, self.num_hours) for r in self.runs(name)}


class Judged(NamedTuple):
    """A run in numbers; latencies in ms, means over 5-minute buckets after the first pass."""

    p95: float
    p99: float
    p999: float
    extra_load: float
    """In percent."""
    worst_hour: float
    """Of the ratios to never-hedge with the same requests."""
    worse_hours: float
    """Percent of the hours that are 5 % worse than never-hedge's."""
    hours_until: float
    """Until a pass is better than with the best fixed timeout."""
    active: float | None
    """Percent of LCPO's updates."""
    ood: float | None
    """Percent of what LCPO draws from its reservoir."""
    budget: float | None
    """Gradient steps, in percent of the paper's; None: nothing is learned."""
    model_budget: float | None
    """The same of a learned model."""


def best_fixed(part: Part) -> str | None:
    """The fixed timeout with the lowest mean after the first pass, chosen in hindsight."""
    means = {
        name: np.mean([latency.mean_latency(r.record, part.windows) for r in part.runs(name)])
        for name in part.groups
        if name in FIXED and part.runs(name)
    }
    return min(means, key=lambda name: means[name]) if means else None


def judge(part: Part, result: Result, best: str | None) -> Judged:
    """One finished run; what needs a run of another agent with its seed is NaN without that."""
    record, after, first = result.record, part.windows, part.pass_hours
    mine, unknown = latency.by_hour(record, part.num_hours), np.full(part.num_hours, stats.NAN)
    never, fixed = (part.hours(name).get(result.job.seed, unknown) for name in (NEVER, best))
    percents = (records.mean_metric(record, x, after) for x in ("constraint_active", "ood_share"))
    shares = budget(result.job, int(record["step"][-1])) or (None, None)
    active, ood, learned, model = (None if x is None else 100.0 * x for x in (*percents, *shares))
    return Judged(
        p95=latency.mean_latency(record, after, latency.P95),
        p99=latency.mean_latency(record, after, latency.P99),
        p999=latency.mean_latency(record, after, latency.P999),
        extra_load=100.0 * latency.extra_load(record, after),
        worst_hour=latency.worst_hour(mine, never, first),
        worse_hours=100.0 * latency.worse_share(mine, never, first),
        hours_until=latency.hours_until_better(mine, fixed, first),
        active=active,
        ood=ood,
        budget=learned,
        model_budget=model,
    )


def budget(job: Job, steps: int) -> Steps | None:
    """Gradient steps of a run of so many interactions, as a share of those in the paper.

    A shortened run compares agents only where each has about the same share, whether it learns from
    its newest rollout or from replay. None of an agent that does not learn, or is not ours.
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


class Line(NamedTuple):
    """A row of the table: the runs of an agent, or of one of its settings, on a workload."""

    part: Part
    name: str
    runs: Mapping[int, Judged]
    """By seed, those that have finished."""
    best: Mapping[int, Judged]
    """Those of the best fixed timeout."""
    oracle: Mapping[int, Judged]
    """Those of the hourly plan."""

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
        """The mean of what depends on no seed; None: no run has it."""
        known = [x for x in (getattr(run, field) for run in self.runs.values()) if x is not None]
        return float(np.mean(known)) if known else None


def lines_of(part: Part) -> list[Line]:
    """The lowest latency first; those without a finished run last."""
    best = best_fixed(part)
    runs = {
        name: {r.job.seed: judge(part, r, best) for r in part.runs(name)} for name in part.groups
    }
    fixed, oracle = (runs.get(name or "", {}) for name in (best, ORACLE))
    lines = [Line(part, name, mine, fixed, oracle) for name, mine in runs.items()]
    return sorted(lines, key=lambda line: _p95(line.runs) if line.runs else math.inf)


def _p95(runs: Mapping[int, Judged]) -> float:
    return float(np.mean([run.p95 for run in runs.values()])) if runs else stats.NAN


def _seeds(line: Line) -> Cell:
    total = len(line.part.groups[line.name])
    return Count(len(line.runs), total) if len(line.runs) < total else total


def _way(line: Line) -> float | None:
    """Percent of the way from the best fixed timeout to the hourly plan."""
    start, goal = _p95(line.best), _p95(line.oracle)
    if line.name in FIXED or start == goal:
        return None
    return 100.0 * (start - _p95(line.runs)) / (start - goal)


def _until(line: Line) -> float | str | None:
    known = [run.hours_until for run in line.runs.values() if not math.isnan(run.hours_until)]
    median = float(np.median(known)) if known else None
    return "never" if median == math.inf else median


def printed(workload: str, name: str) -> Printed | None:
    """What the paper prints for its workload 1 or 2."""
    trace = workload.removeprefix("workload-")
    variant = PAPER_VARIANTS.get(name, "best-prescient" if name.startswith("prescient") else "")
    agent = "lcpo" if name in PAPER_VARIANTS else name
    return paper_numbers.printed(PAPER, agent, "straggler", trace, variant)


def _mean(title: str, field: str) -> tuple[Column, Callable[[Line], Cell]]:
    return Column(title), lambda line: line.mean(field)


FIELDS: tuple[tuple[Column, Callable[[Line], Cell]], ...] = (
    (Column("workload", side="l"), lambda line: line.part.workload),
    (Column("agent", side="l"), lambda line: line.name + " (best fixed)" * line.is_best),
    (Column("seeds"), _seeds),
    _mean("p95", "p95"),
    (Column("minus best fixed", "+"), lambda x: None if x.is_best else x.minus(x.best)),
    _mean("p99", "p99"),
    _mean("p99.9", "p999"),
    _mean("extra load %", "extra_load"),
    _mean("worst hour", "worst_hour"),
    _mean("worse hours %", "worse_hours"),
    (Column("hours until", decimals=0), _until),
    (Column("of the way %"), _way),
    _mean("active %", "active"),
    _mean("OOD %", "ood"),
    (Column("budget %"), lambda line: line.share("budget")),
    (Column("model %"), lambda line: line.share("model_budget")),
    (Column("paper"), lambda line: printed(line.part.workload, line.name)),
)
NOTES = (
    "worst hour: the largest ratio to never-hedge with the same requests, of hours after the "
    f"first pass; worse hours: share with a ratio above {latency.WORSE:g}",
    "hours until: median over seeds of the first hour from which on a whole pass is better "
    "than with the best fixed timeout",
    "of the way: from the best fixed timeout to the hourly plan, which was made by simulation "
    "with other seeds",
    "budget: gradient steps in percent of those that the agent takes in the paper; model: the "
    "same of its model of the environment",
    "paper: its workloads are private, these are twins; to be compared in order, not in value",
)


def make_report(parts: Sequence[Part], results: Sequence[Result], published: bool) -> Report:
    """All of it."""
    lines = [line for part in parts for line in lines_of(part)]
    runs = {
        run.job.name: line.runs[run.job.seed] for line in lines for run in line.part.runs(line.name)
    }
    return Report(
        seeds_table(results, lambda r: _numbers(runs[r.job.name])),
        {"table": _table(lines, published), "pairs": _pairs(lines)},
        figures={"figure": draw(parts)},
    )


def _numbers(judged: Judged) -> dict[str, float | None]:
    return {k: v for k, v in judged._asdict().items() if v is None or math.isfinite(v)}


def _table(lines: Sequence[Line], published: bool) -> Table:
    """A row per line. Columns that none has a value for are left out."""
    found = [(column, [cell(line) for line in lines]) for column, cell in FIELDS]
    found = [(c, cells) for c, cells in found if any(c.text(cell) != NONE for cell in cells)]
    columns, cells = zip(*found, strict=True)
    first = lines[0].part
    setting = "as published, with its faults" if published else "faults corrected"
    return Table(
        columns,
        list(zip(*cells, strict=True)),
        title=f"{first.passes} passes of {first.windows:,} windows, the first left out, {setting}; "
        "means over 5-minute buckets in ms; 95 % intervals over seeds",
        notes=[*_hindsight_notes(lines), *NOTES],
        compared=("p95", "paper") if "paper" in {c.name for c in columns} else None,
    )


def _pairs(lines: Sequence[Line]) -> Table:
    """Every agent minus each reference on its workload, where they share a seed.

    The agents of a seed meet the same requests: differences vary less than latencies do. Of the
    fixed timeouts, never-hedge alone.
    """
    rows: list[list[Cell]] = []
    for part in {line.part.workload: line.part for line in lines}.values():
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
            rows.append([line.part.workload, line.name, other.name, *gaps, count])
    return Table(
        ["workload", "agent", "minus", Column("p95", "+"), Column("p99", "+"), Column("p99.9", "+"),
         Column("lower p95 on")],
        rows,
        title="differences by seed in ms, with 95 % intervals; below 0: the agent has less latency",
    )  # fmt: skip


def _hindsight_notes(lines: Sequence[Line]) -> list[str]:
    parts = {line.part.workload: line.part for line in lines}
    found = {workload: hindsight(part) for workload, part in parts.items()}
    return [
        f"{workload}: the best fixed timeout of each hour, chosen in hindsight on the run itself, "
        f"would have {Column('').text(estimate)} ms"
        for workload, estimate in found.items()
        if estimate is not None
    ]


def hindsight(part: Part) -> Estimate | None:
    """Mean over hours of the lowest latency of any fixed timeout, by seed."""
    fixed = [part.hours(name) for name in part.groups if name in FIXED]
    if len(fixed) < 2:
        return None
    shared = sorted(set(fixed[0]).intersection(*fixed))
    hours = [np.stack([one[seed] for one in fixed])[:, part.pass_hours :] for seed in shared]
    means = [float(np.nanmean(np.nanmin(x, axis=0))) for x in hours]
    return stats.mean_ci(means) if means else None


def draw(parts: Sequence[Part]) -> figures.Picture:
    """Latency over time, a panel per workload: means of 2 hours.

    The axis is logarithmic: curves are geometric means over seeds, bands Student's intervals of the
    logarithms.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    shape = figures.new_figure(7.6, 3.0 * len(parts) + 0.4)
    axes = shape.subplots(len(parts), squeeze=False)[:, 0]
    named: dict[str, int] = {}
    for axis, part in zip(axes, parts, strict=True):
        best = best_fixed(part)
        curves = [*(name for name in SHOWN if name in part.groups), ORACLE, best]
        for name in curves:
            runs = part.hours(name)
            if not runs:
                continue
            label = "best fixed timeout" if name == best else str(name)
            number = named.setdefault(label, len(named))
            color, style = COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS)]
            x, values = _coarse(np.stack([*runs.values()]), 2)
            mean, half = np.log(values).mean(axis=0), stats.half_width(np.log(values))
            axis.plot(x, np.exp(mean), color=color, ls=style, lw=1.2, label=label)
            low, high = np.exp(mean - half), np.exp(mean + half)
            axis.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        for number in range(1, part.passes):
            axis.axvline(number * part.windows / latency.WINDOWS_PER_HOUR, color="0.85", lw=0.8)
        axis.set(ylabel="p95 latency, ms", yscale="log", xlim=(0, part.num_hours))
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.minorticks_off()
        axis.set_title(part.workload, loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("hours of the run; a line where the workload begins again")
    pairs: dict[str, Any] = {}
    for axis in axes:
        lines, labels = axis.get_legend_handles_labels()
        pairs |= dict(zip(labels, lines, strict=True))
    shape.legend(
        pairs.values(), pairs.keys(), loc="outside upper center", frameon=False, fontsize=8, ncols=4
    )
    return figures.to_picture(shape)


def _coarse(hours: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of `width` hours, and their middles; an hour without requests does not count."""
    count = hours.shape[1] // width
    cut = hours[:, : count * width].reshape(len(hours), count, width)
    known = np.isfinite(cut)
    total = np.where(known, cut, 0.0).sum(axis=-1)
    number = known.sum(axis=-1)
    mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    return (np.arange(count) + 0.5) * width, mean

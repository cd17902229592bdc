"""The table and the figure of hedging policies, from finished runs."""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.agents import AGENTS, presets
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.straggler import latency, pairs, rules
from lcpo.straggler.task import Straggler
from lcpo.study.measure import gradient_steps, stats
from lcpo.study.measure.compare import finished_runs
from lcpo.study.measure.paper_numbers import paper_number
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import figures, tables
from lcpo.study.report.curves import COLOURS, STYLES
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
        name: np.mean([latency.mean_latency(r.record, part.windows) for r in finished_runs(runs)])
        for name, runs in part.groups.items()
        if name in FIXED and finished_runs(runs)
    }
    return min(means, key=lambda name: means[name]) if means else None


def judge(part: Part, result: Result, best: str | None) -> Judged:
    """One finished run; what needs a run of another agent with its seed is NaN without that."""
    record, after = result.record, part.windows
    mine = latency.by_hour(record, part.num_hours)
    never, fixed = (_hours_of(part, name, result.job.seed) for name in (NEVER, best))
    first = part.pass_hours
    percents = (records.mean_metric(record, x, after) for x in ("constraint_active", "ood_share"))
    shares = budget(result.job, int(record["step"][-1])) or (None, None)
    active, ood, learned, model = (None if x is None else 100.0 * x for x in (*percents, *shares))
    return Judged(
        p95=latency.mean_latency(record, after, latency.P95),
        p99=latency.mean_latency(record, after, latency.P99),
        p999=latency.mean_latency(record, after, latency.P999),
        extra_load=100.0 * latency.extra_load(record, after),
        worst_hour=stats.NAN if never is None else latency.worst_hour(mine, never, first),
        worse_hours=stats.NAN if never is None else 100.0 * latency.worse_share(mine, never, first),
        hours_until=stats.NAN if fixed is None else latency.hours_until_better(mine, fixed, first),
        active=active,
        ood=ood,
        budget=learned,
        model_budget=model,
    )


def budget(job: Job, steps: int) -> gradient_steps.Counts | None:
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
    mine, paper = gradient_steps.count(job.config, steps), gradient_steps.count(usual, theirs)
    model = None if mine.model is None or not paper.model else mine.model / paper.model
    return gradient_steps.Counts(mine.policy / paper.policy, model)


def make_report(parts: Sequence[Part], results: Sequence[Result], published: bool) -> Report:
    """All of it."""
    judged: dict[str, Judged] = {}
    rows: list[list[str]] = []
    notes: list[str] = []
    for part in parts:
        best = best_fixed(part)
        for runs in part.groups.values():
            judged |= {r.job.name: judge(part, r, best) for r in finished_runs(runs)}
        mine, said = _rows(part, judged, best)
        rows, notes = rows + mine, notes + said
    header = [
        "workload", "agent", "seeds", "p95", "minus best fixed", "p99", "p99.9", "extra load %",
        "worst hour", "worse hours %", "hours until", "of the way %", "active %", "OOD %",
        "budget %", "model %", "paper",
    ]  # fmt: skip
    setting = "as published, with its faults" if published else "faults corrected"
    first = parts[0]
    title = (
        f"{first.passes} passes of {first.windows:,} windows, the first left out, {setting}; means "
        "over 5-minute buckets in ms; 95 % intervals over seeds"
    )
    notes += [
        "worst hour: the largest ratio to never-hedge with the same requests, of hours after the "
        f"first pass; worse hours: share with a ratio above {latency.WORSE:g}",
        "hours until: median over seeds of the first hour from which on a whole pass is better "
        "than with the best fixed timeout",
        "of the way: from the best fixed timeout to the hourly plan, which was made by simulation "
        "with other seeds",
        "budget: gradient steps in percent of those that the agent takes in the paper; model: the "
        "same of its model of the environment",
        "paper: its workloads are private, these are twins; to be compared in order, not in value",
    ]
    shown = [i for i in range(len(header)) if any(row[i] != tables.NONE for row in rows)]
    table = tables.Table(
        [header[i] for i in shown],
        [[row[i] for i in shown] for row in rows],
        "".join("l" if i < 2 else "r" for i in shown),
        title,
        notes,
    )
    seeds = seeds_table(results, lambda r: _numbers(judged[r.job.name]))
    compared = pairs.table({part.workload: by_seed(part, judged) for part in parts}, REFERENCES)
    return Report(seeds, {"table": table, "pairs": compared}, figures={"figure": draw(parts)})


def by_seed(part: Part, judged: Mapping[str, Judged]) -> dict[str, dict[int, Judged]]:
    """What is compared seed by seed: all agents but the fixed timeouts that hedge."""
    return {
        name: {r.job.seed: judged[r.job.name] for r in finished_runs(runs)}
        for name, runs in part.groups.items()
        if name == NEVER or name not in FIXED
    }


def _numbers(judged: Judged) -> dict[str, float | None]:
    return {k: v for k, v in judged._asdict().items() if v is None or math.isfinite(v)}


def _rows(
    part: Part, judged: Mapping[str, Judged], best: str | None
) -> tuple[list[list[str]], list[str]]:
    """A row per agent, the best first; and what is to be said of the workload."""
    found = {
        name: [judged[r.job.name] for r in finished_runs(runs)]
        for name, runs in part.groups.items()
    }
    means = {name: float(np.mean([j.p95 for j in js])) for name, js in found.items() if js}
    start, goal = means.get(best or "", stats.NAN), means.get(ORACLE, stats.NAN)
    rows = []
    for name in sorted(part.groups, key=lambda name: means.get(name, math.inf)):
        js, total = found[name], len(part.groups[name])
        way = 100.0 * (start - means.get(name, stats.NAN)) / (start - goal)

        def cell(field: str, js: list[Judged] = js) -> str:
            values = [getattr(j, field) for j in js]
            return tables.NONE if None in values else tables.plus_minus(stats.mean_ci(values))

        rows.append(
            [
                part.workload,
                f"{name} (best fixed)" if name == best else name,
                f"{len(js)} of {total}" if len(js) < total else str(total),
                cell("p95"),
                tables.NONE if name == best else _difference(part, judged, name, best),
                *(cell(field) for field in Judged._fields[1:6]),
                _until([j.hours_until for j in js]),
                tables.NONE if name in FIXED else tables.number(way),
                cell("active"),
                cell("ood"),
                *(_percent([getattr(j, field) for j in js]) for field in Judged._fields[-2:]),
                printed(part.workload, name),
            ]
        )
    notes = []
    in_hindsight = hindsight(part)
    if in_hindsight is not None:
        notes.append(
            f"{part.workload}: the best fixed timeout of each hour, chosen in hindsight on the run "
            f"itself, would have {tables.plus_minus(in_hindsight)} ms"
        )
    return rows, notes


def _difference(part: Part, judged: Mapping[str, Judged], name: str, best: str | None) -> str:
    """Of the 95th percentile to that of the best fixed timeout, by seed."""
    mine, other = (
        {r.job.seed: judged[r.job.name].p95 for r in finished_runs(part.groups.get(who or "", ()))}
        for who in (name, best)
    )
    return tables.plus_minus(stats.paired_difference(mine, other), sign=True)


def hindsight(part: Part) -> Estimate | None:
    """Mean over hours of the lowest latency of any fixed timeout, by seed."""
    fixed = {name: runs for name, runs in part.groups.items() if name in FIXED}
    by_seed: dict[int, list[np.ndarray]] = {}
    for runs in fixed.values():
        for r in finished_runs(runs):
            hours = latency.by_hour(r.record, part.num_hours)[part.pass_hours :]
            by_seed.setdefault(r.job.seed, []).append(hours)
    whole = [np.stack(v) for v in by_seed.values() if len(v) == len(fixed)]
    if len(fixed) < 2 or not whole:
        return None
    return stats.mean_ci([float(np.nanmean(np.nanmin(v, axis=0))) for v in whole])


def _percent(values: Sequence[float | None]) -> str:
    """The mean; it depends on no seed."""
    known = [x for x in values if x is not None]
    return tables.number(float(np.mean(known))) if known else tables.NONE


def _until(hours: Sequence[float]) -> str:
    known = [h for h in hours if not math.isnan(h)]
    if not known:
        return tables.NONE
    median = float(np.median(known))
    return "never" if math.isinf(median) else f"{median:.0f}"


def printed(workload: str, name: str) -> str:
    """What the paper prints for its workload 1 or 2."""
    trace = workload.removeprefix("workload-")
    variant = PAPER_VARIANTS.get(name, "best-prescient" if name.startswith("prescient") else "")
    agent = "lcpo" if name in PAPER_VARIANTS else name
    return paper_number(PAPER, agent, "straggler", trace, variant)


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
            runs = finished_runs(part.groups.get(name or "", ()))
            if not runs:
                continue
            label = "best fixed timeout" if name == best else str(name)
            number = named.setdefault(label, len(named))
            color, style = COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS)]
            hours = np.stack([latency.by_hour(r.record, part.num_hours) for r in runs])
            x, values = _coarse(hours, 2)
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


def _hours_of(part: Part, name: str | None, seed: int) -> np.ndarray | None:
    """Latency by hour of the run of another agent with the same seed."""
    for result in finished_runs(part.groups.get(name or "", ())):
        if result.job.seed == seed:
            return latency.by_hour(result.record, part.num_hours)
    return None

"""The paper's search for online EWC's hyper-parameters on the windy Pendulum: does any suit?

Strength alpha of the penalty and averaging weight beta, all combinations, beside LCPO and SAC
(alpha = 0). The paper labels beta by 1/beta in interactions, of which a gradient step takes 200.
Both fields are traced: all combinations are one program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.measure import compare
from lcpo.study.measure.compare import Comparison
from lcpo.study.measure.paper_numbers import paper_number
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.paper.pendulum import PendulumOptions, plan_pendulum
from lcpo.study.report import figures, report, tables
from lcpo.study.study import Report, Study, names

AGENT = "online-ewc"
ALPHA, BETA = "penalty_coef", "averaging_rate"


@dataclasses.dataclass(frozen=True)
class EwcOptions(PendulumOptions):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("agents", "envs")

    alphas: str = "0.05,0.1,0.5,1"
    """Strengths of the penalty, separated by commas."""
    betas: str = "2e-4,7e-5,2e-5"
    """Averaging weights, separated by commas: 1/beta of 1M, 3M and 10M interactions."""
    beside: str = "lcpo,sac"
    """Other agents, separated by commas."""


class Point(NamedTuple):
    """A row of the table: one agent with one setting, on one trace."""

    trace: str
    agent: str
    alpha: str
    memory: str
    row: compare.Row
    printed: str
    """What the paper has."""


def plan_runs(options: EwcOptions) -> list[Job]:
    """Every combination, and the agents beside, with every trace and seed."""
    sweep = {ALPHA: _numbers("alphas", options.alphas), BETA: _numbers("betas", options.betas)}
    return plan_pendulum(options, [*names(options.beside), AGENT], {AGENT: sweep})


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"{name} = {text!r}: needs numbers, as in 0.1,0.5") from None


def make_report(options: EwcOptions, results: Sequence[Result]) -> Report:
    """The table and the figure, beside the paper's."""
    traces = list(dict.fromkeys(r.job.trace for r in compare.finished_runs(results)))
    found = {trace: [r for r in results if r.job.trace == trace] for trace in traces}
    comparisons = {trace: compare.summarise(members) for trace, members in found.items()}
    points = [p for trace in traces for p in judge(comparisons[trace], found[trace])]
    seeds = seeds_table(results, lambda r: report.seed_numbers(comparisons[r.job.trace], r))
    table = summary(points, list(comparisons.values()), options.published)
    return Report(seeds, {"table": table}, figures={"figure": draw(points)})


def judge(comparison: Comparison, results: Sequence[Result]) -> list[Point]:
    """A point per agent and setting."""
    points = []
    on = results[0].job.trace
    assert on is not None, "the pendulum is driven by one"
    trace, share = str(on.whole), on.fraction
    for members, row in zip(compare.group(results).values(), comparison.rows, strict=True):
        job = members[0].job
        if job.agent == AGENT:
            alpha, memory = f"{job.config[ALPHA]:g}", averaged_over(job.config, share)
            variant = f"alpha={job.config[ALPHA]};beta_inv={memory}"
            printed = paper_number("ewc-return", AGENT, job.env, trace, variant)
        else:
            alpha = memory = tables.NONE
            printed = paper_number("gym-all", job.agent, job.env, trace)
        points.append(Point(trace, job.agent, alpha, memory, row, printed))
    return points


def averaged_over(config: dict[str, Any], share: Fraction) -> str:
    """1/beta in interactions of the paper's runs, to one figure as it has it: 3M for 7e-5."""
    steps = config["updates_per_rollout"] * config[BETA] * share
    interactions = config["rollout_length"] / steps
    return tables.short_count(int(float(f"{interactions:.0e}")))


def summary(points: Sequence[Point], parts: Sequence[Comparison], published: bool) -> tables.Table:
    """A row per point."""
    rows = [
        [
            point.trace,
            point.agent,
            point.alpha,
            point.memory,
            report.seeds_cell(point.row),
            tables.plus_minus(point.row.after_warmup),
            tables.plus_minus(point.row.whole_run),
            point.printed,
        ]
        for point in points
    ]
    late = f"return after {tables.short_count(parts[0].warmup)}"
    steps = tables.lengths(part.steps for part in parts)
    setting = "as published, with its faults" if published else "faults corrected"
    return tables.Table(
        ["trace", "agent", "alpha", "1/beta", "seeds", late, "whole run", "paper"],
        rows,
        "llrrrrrr",
        f"pendulum, {steps} steps, {setting}; 95 % intervals over seeds",
        ["paper: the columns of its table may be permuted (docs/agents/online-ewc.md)"],
    )


def draw(points: Sequence[Point]) -> figures.Picture:
    """A panel per trace: online EWC by setting, the others as lines, the paper's as circles."""
    traces = list(dict.fromkeys(point.trace for point in points))
    shape = figures.new_figure(7.2, 2.6 * len(traces))
    axes = shape.subplots(len(traces), squeeze=False)[:, 0]
    for axis, trace in zip(axes, traces, strict=True):
        mine = [p for p in points if p.trace == trace and p.agent == AGENT]
        for i, point in enumerate(mine):
            mean, low, high = point.row.after_warmup[:3]
            axis.plot([i, i], [low, high], color="C0", lw=2)
            axis.plot([i], [mean], "o", color="C0", label=AGENT if i == 0 else None)
            if point.printed != tables.NONE:
                theirs = float(point.printed.split()[0])
                label = "paper" if i == 0 else None
                axis.plot([i + 0.2], [theirs], "o", mfc="none", color="0.5", label=label)
        others = [p for p in points if p.trace == trace and p.agent != AGENT]
        for i, point in enumerate(others, start=1):
            mean, low, high = point.row.after_warmup[:3]
            axis.axhline(mean, color=f"C{i}", lw=1.2, label=point.agent)
            axis.axhspan(low, high, color=f"C{i}", alpha=0.15, lw=0)
        axis.set_xticks(range(len(mine)), [f"{p.alpha}\n{p.memory}" for p in mine], fontsize=8)
        axis.set(title=f"trace {trace}", ylabel="return")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("alpha, and below it 1/beta in interactions")
    lines, names = axes[0].get_legend_handles_labels()
    shape.legend(lines, names, loc="outside upper center", frameon=False, fontsize=8, ncols=4)
    return figures.to_picture(shape)


study = Study(
    "Table 'ewc_return': online EWC by hyper-parameters, beside LCPO and the paper's",
    EwcOptions,
    plan_runs,
    make_report,
)

"""The paper's search for online EWC's hyper-parameters on the windy Pendulum.

All combinations of the penalty's strength alpha and averaging weight beta, next to LCPO and SAC
(alpha = 0). The paper labels beta by 1/beta in interactions, of which a gradient step takes 200.
Both fields are traced, so that all combinations are one program.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from lcpo.study.cases import Case
from lcpo.study.costs import short_count
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Found, Line, PendulumOptions, column_study
from lcpo.study.report import figures
from lcpo.study.report.cells import Column, Printed
from lcpo.study.report.paper_numbers import printed
from lcpo.study.study import listed_numbers, names

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


def cases(options: EwcOptions) -> list[Case]:
    """The other agents, and every combination."""
    sweep = {
        ALPHA: listed_numbers("alphas", options.alphas),
        BETA: listed_numbers("betas", options.betas),
    }
    return [*map(Case, names(options.beside)), Case(AGENT, sweep=sweep)]


def alpha(line: Line) -> str | None:
    """Strength of the penalty; None for other agents."""
    return f"{line.job.config[ALPHA]:g}" if line.job.agent == AGENT else None


def averaged_over(line: Line) -> str | None:
    """1/beta in interactions of the paper's runs, to one figure as it has it: 3M for 7e-5."""
    config = line.job.config
    if line.job.agent != AGENT:
        return None
    share = line.job.trace.fraction if line.job.trace else 1
    steps = config["updates_per_rollout"] * config[BETA] * share
    return short_count(int(float(f"{config['rollout_length'] / steps:.0e}")))


def theirs(line: Line) -> Printed | None:
    """The paper's number."""
    where = line.job.agent, line.part.env, line.part.trace
    if line.job.agent != AGENT:
        return printed("gym-all", *where)
    variant = f"alpha={line.job.config[ALPHA]};beta_inv={averaged_over(line)}"
    return printed("ewc-return", *where, variant)


def draw(found: Found) -> tuple[dict[str, Any], dict[str, figures.Picture]]:
    """A panel per trace: online EWC by setting, the others as lines, the paper's as circles."""
    shape = figures.new_figure(7.2, 2.6 * len(found.parts))
    axes = shape.subplots(len(found.parts), squeeze=False)[:, 0]
    for axis, part in zip(axes, found.parts, strict=True):
        mine = [line for line in part.lines if line.job.agent == AGENT]
        for i, line in enumerate(mine):
            mean, low, high = line.row.after_warmup[:3]
            axis.plot([i, i], [low, high], color="C0", lw=2)
            axis.plot([i], [mean], "o", color="C0", label=AGENT if i == 0 else None)
            paper = theirs(line)
            if paper is not None:
                label = "paper" if i == 0 else None
                axis.plot([i + 0.2], [paper.mean], "o", mfc="none", color="0.5", label=label)
        others = [line for line in part.lines if line.job.agent != AGENT]
        for i, line in enumerate(others, start=1):
            mean, low, high = line.row.after_warmup[:3]
            axis.axhline(mean, color=f"C{i}", lw=1.2, label=line.job.agent)
            axis.axhspan(low, high, color=f"C{i}", alpha=0.15, lw=0)
        ticks = [f"{alpha(line)}\n{averaged_over(line)}" for line in mine]
        axis.set_xticks(range(len(mine)), ticks, fontsize=8)
        axis.set(title=f"trace {part.trace}", ylabel="return")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("alpha, and below it 1/beta in interactions")
    lines, labels = axes[0].get_legend_handles_labels()
    shape.legend(lines, labels, loc="outside upper center", frameon=False, fontsize=8, ncols=4)
    picture = figures.to_picture(
        shape,
        "Return of online EWC by its hyper-parameters, beside other agents",
        "A panel per trace. Points are online EWC after warm-up, with 95 % intervals over seeds; "
        "circles are the paper's numbers. Lines and bands are the other agents.",
    )
    return {}, {"figure": picture}


study = column_study(
    "Table 'ewc_return': online EWC by hyper-parameters, next to LCPO and the paper's",
    EwcOptions,
    cases,
    fields=[
        columns.TRACE,
        columns.AGENT,
        (Column("alpha", about="strength of the penalty"), alpha),
        (Column("1/beta", about="interactions that the penalty averages over"), averaged_over),
        columns.LATE,
        (columns.PAPER, theirs),
        columns.WHOLE,
        columns.SEEDS,
    ],
    title=columns.PENDULUM_TITLE,
    heading="Return of online EWC by its hyper-parameters",
    notes=["paper: the columns of its table may be permuted (docs/agents/online-ewc.md)"],
    more=draw,
)

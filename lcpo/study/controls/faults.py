"""The effect of each fault of the published code: every agent without faults, with one, with all.

Not in the paper. A fault of an option that is off has no effect, so it is tried with that option on
(`NEEDS`), next to a run with the option and without the fault.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from lcpo import config as configs
from lcpo.agents import AGENTS, find_agent
from lcpo.agents.anchors import ROW_SUM_FILTER
from lcpo.agents.lcpo import DUAL_ALGEBRA
from lcpo.errors import InputError
from lcpo.run.store.results import Result
from lcpo.study.cases import Case
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import Summary
from lcpo.study.measure.stats import Estimate
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Line, PendulumOptions, column_study
from lcpo.study.report.cells import Column
from lcpo.study.study import listed

NEEDS: dict[str, dict[str, Any]] = {
    DUAL_ALGEBRA: {"dual": True},
    ROW_SUM_FILTER: dict(AGENTS["lcpo-mhd"].preset),
}
"""Config values without which a fault has no effect."""
NONE, ALL = "corrected", "all"
WITH = "with-"
"""Stands before the fault whose option a run without faults has."""


@dataclasses.dataclass(frozen=True)
class FaultOptions(PendulumOptions):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs", "setting")

    agents: str = "a2c,trpo,lcpo,lcpo-p,clear,sac,online-ewc,sliding-ogd,mbcd"
    """Agents, separated by commas; those with faults. Others repeat faults of these."""
    traces: str = "3,4"
    """Contexts, separated by commas."""


def settings(agent: str) -> dict[str, dict[str, Any]]:
    """Config values by label: corrected, each fault (and the option that it needs), all."""
    faults = configs.published_faults(find_agent(agent).Config).get("faults", ())
    if not faults:
        raise InputError(f"agent {agent!r} has no faults of the published code: leave it out")
    found: dict[str, dict[str, Any]] = {NONE: {"faults": ()}}
    for fault in faults:
        needs = NEEDS.get(fault, {})
        if needs:
            found[f"{WITH}{fault}"] = {"faults": (), **needs}
        found[fault] = {"faults": (fault,), **needs}
    plain = tuple(fault for fault in faults if fault not in NEEDS)
    return {**found, ALL: {"faults": plain}} if len(plain) > 1 else found


def numbers(comparison: Summary, result: Result) -> dict[str, float | None]:
    """A run's numbers in seeds.csv."""
    return {
        name: compare.run_return(result.record, after, comparison.endless)
        for name, after in (("return_after_warmup", comparison.warmup), ("whole_run", 0))
    }


def in_words(line: Line) -> str:
    """A run without faults that has the option of one says so."""
    label = line.job.variant
    if label.startswith(WITH):
        return f"none, with the option of {label.removeprefix(WITH)}"
    return {NONE: "none", ALL: "all but those of options"}.get(label, label)


def minus_corrected(line: Line, after: int) -> Estimate | None:
    """What a fault changes, by seed, after so many steps; None: there is none."""
    label = line.job.variant
    if label == NONE or label.startswith(WITH):
        return None
    base = f"{WITH}{label}" if label in NEEDS else NONE
    key = (line.job.agent, base)
    runs = [r for r in line.part.results if (r.job.agent, r.job.variant) == key]
    return stats.paired_difference(line.returns(after), line._replace(runs=runs).returns(after))


study = column_study(
    "Not in the paper: what each fault of the published code does, alone and with the others",
    FaultOptions,
    lambda options: [
        Case(agent, *setting)
        for agent in listed("agents", options.agents)
        for setting in settings(agent).items()
    ],
    fields=[
        columns.PLAYED,
        columns.AGENT,
        (Column("fault", side="l"), in_words),
        (
            Column(
                "minus corrected, return after {warmup}",
                "+",
                key="after_warmup_difference",
                about="what the fault changes: mean difference from the corrected agent by seed",
            ),
            lambda line: minus_corrected(line, line.part.comparison.warmup),
        ),
        (
            Column(
                "minus corrected, whole run",
                "+",
                key="whole_run_difference",
                about="the same from the first step on",
            ),
            lambda line: minus_corrected(line, 0),
        ),
        columns.LATE,
        columns.WHOLE,
        (columns.SEEDS[0], lambda line: line.row.finished),
    ],
    heading="What each fault of the published code changes",
    title="pendulum, {longest} steps: each fault of the published code alone, and all; {intervals}",
    notes=[
        "faults of environments are not among them: lcpo train --env.faults (docs/deviations.md)"
    ],
    seeds=8,
    numbers=numbers,
)

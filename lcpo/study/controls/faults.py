"""What does each fault of the published code do? Every agent without faults, with one, with all.

Not in the paper. A fault of an option that is off does nothing, so it is tried with that option on
(`NEEDS`), beside a run without it that has the option as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lcpo import config as configs
from lcpo.agents import AGENTS, find_agent
from lcpo.agents.anchors import ROW_SUM_FILTER
from lcpo.agents.lcpo import DUAL_ALGEBRA
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.paper.pendulum import PendulumOptions
from lcpo.study.report import tables
from lcpo.study.study import Report, Study, listed

SEEDS = 8
NEEDS: dict[str, dict[str, Any]] = {
    DUAL_ALGEBRA: {"dual": True},
    ROW_SUM_FILTER: dict(AGENTS["lcpo-mhd"].preset),
}
"""Config values without which a fault does nothing."""
NONE, ALL = "corrected", "all"
WITH = "with"
"""Stands before the fault whose option a run without faults has."""


@dataclasses.dataclass(frozen=True)
class FaultOptions(PendulumOptions):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs", "setting")

    agents: str = "a2c,trpo,lcpo,lcpo-p,clear,sac,online-ewc,sliding-ogd,mbcd"
    """Agents, separated by commas; those with faults. Others repeat faults of these."""
    traces: str = "3,4"
    """Contexts, separated by commas."""


def plan_runs(options: FaultOptions) -> list[Job]:
    """Every agent corrected, with each of its faults, and with all of them."""
    return [
        job
        for trace in listed("traces", options.traces)
        for agent in listed("agents", options.agents)
        for label, values in cases(agent).items()
        for job in plan(
            agent,
            "pendulum",
            trace=trace,
            fraction=options.fraction,
            seeds=range(options.num_seeds(SEEDS)),
            overrides=values,
            variant=label,
        )
    ]


def cases(agent: str) -> dict[str, dict[str, Any]]:
    """Config values by label: corrected, each fault (and the option that it needs), all."""
    faults = configs.published_faults(find_agent(agent).Config).get("faults", ())
    if not faults:
        raise InputError(f"agent {agent!r} has no faults of the published code: leave it out")
    found: dict[str, dict[str, Any]] = {NONE: {"faults": ()}}
    for fault in faults:
        needs = NEEDS.get(fault, {})
        if needs:
            found[f"{WITH}-{fault}"] = {"faults": (), **needs}
        found[fault] = {"faults": (fault,), **needs}
    plain = tuple(fault for fault in faults if fault not in NEEDS)
    return {**found, ALL: {"faults": plain}} if len(plain) > 1 else found


def make_report(options: FaultOptions, results: Sequence[Result]) -> Report:
    """The table."""
    del options
    longest = max((r.job for r in results), key=lambda job: job.steps)
    warmup = compare.default_warmup(longest.steps, longest.trace)

    def numbers(result: Result) -> dict[str, float]:
        endless = compare.is_endless([result])
        return {
            "return_after_warmup": compare.run_return(result.record, warmup, endless),
            "whole_run": compare.run_return(result.record, 0, endless),
        }

    seeds = seeds_table(results, numbers)
    found: dict[tuple[str | None, str, str], list[Result]] = {}
    for r in results:
        found.setdefault((r.job.trace_name, r.job.agent, r.job.variant), []).append(r)
    rows = []
    for (trace, agent, label), mine in found.items():
        needed = f"{WITH}-{label}"
        base = found.get((trace, agent, needed if label in NEEDS else NONE), [])
        own, other = ({r.job.seed: numbers(r) for r in compare.finished_runs(x)}
                      for x in (mine, base))  # fmt: skip
        is_base = label == NONE or label.startswith(f"{WITH}-")
        rows.append(
            [str(trace), agent, _words(label), str(len(own)), *_columns(own),
             *([tables.NONE] * 2 if is_base else _differences(own, other))]
        )  # fmt: skip
    late = f"return after {tables.short_count(warmup)}"
    steps = max(r.job.steps for r in results)
    table = tables.Table(
        ["trace", "agent", "fault", "seeds", late, "whole run", f"minus corrected, {late}",
         "minus corrected, whole run"],
        rows,
        "lllrrrrr",
        f"pendulum, {steps:,} steps: each fault of the published code alone, and all; 95 % "
        "intervals over seeds",
        ["faults of environments are not among them: lcpo train --env.faults (docs/deviations.md)"],
    )  # fmt: skip
    return Report(seeds, {"table": table})


def _words(label: str) -> str:
    """A run without faults that has the option of one says so."""
    fault = label.removeprefix(f"{WITH}-")
    if fault == label:
        return {NONE: "none", ALL: "all but those of options"}.get(label, label)
    return f"none, with the option of {fault}"


Numbers = Mapping[int, Mapping[str, float]]
"""By seed."""


def _columns(found: Numbers) -> list[str]:
    return [
        tables.plus_minus(stats.mean_ci([mine[name] for mine in found.values()]))
        for name in ("return_after_warmup", "whole_run")
    ]


def _differences(a: Numbers, b: Numbers) -> list[str]:
    cells = []
    for name in ("return_after_warmup", "whole_run"):
        own, other = ({seed: mine[name] for seed, mine in x.items()} for x in (a, b))
        cells.append(tables.plus_minus(stats.paired_difference(own, other), sign=True))
    return cells


study = Study(
    "Not in the paper: what each fault of the published code does, alone and with the others",
    FaultOptions,
    plan_runs,
    make_report,
)

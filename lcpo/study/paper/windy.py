"""The paper's main table and Figure 3a: every agent in every windy environment with every trace.

Lifelong returns of 12 online agents and of 4 that were trained on the whole trace before, beside
what the paper prints: 320 cells. Parts of it by `--agents`, `--envs` and `--traces`, with agents
that the paper lacks, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lcpo.agents import find_agent
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import normalised, prescient, returns
from lcpo.study.study import Options, Report, Study

TABLE = "gym-all"
ONLINE = "lcpo,a2c,trpo,ddqn,sac,clear,bfdqn,pt-dqn,online-ewc,sliding-ogd,mbpo,mbcd"

WHOLE = (f"{ONLINE},{returns.PRESCIENT}", returns.ENVS, returns.TRACES)
SMOKE = (f"{ONLINE},{returns.PRESCIENT}", "pendulum", "3,4")
"""Agents, environments and traces."""


@dataclasses.dataclass(frozen=True)
class WindyOptions(Options):
    """Options of the study."""


def chosen(options: WindyOptions) -> tuple[str, str, str]:
    """Agents, environments and traces: those asked for, or those of the paper.

    A smoke test has less of each where nothing is asked for: what takes its time is to compile a
    program for each agent, environment and length.
    """
    agents, envs, traces = SMOKE if options.scale == "smoke" else WHOLE
    return (
        agents if options.agents is None else options.agents,
        envs if options.envs is None else options.envs,
        traces if options.traces is None else options.traces,
    )


def left_out(options: WindyOptions) -> str:
    """What of the paper's table is not run, and how to have it."""
    parts = []
    for flag, here, all in zip(("agents", "envs", "traces"), chosen(options), WHOLE, strict=True):
        missing = [name for name in all.split(",") if name not in here.split(",")]
        if getattr(options, flag) is None and missing:
            parts.append(f"--{flag} {all} (left out: {', '.join(missing)})")
    if not parts:
        return ""
    return f"a smoke test of a part of the table; for all of it: {'; '.join(parts)}"


def plan_runs(options: WindyOptions) -> list[Job]:
    """Every agent in every environment with every trace and seed."""
    agents, envs, traces = chosen(options)
    return returns.plan_columns(options, returns.agent_columns(agents), envs, traces)


def make_report(options: WindyOptions, results: Sequence[Result]) -> Report:
    """The table, what the prescient agents learnt, regret, and normalised returns."""
    columns = returns.agent_columns(chosen(options)[0])
    parts = returns.split_parts(results)
    found = {"table": returns.cells_table(parts, columns, TABLE)}
    before = [r for r in results if find_agent(r.job.agent).training is not None]
    if before:
        found["prescient"] = prescient.summary(before, TABLE)
    regret = prescient.regret_table(parts)
    if regret is not None:
        found["regret"] = regret
    scores, figures = normalised.table_and_figure(parts, columns, TABLE)
    return Report(
        returns.part_seeds(parts, results, prescient.training_numbers),
        tables={**found, **scores},
        figures=figures,
        text=[left_out(options)] if left_out(options) else [],
    )


study = Study(
    "Table 'gym_all' and Figure 3a: every agent, environment and trace, beside the paper's",
    WindyOptions,
    plan_runs,
    make_report,
    left_out,
)

"""The paper's main table and Figure 3a: every agent in every windy environment with every trace.

Lifelong returns of 12 online agents and of 4 trained on the whole trace beforehand, next to the
paper's 320 numbers. `--agents`, `--envs` and `--traces` select parts, or agents that it lacks.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from lcpo.run.store.results import Result
from lcpo.study.cases import agent_cases
from lcpo.study.measure.compare import Summary
from lcpo.study.paper import columns, normalised, prescient
from lcpo.study.paper.columns import ENVS, TRACES, Found, column_study
from lcpo.study.report import report
from lcpo.study.report.figures import Picture
from lcpo.study.report.tables import Table
from lcpo.study.study import Options

ONLINE = "lcpo,a2c,trpo,ddqn,sac,clear,bfdqn,pt-dqn,online-ewc,sliding-ogd,mbpo,mbcd"
PRESCIENT = ",".join(prescient.AGENTS)
SLOW = ("mbpo", "ideal-mbpo", "mbcd", "lcpo-p", *prescient.AGENTS)
"""Agents that have 5 seeds in the paper's tables, not 25."""


class Extent(NamedTuple):
    """Environments, traces and agents of the study, or some of them, separated by commas."""

    agents: str
    envs: str
    traces: str


WHOLE = Extent(f"{ONLINE},{PRESCIENT}", ENVS, TRACES)
SMOKE = WHOLE._replace(envs="pendulum", traces="3,4")


def chosen(options: Options) -> Extent:
    """The options, or the paper's full extent; a part of it in a smoke test.

    Compiling a program for each agent, environment and length would take most of its time.
    """
    default = SMOKE if options.scale == "smoke" else WHOLE
    given = {name: getattr(options, name) for name in Extent._fields}
    return default._replace(**{name: x for name, x in given.items() if x is not None})


def left_out(options: Options) -> str:
    """What part of the paper's table is left out, and how to run it."""
    parts = []
    for flag, here, all in zip(Extent._fields, chosen(options), WHOLE, strict=True):
        missing = [name for name in all.split(",") if name not in here.split(",")]
        if getattr(options, flag) is None and missing:
            parts.append(f"--{flag} {all} (left out: {', '.join(missing)})")
    if not parts:
        return ""
    return f"a smoke test of a part of the table; for all of it: {'; '.join(parts)}"


def more(found: Found) -> tuple[dict[str, Table], dict[str, Picture]]:
    """Prescient agents, regret, and normalized returns."""
    scores, figures = normalised.table_and_figure(found)
    return {**prescient.tables(found), **scores}, figures


def numbers(comparison: Summary, result: Result) -> dict[str, float | None]:
    """A run's numbers in seeds.csv."""
    found = report.seed_numbers(comparison, result)
    training = {"end_of_training": prescient.end_of_training(result)} if result.job.training else {}
    return {**found, **training}


study = column_study(
    "Table 'gym_all' and Figure 3a: every agent, environment and trace, next to the paper's",
    Options,
    lambda options: agent_cases(chosen(options).agents),
    where=lambda options: columns.named(dataclasses.replace(options, **chosen(options)._asdict())),
    seeds=lambda case: 5 if case.agent in SLOW else 25,
    paper="gym-all",
    numbers=numbers,
    more=more,
    left_out=left_out,
)

"""The paper's table on discretized actions: baselines on plain Pendulum-v1.

15 torques, no wind, 2 million steps (10,000 epochs of 200). The table has the mean return in
training over epochs 8001 to 8999, a tenth of the run, as in the published code. (The paper's text
says 1000 test episodes after 8000 epochs.)
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.cases import Case
from lcpo.study.measure import stats
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Field, Line, column_study
from lcpo.study.report.cells import Column
from lcpo.study.report.paper_numbers import printed
from lcpo.study.study import Options, Setting

FROM, UNTIL = 0.8, 0.9
"""The part of a run that is evaluated, as shares of its steps."""


@dataclasses.dataclass(frozen=True)
class DiscretisationOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs", "traces")

    agents: str = "a2c,trpo,ddqn,sac,mbpo"
    """Agents, separated by commas."""
    setting: Setting = "published"
    """published: with the values and all faults of the published code, as the paper's numbers were
    made; or corrected."""


def late_return(result: Result) -> float:
    """Mean over the epochs that count of the mean return of the episodes that ended in each."""
    first, last = (round(share * result.job.steps) for share in (FROM, UNTIL))
    return records.lifelong_return(result.record, first, last)


def late_returns(line: Line) -> list[float]:
    """Returns of the finished seeds; NaN without any."""
    return [late_return(run) for run in line.finished] or [stats.NAN]


def paper_column(name: str, variant: str, about: str) -> Field:
    """What the paper prints for a variant."""
    return Column(name, about=about), lambda line: printed(
        "discretisation", line.job.agent, "pendulum", variant=variant
    )


study = column_study(
    "Table 'pend_original': baselines on Pendulum-v1 with 15 torques, next to the paper's",
    DiscretisationOptions,
    lambda options: [Case(options.agents)],
    where=lambda options: (["pendulum-v1"], [None]),
    steps=lambda options: 2_000_000,
    seeds=10,
    marked=False,
    fields=[
        columns.TITLED,
        (Column("return", about="mean over seeds"), lambda line: stats.mean_ci(late_returns(line))),
        paper_column("paper", "discrete-15", "what the paper prints"),
        paper_column("paper: SB3, continuous", "sb3-rl-zoo",
                     "what it prints for Stable-Baselines3 with continuous actions"),
        (Column("median", about="over seeds"), lambda line: float(np.median(late_returns(line)))),
        (Column("worst seed", about="the lowest"), lambda line: min(late_returns(line))),
        columns.ENDED,
        (Column("faults repeated", side="l"),
         lambda line: ", ".join(line.job.config.get("faults", ())) or "none"),
    ],
    title="Pendulum-v1, 15 torques, {longest} steps: mean return in training from 80 % to 90 % of "
    "the run; {intervals}",
    heading="Return of each agent with discrete torques, beside the paper's",
    numbers=lambda comparison, result: {"return": late_return(result)},
)  # fmt: skip

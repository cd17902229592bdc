"""The paper's table of ideal MBPO: does MBPO fail because of its learned model?

MBPO, MBPO with the true dynamics, LCPO and A2C on the windy Pendulum, next to the paper's numbers.
For both MBPOs also the error of the learned model, and the age of the states that SAC learns from.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.cases import agent_cases
from lcpo.study.measure.compare import Summary
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Field, Line, PendulumOptions, column_study
from lcpo.study.report import report
from lcpo.study.report.cells import Column

UNEXPLAINED = "share of the variance that the learned model does not predict, one step ahead"
METRICS = {
    "model_reward_error": ("reward unexplained", f"of rewards: {UNEXPLAINED}, after warm-up"),
    "model_obs_error": ("obs unexplained", f"of observations: {UNEXPLAINED}, after warm-up"),
    "sample_age": (
        "sample age", "of the states that SAC learns from, as a share of the run so far"
    ),
}  # fmt: skip
"""The names of their columns, and what they mean."""


@dataclasses.dataclass(frozen=True)
class IdealMbpoOptions(PendulumOptions):
    """Options of the study."""

    agents: str = "lcpo,mbpo,ideal-mbpo,a2c"
    """Agents, separated by commas."""


def late_metrics(comparison: Summary, result: Result) -> dict[str, float | None]:
    """Means after warm-up; None if the agent does not have the metric."""
    return {m: records.mean_metric(result.record, m, comparison.warmup) for m in METRICS}


def metric_field(metric: str) -> Field:
    """Mean over seeds."""

    def cell(line: Line) -> float | None:
        found = [late_metrics(line.part.comparison, run)[metric] for run in line.finished]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else None

    name, about = METRICS[metric]
    return Column(name, "g", decimals=3, unit="%", about=about), cell


study = column_study(
    "Table 'imbpo_return', Pendulum: MBPO with a learned model and with the true one",
    IdealMbpoOptions,
    lambda options: agent_cases(options.agents),
    fields=[
        columns.TRACE,
        columns.TITLED,
        columns.LATE,
        columns.paper_field("ideal-mbpo"),
        columns.WHOLE,
        columns.SEEDS,
        *map(metric_field, METRICS),
    ],
    title=columns.PENDULUM_TITLE,
    heading="Return of MBPO with a learned model and with the true one",
    notes=["MBPO's first {random_steps} interactions are random"],
    numbers=lambda comparison, result: {
        **report.seed_numbers(comparison, result), **late_metrics(comparison, result)
    },
)  # fmt: skip

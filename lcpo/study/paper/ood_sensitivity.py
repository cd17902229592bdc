"""The paper's table and Figure 3b on the threshold beyond which a context is OOD.

LCPO with five thresholds of the Euclidean distance of contexts, and with two of the Mahalanobis
distance of whole observations, in every windy environment with every trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import normalised, returns
from lcpo.study.paper.returns import Column
from lcpo.study.study import Options, Report, Study

TABLE = "gym-sigma"


def _column(variant: str) -> Column:
    """A column by its name in the paper: sigma2=0.5 or mhd2=6, both squares."""
    kind, square = variant.split("=")
    values: dict[str, Any] = {"sigma": float(square) ** 0.5}
    if kind == "mhd2":
        values["detector"] = "mahalanobis-full"

    def same(trace: str) -> Mapping[str, Any]:
        del trace
        return values

    return Column("lcpo", variant, same, variant)


COLUMNS = [
    _column(variant)
    for variant in ("sigma2=0.25", "sigma2=0.5", "sigma2=1", "sigma2=2", "sigma2=4", "mhd2=6",
                    "mhd2=12")
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SensitivityOptions(Options):
    """Options of the study."""

    agents: str | None = None
    """Thresholds, separated by commas: sigma2=0.25, ... mhd2=12; default: the paper's seven."""
    envs: str = returns.ENVS
    """Environments, separated by commas."""
    traces: str = returns.TRACES
    """Contexts, separated by commas."""


def plan_runs(options: SensitivityOptions) -> list[Job]:
    """Every threshold in every environment with every trace and seed."""
    columns = returns.choose(COLUMNS, options.agents)
    return returns.plan_columns(options, columns, options.envs, options.traces, seeds=5)


def make_report(options: SensitivityOptions, results: Sequence[Result]) -> Report:
    """The table, and normalised returns."""
    del options
    return returns_report(results, COLUMNS, TABLE)


def returns_report(results: Sequence[Result], columns: Sequence[Column], table: str) -> Report:
    """The cells of a table of the paper, and the figure of them."""
    parts = returns.split_parts(results)
    scores, figures = normalised.table_and_figure(parts, columns, table)
    return Report(
        returns.part_seeds(parts, results),
        tables={"table": returns.cells_table(parts, columns, table), **scores},
        figures=figures,
    )


study = Study(
    "Table 'gym_sigma_all' and Figure 3b: LCPO by its OOD threshold, beside the paper's",
    SensitivityOptions,
    plan_runs,
    make_report,
)

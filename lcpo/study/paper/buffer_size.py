"""The paper's table and Figure 4 on the size of LCPO's reservoir.

All samples, a hundredth of them (the default), a 40,000th and an 800,000th. The paper calls the
columns by what these are on its traces of 20 million steps; on those of 8 million steps the
published code has 8M, 80K, 200 and 10.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lcpo.contexts import TraceRef
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import returns
from lcpo.study.paper.ood_sensitivity import returns_report
from lcpo.study.paper.returns import Column
from lcpo.study.study import Options, Report, Study

TABLE = "gym-buffer"


def _column(variant: str, divisor: int) -> Column:
    def sizes(trace: str) -> Mapping[str, Any]:
        return {"buffer_size": max(1, TraceRef.parse(trace).shape()[0] // divisor)}

    return Column("lcpo", variant, sizes, variant)


COLUMNS = [
    _column("nb=20M", 1),
    _column("nb=200K", 100),
    _column("nb=500", 40_000),
    _column("nb=25", 800_000),
]


@dataclasses.dataclass(frozen=True)
class BufferOptions(Options):
    """Options of the study."""

    agents: str | None = None
    """Sizes, separated by commas: nb=20M, nb=200K, nb=500, nb=25; default: all four."""
    envs: str = returns.ENVS
    """Environments, separated by commas."""
    traces: str = returns.TRACES
    """Contexts, separated by commas."""


def plan_runs(options: BufferOptions) -> list[Job]:
    """Every size in every environment with every trace and seed."""
    columns = returns.choose(COLUMNS, options.agents)
    return returns.plan_columns(options, columns, options.envs, options.traces, seeds=5)


def make_report(options: BufferOptions, results: Sequence[Result]) -> Report:
    """The table, and normalised returns."""
    del options
    return returns_report(results, COLUMNS, TABLE)


study = Study(
    "Table 'gym_buffer_all' and Figure 4: LCPO by the size of its reservoir, beside the paper's",
    BufferOptions,
    plan_runs,
    make_report,
)

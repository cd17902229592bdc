"""The paper's figure of its context traces, and what they hold in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lcpo.contexts import TraceRef
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import returns
from lcpo.study.report import tables, trace_figure
from lcpo.study.study import NO_RUNS, Options, Report, Study, listed


@dataclasses.dataclass(frozen=True)
class TraceOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = (
        "seeds", *(name for name in NO_RUNS if name not in ("traces", "scale")),
    )  # fmt: skip

    traces: str = returns.TRACES
    """Contexts, separated by commas."""


def plan_runs(options: TraceOptions) -> list[Job]:
    """None: nothing is trained."""
    for trace in shown(options):
        trace.describe()
    return []


def shown(options: TraceOptions) -> list[TraceRef]:
    """The traces at the scale of the study."""
    return [TraceRef.parse(t).faster(options.fraction) for t in listed("traces", options.traces)]


def report(options: TraceOptions, results: Sequence[Result]) -> Report:
    """The figure, and a row per trace and channel."""
    del results
    rows = []
    for name in shown(options):
        found = trace_figure.trace_summary(name)
        for channel in range(found["channels"]):
            numbers = [f"{found[key][channel]:.2f}" for key in ("mean", "std", "min", "max")]
            rows.append([str(name), str(channel), f"{found['rows']:,}", *numbers])
    header = ["trace", "channel", "rows", "mean", "std", "min", "max"]
    table = tables.Table(header, rows, "llrrrrr", "contexts of the traces")
    seeds = tables.Table(header, rows, "l" * len(header))
    picture = trace_figure.draw_traces(shown(options))
    return Report(seeds, {"table": table}, figures={"figure": picture},
                  made={"traces": [*map(str, shown(options))], "seeds": 1})  # fmt: skip


study = Study(
    "Figure of the context traces: wind by axis and trace", TraceOptions, plan_runs, report
)

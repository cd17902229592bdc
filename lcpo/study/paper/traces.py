"""The paper's figure of its context traces, and what they hold in numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lcpo.contexts import TraceRef, several
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper.columns import TRACES
from lcpo.study.report import trace_figure
from lcpo.study.report.cells import Column
from lcpo.study.report.figures import to_picture
from lcpo.study.report.tables import Table
from lcpo.study.study import NO_RUNS, Options, Report, Study

NUMBERS = ("mean", "std", "min", "max")


@dataclasses.dataclass(frozen=True)
class TraceOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = (
        "seeds", *(name for name in NO_RUNS if name not in ("traces", "scale")),
    )  # fmt: skip

    traces: str = TRACES
    """Contexts, separated by commas."""


def plan_runs(options: TraceOptions) -> list[Job]:
    """None: nothing is trained."""
    for trace in shown(options):
        trace.describe()
    return []


def shown(options: TraceOptions) -> list[TraceRef]:
    """The traces at the scale of the study."""
    return [trace.faster(options.fraction) for trace in several(options.traces)]


def report(options: TraceOptions, results: Sequence[Result]) -> Report:
    """The figure, and a row per trace and channel."""
    del results
    rows = []
    for name in shown(options):
        found = trace_figure.trace_summary(name)
        for channel in range(found["channels"]):
            numbers = [found[key][channel] for key in NUMBERS]
            rows.append([str(name), str(channel), *numbers, found["rows"]])
    columns = [Column(name, decimals=2, about=f"{name} over all rows") for name in NUMBERS]
    columns.append(Column("rows", ",", about="one per step, or per episode in the grid world"))
    title = "one row per channel of a trace"
    table = Table(["trace", "channel", *columns], rows, title=title, heading="Context traces")
    picture = to_picture(
        trace_figure.plot_traces(shown(options))[0].figure,
        "Context traces over time",
        "A line per channel, as means over blocks of 200 steps; short traces show every row.",
    )
    return Report(table, {"table": table}, figures={"figure": picture},
                  made={"traces": [*map(str, shown(options))], "seeds": 1})  # fmt: skip


HELP = "Figure of the context traces: wind by axis and trace"
study = Study(HELP, TraceOptions, plan_runs, report)

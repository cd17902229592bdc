"""The paper's figure of its two workloads, beside jobs drawn from their twins.

The published curves are moving averages over 500 seconds of the arrivals and of the mean size in
bins of half a second; a bin without jobs counts as size 0. The jobs of the twins are averaged in
the same way and compared with the curves read from the figure. The width of a line shows how much
arrivals and sizes fluctuate.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.straggler import workloads
from lcpo.straggler.workloads.base import HOUR, SECOND
from lcpo.straggler.workloads.paper import Figure, read_figure
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Column
from lcpo.study.report.document import data_table
from lcpo.study.report.tables import Table
from lcpo.study.report.trace_figure import COLOURS
from lcpo.study.study import NO_RUNS, Options, Report, Study
from lcpo.values import number, whole

NAMES = {1: "workload-1", 2: "workload-2"}
BIN = 0.5 * SECOND
DECAY = 0.999  # of the moving average, per bin
SERVERS, INFLATION = 10, 1.9
"""Mean slowdown in the paper's cluster: one copy of a job in ten takes ten times as long."""
PEN = 3.125  # radius of the pen that drew the figure, in pixels
PIXELS = {1: (0.348, 0.811), 2: (1.39, 0.317)}
"""Height of a pixel in jobs per second and in ms, by workload; a column is a pixel wide."""
CHUNK = 1 << 20  # jobs in memory at a time


@dataclasses.dataclass(frozen=True)
class WorkloadOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = NO_RUNS

    seeds: int = 1
    """Draws of the jobs; the figure shows the first."""
    shorten: float = 1.0
    """Draw a pass of so many times less time, to see the figure sooner."""


def plan_runs(options: WorkloadOptions) -> list[Job]:
    """None: nothing is trained."""
    whole("seeds", options.seeds)
    number("shorten", options.shorten, 1.0, 1000.0)
    return []


def report(options: WorkloadOptions, results: Sequence[Result]) -> Report:
    """Both workloads in the figure, and their twins."""
    drawn = {n: [measure(n, seed, options.shorten) for seed in range(options.seeds)] for n in NAMES}
    return Report(
        seeds=seeds(drawn),
        tables={"table": summary(drawn)},
        figures={"figure": figure(drawn)},
        made={"traces": list(NAMES.values()), "seeds": options.seeds},
    )


class TwinLine(NamedTuple):
    """A curve, in the columns of the figure: [P] each."""

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray

    @property
    def width(self) -> float:
        """Width of the line: its median over the columns."""
        return float(np.median(self.high - self.low))


class TwinCurves(NamedTuple):
    """A workload as the figure shows it, or would."""

    hours: np.ndarray  # [P]
    rate: TwinLine  # jobs per second
    size: TwinLine  # ms
    mean_size: float  # of all jobs

    @property
    def load(self) -> np.ndarray:
        """[P]: the share of the servers' time that is asked for, if no job is sent twice."""
        return self.rate.middle * self.size.middle / SECOND * INFLATION / SERVERS


def read(workload: int) -> TwinCurves:
    """From the figure."""
    found: Figure = read_figure(workload)
    rate, size = (TwinLine(*values.T) for values in (found.rate, found.size))
    return TwinCurves(found.hours, rate, size, float(np.average(size.middle, weights=rate.middle)))


def measure(workload: int, seed: int, shorten: float = 1.0) -> TwinCurves:
    """From one pass over the jobs of a twin."""
    from scipy.signal import lfilter

    hours = read_figure(workload).hours
    count, total = bin_jobs(workloads.get(NAMES[workload], shorten=shorten), seed)
    time = hours[0] + (np.arange(len(count)) + 0.5) * (BIN / HOUR * shorten)
    # Columns reach half-way to their neighbours.
    edges = np.searchsorted(time, np.concatenate([[0.0], 0.5 * (hours[1:] + hours[:-1])]))

    def smooth(values: np.ndarray) -> np.ndarray:
        return np.asarray(lfilter([1.0], [1.0, -DECAY], values))

    def line(values: np.ndarray, pixel: float) -> TwinLine:
        curve = smooth(values) / smooth(np.ones(len(values)))
        mean = np.add.reduceat(curve, edges) / np.diff(edges, append=len(curve))
        ends = np.minimum.reduceat(curve, edges), np.maximum.reduceat(curve, edges)
        return with_pen(TwinLine(ends[0], mean, ends[1]), pixel)

    rate = line(count / (BIN / SECOND), PIXELS[workload][0])
    size = line(total / np.maximum(count, 1.0), PIXELS[workload][1])
    return TwinCurves(hours, rate, size, float(total.sum() / count.sum()))


def with_pen(line: TwinLine, pixel: float) -> TwinLine:
    """A line as the figure shows it: what is narrower than the pen between two peaks is filled.

    The pen is a disc, whose radius was subtracted again when the figure was read.
    """
    reach = int(PEN)
    disc = pixel * np.sqrt(PEN**2 - np.arange(-reach, reach + 1) ** 2)

    def windows(edge: np.ndarray) -> np.ndarray:
        padded = np.pad(edge, reach, mode="edge")
        return np.lib.stride_tricks.sliding_window_view(padded, len(disc))

    def close(edge: np.ndarray) -> np.ndarray:
        inked = (windows(edge) + disc).max(1)
        return (windows(inked) - disc).min(1)

    return TwinLine(-close(-line.low), line.middle, close(line.high))


def bin_jobs(source: workloads.Workload, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Number of jobs and sum of their sizes in each half second of a pass."""
    num_bins = int(source.length / BIN)
    count, total = np.zeros(num_bins), np.zeros(num_bins)
    clock, first = 0.0, 0
    while clock < num_bins * BIN:
        sizes, gaps = source.jobs(first, CHUNK, seed)
        ends = clock + np.cumsum(gaps)
        place = ((ends - gaps) / BIN).astype(np.int64)
        low, inside = int(place[0]), place < num_bins
        place, sizes = place[inside] - low, sizes[inside]
        high = low + int(place.max(initial=-1)) + 1
        count[low:high] += np.bincount(place, minlength=high - low)
        total[low:high] += np.bincount(place, sizes, high - low)
        clock, first = float(ends[-1]), first + CHUNK
    return count, total


MISFIT = "jobs per second, 20-hour means: rms difference"


def misfit(found: TwinCurves, wanted: TwinCurves, span: float = 20.0) -> float:
    """How far the mean rates of 20 hours are from the figure's: root mean square."""
    part = (wanted.hours / span).astype(np.int64)
    means = [np.bincount(part, c.rate.middle) / np.bincount(part) for c in (found, wanted)]
    return float(np.sqrt(np.mean((means[0] - means[1]) ** 2)))


MEASURES: dict[str, Callable[[TwinCurves], float]] = {
    "jobs per second": lambda c: float(c.rate.middle.mean()),
    "jobs per second, lowest column": lambda c: float(c.rate.middle.min()),
    "jobs per second, highest column": lambda c: float(c.rate.middle.max()),
    "jobs per second, top of the line": lambda c: float(c.rate.high.max()),
    "jobs per second, width of the line": lambda c: c.rate.width,
    "mean size (ms)": lambda c: c.mean_size,
    "mean size (ms), width of the line": lambda c: c.size.width,
    "offered load": lambda c: float(c.load.mean()),
    "offered load, lowest column": lambda c: float(c.load.min()),
    "offered load, highest column": lambda c: float(c.load.max()),
}


def seeds(drawn: Mapping[int, Sequence[TwinCurves]]) -> Table:
    """A row per workload and seed, for seeds.csv."""
    rows = [
        [NAMES[n], seed, *(f(c) for f in MEASURES.values()), misfit(c, read(n))]
        for n, all_curves in drawn.items()
        for seed, c in enumerate(all_curves)
    ]
    return data_table(["trace", "seed", *MEASURES, MISFIT], rows)


def summary(drawn: Mapping[int, Sequence[TwinCurves]]) -> Table:
    """The figure beside the twins, which are means over seeds."""
    wanted = {n: read(n) for n in drawn}

    def mean(n: int, get: Callable[[TwinCurves], float]) -> float:
        return float(np.mean([get(curves) for curves in drawn[n]]))

    rows: list[list[Cell]] = [
        [label, *(x for n in drawn for x in (get(wanted[n]), mean(n, get)))]
        for label, get in MEASURES.items()
    ]
    far = (mean(n, functools.partial(misfit, wanted=wanted[n])) for n in drawn)
    rows.append([MISFIT, *(cell for value in far for cell in (None, value))])
    words = {"figure": "read from the paper's figure", "twin": "of the synthetic workload"}
    columns = [(f"workload {n}: {what}", words[what]) for n in drawn for what in words]
    return Table(
        ["", *(Column(name, "g", decimals=3, about=about) for name, about in columns)],
        rows,
        title=f"means over {len(next(iter(drawn.values())))} draws of each twin",
        heading="The paper's workloads and their twins",
    )


def figure(drawn: Mapping[int, Sequence[TwinCurves]]) -> figures.Picture:
    """Rate above, size below; the twin's line is filled, the figure's has an outline."""
    shape = figures.new_figure(10.5, 5.2)
    axes = shape.subplots(2, len(drawn), sharex="col", squeeze=False)
    for column, (n, found) in zip(axes.T, drawn.items(), strict=True):
        wanted = read(n)
        pairs = (found[0].rate, wanted.rate), (found[0].size, wanted.size)
        for axis, (mine, paper), colour in zip(column, pairs, COLOURS, strict=False):
            fill = {"color": colour, "alpha": 0.6, "lw": 0, "label": "twin"}
            axis.fill_between(found[0].hours, mine.low, mine.high, **fill)
            for edge, label in ((paper.low, None), (paper.high, "paper's figure")):
                axis.plot(found[0].hours, edge, lw=0.8, color="0.2", label=label)
            axis.set(ylim=(0, None))
            axis.spines[["top", "right"]].set_visible(False)
        column[0].set_title(f"workload {n}", loc="left")
        column[1].set(xlabel="hours", xlim=(0, wanted.hours[-1]))
    axes[0, 0].set(ylabel="jobs per second")
    axes[1, 0].set(ylabel="mean size (ms)")
    axes[0, 0].legend(frameon=False, loc="upper left")
    return figures.to_picture(
        shape,
        "Arrivals and sizes over time",
        "Above: jobs per second; below: mean size. Filled: a draw of the twin. Outline: the "
        "paper's figure.",
    )


study = Study(
    "The paper's two workloads: arrivals and sizes over time, and their synthetic twins",
    WorkloadOptions,
    plan_runs,
    report,
)

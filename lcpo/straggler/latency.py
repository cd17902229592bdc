"""Latencies of the straggler task, from the records of runs: overall, by the hour, as a figure.

A run records percentiles of the latencies of every 5-minute bucket of requests, in the window in
which the bucket is closed (docs/envs/straggler.md). All numbers are means over such buckets, as the
paper's is: the mean of the 5-minute 95th percentiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.run.store.record import TOTAL, Record
from lcpo.run.store.results import Result
from lcpo.straggler import rules
from lcpo.study.measure import stats
from lcpo.study.measure.compare import finished_runs
from lcpo.study.measure.measures import Measure
from lcpo.study.measure.stats import NAN, Estimate
from lcpo.study.report import figures
from lcpo.study.report.figures import COLOURS, STYLES

WINDOWS_PER_HOUR = 7200
DELAY = 900  # windows from the middle of a bucket to its closing: a bucket stays open for one more
P95, P99, P999 = "p95", "p99", "p999"
WORSE = 1.05  # an hour is worse than another run's if its latency is more than so many times that
NEVER, ORACLE = "never-hedge", "hedge-hourly"
FIXED = tuple(agent.name for agent in rules.FIXED)
SHOWN = ("lcpo-cons", "lcpo-uniform", "a2c", "sac", "hedge-table")
"""Curves of the figure, beside the best fixed timeout and the hourly plan."""


def mean_latency(record: Record, after_step: int = 0, which: str = P95) -> float:
    """Mean over the buckets of requests that arrived after a step, in milliseconds."""
    late = _middle(record) >= after_step
    count = record[TOTAL + "buckets"][late].sum()
    return float(record[TOTAL + which][late].sum() / count) if count > 0 else NAN


def extra_load(record: Record, after_step: int = 0) -> float:
    """Work done for second copies, as a share of that for first ones."""
    late = record["step"] > after_step
    first, all_of_it = (record[TOTAL + name][late].sum() for name in ("first_ms", "work_ms"))
    return float(all_of_it / first - 1.0) if first > 0 else NAN


def by_hour(record: Record, num_hours: int, which: str = P95) -> np.ndarray:
    """[num_hours], mean latency of the requests of each hour; NaN where no bucket was closed."""
    hour = (np.maximum(_middle(record), 0.0) // WINDOWS_PER_HOUR).astype(np.int64)
    inside = hour < num_hours
    total, count = (
        np.bincount(hour[inside], record[TOTAL + name][inside], num_hours)
        for name in (which, "buckets")
    )
    return np.where(count > 0, total / np.maximum(count, 1.0), NAN)


def worst_hour(hours: np.ndarray, other: np.ndarray, first: int = 0) -> float:
    """The largest ratio of the latencies of two runs in an hour, from hour `first` on."""
    ratio = (hours / other)[first:]
    return float(np.nanmax(ratio)) if np.isfinite(ratio).any() else NAN


def worse_share(hours: np.ndarray, other: np.ndarray, first: int = 0) -> float:
    """Share of the hours that are worse than another run's (`WORSE`)."""
    ratio = (hours / other)[first:]
    known = np.isfinite(ratio)
    return float(np.mean(ratio[known] > WORSE)) if known.any() else NAN


def hours_until_better(hours: np.ndarray, other: np.ndarray, stretch: int) -> float:
    """The first hour from which on the mean of `stretch` hours is below another run's.

    `stretch`: a pass of the workload, so that both have met all of it. Infinite: never.
    """
    known = np.isfinite(hours) & np.isfinite(other)
    gain = np.where(known, other - hours, 0.0)
    if len(gain) < stretch or not known.any():
        return NAN
    ahead = np.convolve(gain, np.ones(stretch), "valid") > 0.0
    return float(np.argmax(ahead)) if ahead.any() else float("inf")


def _middle(record: Record) -> np.ndarray:
    """Where the middle of the bucket is that a row closed at its end, in windows."""
    return record["step"].astype(np.float64) - DELAY


MEASURES = (
    Measure(
        "latency",
        "p95 ms",
        mean_latency,
        P95,
        "p95_ms",
        about="95th percentile of latency, mean over 5-minute buckets after the warm-up",
    ),
    Measure(
        "extra_load",
        "extra load %",
        extra_load,
        "work_ms",
        "extra_load",
        factor=100.0,
        about="work for duplicated requests, relative to the others, after the warm-up",
    ),
)
"""What every comparison on the task shows."""


class WorkloadRuns(NamedTuple):
    """The runs on one workload."""

    workload: str
    windows: int  # of a pass
    passes: int
    groups: Mapping[str, Sequence[Result]]  # by the name of the agent or of its setting

    @property
    def num_hours(self) -> int:
        return math.ceil(self.passes * self.windows / WINDOWS_PER_HOUR)

    @property
    def pass_hours(self) -> int:
        return round(self.windows / WINDOWS_PER_HOUR)

    def runs(self, name: str | None) -> list[Result]:
        """The finished ones of a group."""
        return finished_runs(self.groups.get(name or "", ()))

    def hours(self, name: str | None) -> dict[int, np.ndarray]:
        """Latency by hour of the runs of a group, by seed."""
        return {r.job.seed: by_hour(r.record, self.num_hours) for r in self.runs(name)}


def best_fixed(part: WorkloadRuns) -> str | None:
    """The fixed timeout with the lowest mean after the first pass, chosen in hindsight."""
    means = {
        name: np.mean([mean_latency(r.record, part.windows) for r in part.runs(name)])
        for name in part.groups
        if name in FIXED and part.runs(name)
    }
    return min(means, key=lambda name: means[name]) if means else None


def hindsight(part: WorkloadRuns) -> Estimate | None:
    """Mean over hours of the lowest latency of any fixed timeout, by seed."""
    fixed = [part.hours(name) for name in part.groups if name in FIXED]
    if len(fixed) < 2:
        return None
    shared = sorted(set(fixed[0]).intersection(*fixed))
    hours = [np.stack([one[seed] for one in fixed])[:, part.pass_hours :] for seed in shared]
    means = [float(np.nanmean(np.nanmin(x, axis=0))) for x in hours]
    return stats.mean_ci(means) if means else None


def draw(parts: Sequence[WorkloadRuns]) -> figures.Picture:
    """Latency over time, a panel per workload: means of 2 hours.

    The axis is logarithmic: curves are geometric means over seeds, bands Student's intervals of the
    logarithms.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    shape = figures.new_figure(7.6, 3.0 * len(parts) + 0.4)
    axes = shape.subplots(len(parts), squeeze=False)[:, 0]
    handles: dict[str, Any] = {}
    for axis, part in zip(axes, parts, strict=True):
        best = best_fixed(part)
        for name in (*(name for name in SHOWN if name in part.groups), ORACLE, best):
            runs = part.hours(name)
            if not runs:
                continue
            label = "best fixed timeout" if name == best else str(name)
            number = [*handles, label].index(label)
            color, style = COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS)]
            logs = np.log(_pair_means(np.stack([*runs.values()])))
            mean, half = logs.mean(axis=0), stats.half_width(logs)
            x = 2.0 * np.arange(len(mean)) + 1.0
            handles[label] = axis.plot(x, np.exp(mean), color=color, ls=style, lw=1.2)[0]
            low, high = np.exp(mean - half), np.exp(mean + half)
            axis.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
        for number in range(1, part.passes):
            axis.axvline(number * part.windows / WINDOWS_PER_HOUR, color="0.85", lw=0.8)
        axis.set(ylabel="p95 latency, ms", yscale="log", xlim=(0, part.num_hours))
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.minorticks_off()
        axis.set_title(part.workload, loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("hours of the run; a line where the workload begins again")
    above = {"loc": "outside upper center", "ncols": 4}
    shape.legend(handles.values(), handles.keys(), frameon=False, fontsize=8, **above)
    return figures.to_picture(
        shape,
        "Latency over the run",
        "95th percentile of latency, means over 2 hours. Lines are geometric means over seeds, "
        "bands 95 % intervals. Vertical lines: the workload begins again.",
    )


def _pair_means(hours: np.ndarray) -> np.ndarray:
    """Means of 2 hours; an hour without requests does not count."""
    pairs = hours[:, : hours.shape[1] // 2 * 2].reshape(len(hours), -1, 2)
    known = np.isfinite(pairs).sum(axis=-1)
    return np.nansum(pairs, axis=-1) / np.where(known > 0, known, np.nan)

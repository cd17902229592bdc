"""Percentiles over time, and a table with intervals over blocks.

All lanes had the same requests at the same time, so each is compared with never hedging block by
block. A block is one cycle of the regimes.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.hedging.live import Phase, Tick
from examples.hedging.workload import Regimes
from lcpo.core.intervals import Estimate, mean_ci

SECONDS = 5.0
"""A percentile is taken over the requests that arrived in so many seconds."""


class Answers(NamedTuple):
    """The requests of a lane, as the client saw them."""

    times: np.ndarray  # [M] arrivals, seconds
    latencies: np.ndarray  # [M] milliseconds
    lost: int
    """Requests that were not answered with 200."""


class Row(NamedTuple):
    """A controller in the table: means over blocks."""

    lane: str
    p95: Estimate
    p99: Estimate
    minus: Estimate
    """p95 minus the p95 of the reference lane, block by block."""
    regimes: tuple[float, ...]
    """p95 by regime."""
    extra: Estimate
    """Extra load: work of second copies over the work of first copies."""
    requests: int
    lost: int


def read_answers(path: Path) -> Answers:
    """The file that the load generator wrote."""
    found = np.loadtxt(path, delimiter=",", ndmin=2)
    if not found.size:
        return Answers(np.zeros(0), np.zeros(0), 0)
    good = found[:, 2] == 200
    order = np.argsort(found[good, 0], kind="stable")
    answered = found[good][order]
    return Answers(answered[:, 0], answered[:, 1], int((~good).sum()))


def percentiles(answers: Answers, edges: np.ndarray, percent: float) -> np.ndarray:
    """One for each interval between edges, by arrival; NaN where nothing arrived."""
    bounds = np.searchsorted(answers.times, edges)
    parts = [answers.latencies[a:b] for a, b in itertools.pairwise(bounds)]
    return np.array([np.percentile(part, percent) if part.size else np.nan for part in parts])


def edges(phase: Phase, regimes: Regimes, seconds: float = SECONDS) -> np.ndarray:
    """Bounds of the intervals of a phase, which never span two regimes."""
    seconds = min(seconds, regimes.seconds)
    return np.arange(phase.begin, phase.end + 0.5 * seconds, seconds)


def extra_load(ticks: Sequence[Tick], lane: str, bounds: np.ndarray) -> np.ndarray:
    """Work of all copies over that of first copies, minus 1, between bounds."""
    mine = [tick for tick in ticks if tick.lane == lane]
    times = np.array([tick.time for tick in mine])
    work = np.array([(tick.work_ms, tick.first_ms) for tick in mine])
    place = np.digitize(times, bounds) - 1
    sums = np.array([work[place == k].sum(0) for k in range(len(bounds) - 1)])
    return sums[:, 0] / np.maximum(sums[:, 1], 1e-9) - 1.0


def table(
    answers: Mapping[str, Answers], ticks: Sequence[Tick], phase: Phase, regimes: Regimes,
    reference: str,
) -> list[Row]:  # fmt: skip
    """One row for each lane, over the blocks of a phase."""
    inner = edges(phase, regimes)
    per_block = round(regimes.cycle / (inner[1] - inner[0]))
    blocks = (len(inner) - 1) // per_block
    kept = inner[: blocks * per_block + 1]
    regime = np.array([regimes.number(0.5 * (a + b)) for a, b in itertools.pairwise(kept)])
    p95 = {name: percentiles(found, kept, 95) for name, found in answers.items()}
    means = {name: np.nanmean(x.reshape(blocks, -1), 1) for name, x in p95.items()}
    rows = []
    for name, found in answers.items():
        p99 = np.nanmean(percentiles(found, kept, 99).reshape(blocks, -1), 1)
        by_regime = [float(np.nanmean(p95[name][regime == k])) for k in range(len(regimes.rates))]
        inside = (found.times >= kept[0]) & (found.times < kept[-1])
        rows.append(Row(
            name, mean_ci(means[name]), mean_ci(p99), mean_ci(means[name] - means[reference]),
            tuple(by_regime), mean_ci(extra_load(ticks, name, kept[::per_block])),
            int(inside.sum()), found.lost,
        ))  # fmt: skip
    return sorted(rows, key=lambda row: row.p95.mean)


def columns(regimes: Regimes, reference: str) -> list[str]:
    """Names of the columns."""
    rates = [f"p95 at {rate:g}/s, ms" for rate in regimes.rates]
    return [
        "controller", "p95, ms", f"minus {reference}, ms", *rates, "p99, ms", "extra load, %",
        "requests", "lost",
    ]  # fmt: skip


def cells(rows: Sequence[Row], reference: str) -> list[list[str]]:
    """The table as text."""
    found = []
    for row in rows:
        extra = Estimate(
            100.0 * row.extra.mean, 100.0 * row.extra.low, 100.0 * row.extra.high, row.extra.n
        )
        minus = "0" if row.lane == reference else _interval(row.minus, "+.0f")
        found.append([
            row.lane, _interval(row.p95, ".0f"), minus, *(f"{x:.0f}" for x in row.regimes),
            _interval(row.p99, ".0f"), _interval(extra, ".1f"), str(row.requests), str(row.lost),
        ])  # fmt: skip
    return found


def _interval(found: Estimate, form: str) -> str:
    """A mean and the half width of its interval."""
    half = 0.5 * (found.high - found.low)
    return f"{found.mean:{form}} ± {half:{form.replace('+', '')}}"


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write(folder: Path, head: Sequence[str], body: Sequence[Sequence[str]], made: Mapping) -> None:
    """table.md, table.csv, made.json."""
    (folder / "table.md").write_text(markdown(head, body))
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *body])
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n")

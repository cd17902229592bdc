"""How often do intervals over drawn traces hold? `python benchmarks/coverage.py OUT`.

Draws traces and 4 seeds on each from a population whose mean is known, again and again, and counts
how often a 95 % interval contains that mean. Writes OUT/table.md: the library's interval
(`stats.hierarchical_ci`), Student's interval of the means of traces, and the percentiles of
resamples of traces and their seeds, which the library used before.

A population is a distribution of traces to which seeds add noise, or the differences that
results/rivals/seeds.csv has between an agent and the paper's LCPO on a family: its 30 traces, and
the 4 seeds of each, are drawn with replacement.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lcpo.study.controls.drawn_tables import Returns
from lcpo.study.measure import stats
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table

REPETITIONS = 4000
RESAMPLES = 999
SEEDS = 4
RIVALS = Path(__file__).parents[1] / "results" / "rivals" / "seeds.csv"
PAPER = ("lcpo", "c_anchor=0.0001-value_steps=1")

Population = Callable[[np.random.Generator, int], np.ndarray]
"""Returns of so many traces, [traces, seeds], less their true mean."""


def skewed(shape: float, ratio: float = 3.0) -> Population:
    """Traces with a gamma distribution of skewness 2 / sqrt(shape), `ratio` times as far apart as
    the seeds of a trace."""

    def draw(rng: np.random.Generator, traces: int) -> np.ndarray:
        x = (rng.gamma(shape, size=(traces, 1)) - shape) / shape**0.5
        return x + rng.standard_normal((traces, SEEDS)) / ratio

    return draw


def normal(ratio: float) -> Population:
    """Normal traces, `ratio` times as far apart as the seeds of a trace."""

    def draw(rng: np.random.Generator, traces: int) -> np.ndarray:
        x = rng.standard_normal((traces, 1))
        return x + rng.standard_normal((traces, SEEDS)) / ratio

    return draw


def committed(agent: str, setting: str, family: str) -> Population:
    """Differences of whole runs from the paper's LCPO, as they were measured."""
    found: dict[tuple[str, str], Returns] = {}
    with RIVALS.open() as lines:
        for row in csv.DictReader(lines):
            if f":{family}:" in row["trace"]:
                case = found.setdefault((row["agent"], row["setting"]), {})
                case.setdefault(row["trace"], {})[int(row["seed"])] = float(row["whole_run"])
    mine, paper = found[agent, setting], found[PAPER]
    x = np.array([[mine[trace][s] - paper[trace][s] for s in range(SEEDS)] for trace in mine])
    x -= x.mean()

    def draw(rng: np.random.Generator, traces: int) -> np.ndarray:
        chosen = rng.integers(len(x), size=(traces, 1))
        return x[chosen, rng.integers(SEEDS, size=(traces, SEEDS))]

    return draw


POPULATIONS: dict[str, Population] = {
    "normal": normal(3.0),
    "normal, seeds differ three times as much as traces": normal(1 / 3),
    "skewness 1": skewed(4.0),
    "skewness 2": skewed(1.0),
    "skewness 2.5": skewed(0.64),
    "sac, 1 step, drift": committed("sac", "updates_per_rollout=1", "drift"),
    "sac, 10 steps, revisit": committed("sac", "updates_per_rollout=10", "revisit"),
    "ddqn, 10 steps, revisit": committed("ddqn", "updates_per_rollout=10", "revisit"),
    "ddqn, 10 steps, drift": committed("ddqn", "updates_per_rollout=10", "drift"),
    "lcpo, 5 steps, burst": committed("lcpo", "c_anchor=0.0001-value_steps=5", "burst"),
}


def percentiles(x: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Of resamples of traces, and then of the seeds of each."""
    traces, seeds = x.shape
    trace = rng.integers(traces, size=(RESAMPLES, traces, 1))
    means = x[trace, rng.integers(seeds, size=(RESAMPLES, traces, seeds))].mean((1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def coverage(population: Population, traces: int, repetitions: int) -> list[tuple[float, float]]:
    """(share of intervals that hold, median width) of the library's, Student's, and percentiles."""
    rng = np.random.default_rng(traces)
    held, widths = [], []
    for repetition in range(repetitions):
        x = population(rng, traces)
        ours = stats.hierarchical_ci(dict(enumerate(x)), resamples=RESAMPLES, seed=repetition)
        student = stats.mean_ci(x.mean(1))
        bounds = [(ours.low, ours.high), (student.low, student.high), percentiles(x, rng)]
        held.append([low <= 0.0 <= high for low, high in bounds])
        widths.append([high - low for low, high in bounds])
    return list(zip(np.mean(held, axis=0), np.median(widths, axis=0), strict=True))


def main() -> None:
    out = Path(sys.argv[1])
    rows = []
    for name, population in POPULATIONS.items():
        for traces in (6, 10, 30):
            ours, student, resampled = coverage(population, traces, REPETITIONS)
            shares = [f"{100 * share:.1f}" for share, _ in (ours, student, resampled)]
            rows.append([name, str(traces), *shares, f"{ours[1] / student[1]:.2f}"])
            print(*rows[-1], sep=" | ", flush=True)
    header = ["traces are", "traces", "hierarchical_ci, %", "Student's, %", "percentiles, %",
              "median width, Student's = 1"]  # fmt: skip
    title = f"95 % intervals that hold, of {REPETITIONS:,} samples with {SEEDS} seeds a trace"
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(Table(columns(header, "lrrrrr"), rows, title=title).to_markdown())


if __name__ == "__main__":
    main()

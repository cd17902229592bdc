"""The tables of results/suggest, from its seeds.csv."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.study.measure.stats import mean_ci
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table

JUDGED = 20
"""Seeds from here on chose neither the rules nor the best point."""
SUGGESTED, RANDOM, CONSTANT = "suggested", "random", "constant"


class Run(NamedTuple):
    """What a run earned: its mean return, or reward per step, over the whole run."""

    task: str
    steps: int
    point: str
    seed: int
    whole_run: float


World = tuple[str, int]
"""A task, and the number of steps."""


def task_of(env: str) -> str:
    """battery, for benchmarks.small_tasks:Battery."""
    return env.rpartition(":")[2].lower()


def is_learner(point: str, *also: str) -> bool:
    """Whether a point learns, or is one of these."""
    return point in also or point.partition("-")[0] not in (RANDOM, CONSTANT)


def of_seeds(path: Path) -> dict[str, Table]:
    """The tables by name."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "finished"]
    runs = [
        Run(
            task_of(row["env"]), int(row["steps"]), row["setting"], int(row["seed"]),
            float(row["whole_run"]),
        )
        for row in rows
    ]  # fmt: skip
    return {"table": suggested_table(runs), "points": points_table(runs)}


def best_point(runs: Iterable[Run]) -> str:
    """The point with the highest mean of one task."""
    means = {point: _mean(mine) for point, mine in _by_point(runs).items()}
    return max(means, key=lambda point: means[point])


def suggested_table(runs: Sequence[Run]) -> Table:
    """The suggestion beside the best point of the grid, with seeds that chose neither.

    `constant`: of the action that is best if it is always taken.
    """
    rows = []
    for world, mine in _by_world(runs).items():
        fresh = _by_point(run for run in mine if run.seed >= JUDGED)
        if SUGGESTED not in fresh:
            continue
        random = _mean(run for run in mine if run.point == RANDOM)
        fixed = max(run.whole_run for run in mine if not is_learner(run.point, RANDOM))
        (best,) = [point for point in fresh if point != SUGGESTED]
        ours, theirs = (mean_ci([run.whole_run for run in fresh[p]]) for p in (SUGGESTED, best))
        behind = 100.0 * (theirs.mean - ours.mean) / abs(theirs.mean)
        gain = (ours.mean - random) / (theirs.mean - random)
        rows.append([*world, ours, best, theirs, fixed, random, behind, gain])
    columns = [
        "task", Column("steps", ","), "suggested", Column("best point", side="l"), "best",
        "constant", "random",
        Column("behind %", decimals=1), Column("share of the gain", decimals=2),
    ]  # fmt: skip
    return Table(columns, rows)


def points_table(runs: Sequence[Run]) -> Table:
    """Every point on every task: 0 for random actions, 1 for the best point."""
    shares: dict[World, Mapping[str, float]] = {}
    for world, mine in _by_world(runs).items():
        chosen = _by_point(
            run for run in mine if run.seed < JUDGED and is_learner(run.point, RANDOM)
        )
        shares[world] = _shares({point: _mean(them) for point, them in chosen.items()})
    points = sorted({point for found in shares.values() for point in found})
    rows: list[list[Any]] = [
        [point, *(found.get(point) for found in shares.values())]
        for point in points
        if point != RANDOM
    ]
    header = [Column(f"{task} {steps // 1000}k", decimals=2) for task, steps in shares]
    return Table([Column("point", side="l"), *header], rows)


def _shares(means: Mapping[str, float]) -> dict[str, float]:
    random, best = means[RANDOM], max(means.values())
    return {point: (value - random) / (best - random) for point, value in means.items()}


def _by_world(runs: Iterable[Run]) -> dict[World, list[Run]]:
    """Runs by task and steps, in this order."""
    found: dict[World, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.steps)):
        found.setdefault((run.task, run.steps), []).append(run)
    return found


def _by_point(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.point, []).append(run)
    return found


def _mean(runs: Iterable[Run]) -> float:
    return statistics.fmean(run.whole_run for run in runs)

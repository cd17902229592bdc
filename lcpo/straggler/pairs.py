"""Latencies of agents beside those of a few others, seed by seed.

The agents of a seed meet the same requests, so that differences vary less than latencies do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lcpo.study.measure import stats
from lcpo.study.report import tables


class Latencies(Protocol):
    """Of one run, in ms."""

    @property
    def p95(self) -> float: ...
    @property
    def p99(self) -> float: ...
    @property
    def p999(self) -> float: ...


Runs = Mapping[str, Mapping[int, Latencies]]
"""By agent and seed."""


def table(workloads: Mapping[str, Runs], references: Sequence[str]) -> tables.Table:
    """Every agent minus each of `references`, where they share a seed."""
    rows = []
    for workload, runs in workloads.items():
        for other in references:
            theirs = runs.get(other, {})
            for name, mine in runs.items():
                if name != other and mine.keys() & theirs.keys():
                    rows.append([workload, name, other, *_difference(mine, theirs)])
    header = ["workload", "agent", "minus", "p95", "p99", "p99.9", "lower p95 on"]
    title = "differences by seed in ms, with 95 % intervals; below 0: the agent has less latency"
    return tables.Table(header, rows, "lllrrrr", title)


def _difference(mine: Mapping[int, Latencies], theirs: Mapping[int, Latencies]) -> list[str]:
    cells = []
    for field in ("p95", "p99", "p999"):
        one, other = ({s: getattr(run, field) for s, run in x.items()} for x in (mine, theirs))
        cells.append(tables.plus_minus(stats.paired_difference(one, other), sign=True))
    shared = mine.keys() & theirs.keys()
    lower = sum(mine[seed].p95 < theirs[seed].p95 for seed in shared)
    return [*cells, f"{lower} of {len(shared)}"]

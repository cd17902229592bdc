"""Tables of runs on drawn traces: a row per family and case, with intervals over both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lcpo.contexts import TraceRef
from lcpo.study.controls.drawn import LATE, point_of
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import tables
from lcpo.study.report.tables import Table


class Run(NamedTuple):
    """A run that has ended; returns are None where it failed."""

    agent: str
    setting: str
    env: str
    trace: str
    seed: int
    steps: int
    after: float | None
    whole: float | None

    @property
    def kind(self) -> str:
        """The family of its trace; of a trace that is not drawn: its name."""
        return TraceRef.parse(self.trace).family or self.trace


def runs_of(table: Table) -> list[Run]:
    """The runs of a table of seeds."""
    found = []
    for cells in table.rows:
        row = dict(zip(table.header, cells, strict=True))
        after, whole = (
            float(row[name]) if row[name] else None for name in ("return_after_warmup", "whole_run")
        )
        names = (row["agent"], point_of(row["setting"]), row["env"], row["trace"])
        found.append(Run(*names, int(row["seed"]), int(row["steps"] or 0), after, whole))
    return found


Returns = dict[str, dict[int, float]]
"""By trace and seed."""


def returns(runs: Sequence[Run], field: str) -> Returns:
    """Of the runs that finished."""
    found: Returns = {}
    for run in runs:
        value = getattr(run, field)
        if value is not None:
            found.setdefault(run.trace, {})[run.seed] = value
    return found


def estimate(found: Returns) -> Estimate:
    """Over traces and seeds; of one trace: over its seeds."""
    if len(found) == 1:
        return stats.mean_ci(list(next(iter(found.values())).values()))
    return stats.hierarchical_ci({trace: list(seeds.values()) for trace, seeds in found.items()})


Key = tuple[str, str]
"""(agent, setting)."""


def parts(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each family, or trace that is not drawn; then all, where there are several."""
    several = len({run.env for run in runs}) > 1
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(f"{run.env}, {run.kind}" if several else run.kind, []).append(run)
    return found if several or len(found) == 1 else {**found, "all": list(runs)}


def groups(runs: Sequence[Run]) -> dict[Key, list[Run]]:
    """The runs of each case."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        found.setdefault((run.agent, run.setting), []).append(run)
    return found


def summary(
    runs: Sequence[Run],
    header: Sequence[str],
    cells: Callable[[Key], Sequence[str]],
    reference: Callable[[Key], Key],
    against: str,
) -> Table:
    """A row per family and case: `cells` under `header`, the returns, the difference of whole runs.

    `reference`: what a case is compared with, which the column calls `against`.
    """
    rows = []
    for part, here in parts(runs).items():
        cases = groups(here)
        for key, members in cases.items():
            whole, late = returns(members, "whole"), returns(members, "after")
            ended = sum(run.whole is not None for run in members)
            total = f"{ended}" if ended == len(members) else f"{ended} of {len(members)}"
            gained = [tables.NONE, tables.NONE]
            if reference(key) != key:
                gained = gain_cells(whole, returns(cases.get(reference(key), []), "whole"))
            estimates = (tables.plus_minus(estimate(found)) for found in (late, whole))
            rows.append([part, *cells(key), total, *estimates, *gained])
    late = f"return after {tables.short_count(max(run.steps for run in runs) // LATE)}"
    last = ("runs", late, "whole run", f"minus {against}, whole run", "better on")
    return Table(["trace", *header, *last], rows, "l" * (len(header) + 1) + "rrrrr", title(runs))


def gain(a: Returns, b: Returns) -> Estimate:
    """a - b, seed by seed on the traces that both have; of one trace: over its seeds."""
    shared = _shared(a, b)
    if len(shared) == 1:
        return stats.paired_difference(a[shared[0]], b[shared[0]])
    return stats.hierarchical_difference(a, b)


def gain_cells(a: Returns, b: Returns) -> list[str]:
    """a - b with its interval, and on how many traces a is better."""
    shared = _shared(a, b)
    if not shared:
        return [tables.NONE, tables.NONE]
    better = sum(stats.paired_difference(a[trace], b[trace]).mean > 0.0 for trace in shared)
    return [tables.plus_minus(gain(a, b), sign=True), f"{better} of {len(shared)}"]


def _shared(a: Returns, b: Returns) -> list[str]:
    return [trace for trace in a if trace in b and a[trace].keys() & b[trace].keys()]


def title(runs: Sequence[Run]) -> str:
    """Of a table of them."""
    envs = dict.fromkeys(run.env for run in runs)
    traces = dict.fromkeys(run.trace for run in runs)
    drawn_ones = any(run.kind != run.trace for run in runs)
    what = f"{len(traces)} drawn traces" if drawn_ones else f"trace {', '.join(traces)}"
    over = "traces and their seeds" if drawn_ones else "seeds"
    steps = max(run.steps for run in runs)
    return f"{', '.join(envs)}, {what}, {steps:,} steps; 95 % intervals over {over}"

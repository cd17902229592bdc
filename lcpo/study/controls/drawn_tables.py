"""Tables of runs on drawn traces: a row per family and case, with intervals over both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lcpo.study.controls.drawn import LATE, DrawnRun, Key
from lcpo.study.costs import short_count
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.report.cells import Cell, Column, Count, count_of
from lcpo.study.report.report import WHOLE_RUN, late_column
from lcpo.study.report.tables import Table

DIFFERENCE = "mean difference by trace and seed"
BETTER = Column("better on", about="traces with a higher mean over seeds")
Returns = dict[str, dict[int, float]]
"""By trace and seed."""


def returns(runs: Sequence[DrawnRun], field: str) -> Returns:
    """Returns of the finished runs."""
    found: Returns = {}
    for run in runs:
        value = getattr(run, field)
        if value is not None:
            found.setdefault(run.trace, {})[run.seed] = value
    return found


def estimate(found: Returns) -> Estimate:
    """Over traces and seeds; for one trace, over its seeds."""
    if len(found) == 1:
        return stats.mean_ci(list(next(iter(found.values())).values()))
    return stats.hierarchical_ci({trace: list(seeds.values()) for trace, seeds in found.items()})


def parts(runs: Sequence[DrawnRun]) -> dict[str, dict[Key, list[DrawnRun]]]:
    """The runs of each case, by family or undrawn trace; then all, if there are several."""
    several = len({run.env for run in runs}) > 1
    found: dict[str, list[DrawnRun]] = {}
    for run in runs:
        found.setdefault(f"{run.env}, {run.kind}" if several else run.kind, []).append(run)
    if not several and len(found) > 1:
        found["all"] = list(runs)
    return {name: groups(mine) for name, mine in found.items()}


def groups(runs: Sequence[DrawnRun]) -> dict[Key, list[DrawnRun]]:
    """The runs of each case."""
    found: dict[Key, list[DrawnRun]] = {}
    for run in runs:
        found.setdefault(run.key, []).append(run)
    return found


def summary(
    runs: Sequence[DrawnRun],
    columns: Sequence[Column | str],
    cells: Callable[[Key], Sequence[Cell]],
    reference: Callable[[Key], Key],
    against: str,
    notes: Sequence[str] = (),
) -> Table:
    """A row per family and case: `cells` under `columns`, returns, the difference of whole runs.

    `reference`: the case that a case is compared with, which the column calls `against`.
    """
    rows = []
    for part, cases in parts(runs).items():
        for key, members in cases.items():
            whole, late = returns(members, "whole"), returns(members, "after")
            other = reference(key)
            gained = [None, None] if other == key else gains(cases, key, other, "whole")
            total = count_of(sum(run.whole is not None for run in members), len(members))
            rows.append([part, *cells(key), estimate(whole), *gained, estimate(late), total])
    warmup = short_count(max(run.steps for run in runs) // LATE)
    last = [
        WHOLE_RUN,
        Column(f"minus {against}, whole run", "+", about=f"{DIFFERENCE} from {against}"),
        BETTER,
        late_column(warmup)._replace(key=""),
        Column("runs", about="that finished, on all traces and with all seeds"),
    ]
    heading = "Return of each agent on each family of traces"
    return Table(["trace", *columns, *last], rows, title=title(runs), notes=notes, heading=heading)


def gain(a: Returns, b: Returns) -> Estimate:
    """a - b, seed by seed on the traces that both have; for one trace, over its seeds."""
    shared = _shared(a, b)
    if len(shared) == 1:
        return stats.paired_difference(a[shared[0]], b[shared[0]])
    return stats.hierarchical_difference(a, b)


def gains(cases: Mapping[Key, Sequence[DrawnRun]], a: Key, b: Key, field: str) -> list[Cell]:
    """a - b with its interval, and on how many traces a is better."""
    mine, other = (returns(cases.get(key, []), field) for key in (a, b))
    shared = _shared(mine, other)
    if not shared:
        return [None, None]
    better = sum(stats.paired_difference(mine[t], other[t]).mean > 0.0 for t in shared)
    return [gain(mine, other), Count(better, len(shared))]


def _shared(a: Returns, b: Returns) -> list[str]:
    return [trace for trace in a if trace in b and a[trace].keys() & b[trace].keys()]


def title(runs: Sequence[DrawnRun]) -> str:
    """The title of a table."""
    envs, traces = (dict.fromkeys(getattr(run, name) for run in runs) for name in ("env", "trace"))
    drawn = any(run.kind != run.trace for run in runs)
    what = f"{len(traces)} drawn traces" if drawn else f"trace {', '.join(traces)}"
    over = "traces and their seeds" if drawn else "seeds"
    steps = max(run.steps for run in runs)
    return f"{', '.join(envs)}, {what}, {steps:,} steps; 95 % intervals over {over}"

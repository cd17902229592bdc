"""How well could one do, knowing the future? Agents trained on the whole trace beforehand.

"Best prescient" is the best of four algorithms trained from random starts on the trace and then
frozen. The paper does not say whether it prints the mean over its five seeds or the best of them;
it prints no intervals, which would fit the best one. Both are given here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.regret import cumulative_regret
from lcpo.study.measure.stats import Estimate
from lcpo.study.paper.returns import PRESCIENT, Part, printed, split_parts, title_of
from lcpo.study.report import tables


class Row(NamedTuple):
    """A prescient agent over its seeds."""

    label: str
    agent: str
    finished: int
    total: int
    training: Estimate
    """Return over the last tenth of the training."""
    mean: Estimate
    """Return of the evaluation after the warm-up."""
    best: float
    """That of the best seed."""
    seed: int | None
    """The best seed."""


def judge(results: Sequence[Result], warmup: int) -> list[Row]:
    """A row per agent. Failed runs have no return; they are counted."""
    rows = []
    for label, members in compare.group(results).items():
        finished = [r for r in members if r.status == "finished"]
        found = {r.job.seed: records.lifelong_return(r.record, warmup) for r in finished}
        ended = {seed: value for seed, value in found.items() if value == value}
        seed = max(ended, key=lambda s: ended[s]) if ended else None
        training = stats.mean_ci([end_of_training(r) for r in finished])
        best = stats.NAN if seed is None else ended[seed]
        mean, agent = stats.mean_ci(list(found.values())), members[0].job.agent
        rows.append(Row(label, agent, len(finished), len(members), training, mean, best, seed))
    return rows


def end_of_training(result: Result) -> float:
    """Return over the last tenth of the training."""
    record = result.training
    return records.lifelong_return(record, int(0.9 * record["step"][-1])) if record else stats.NAN


def summary(results: Sequence[Result], table: str) -> tables.Table:
    """The agents, and the best of them, by environment and trace, beside what the paper prints."""
    parts, cells, notes = split_parts(results), [], []
    for part in parts:
        rows = judge(part.results, part.comparison.warmup)
        theirs = {agent: cell for (agent, _), cell in printed(table, part).items()}
        where = [part.env, part.trace]
        cells += [[*where, *_cells(row, theirs)] for row in rows]
        cells.append([*where, *_best(rows, theirs)])
        notes += part.comparison.notes
    late = " or ".join(dict.fromkeys(tables.short_count(p.comparison.warmup) for p in parts))
    header = ["env", "trace", "agent", "seeds", "end of training", f"return after {late}"]
    return tables.Table(
        [*header, "best seed", "paper"],
        cells,
        "lllrrrrr",
        f"{title_of(parts)}, after training",
        [*dict.fromkeys(notes), "best prescient: by the mean over seeds, and by the best seed; the "
         "paper does not say which it prints"],
    )  # fmt: skip


def _cells(row: Row, theirs: Mapping[str, str]) -> list[str]:
    return [
        row.label,
        f"{row.finished} of {row.total}" if row.finished < row.total else str(row.total),
        tables.plus_minus(row.training),
        tables.plus_minus(row.mean),
        tables.NONE if row.seed is None else f"{tables.number(row.best)} (seed {row.seed})",
        theirs.get(row.agent, tables.NONE),
    ]


def _best(rows: Sequence[Row], theirs: Mapping[str, str]) -> list[str]:
    """The last row: who is best, by the mean over seeds, by the best seed, and in the paper."""

    def with_name(text: str, label: str) -> str:
        return f"{text} ({label.removeprefix('prescient-')})"

    by_mean = max((r for r in rows if r.mean.mean == r.mean.mean), default=None,
                  key=lambda r: r.mean.mean)  # fmt: skip
    by_seed = max((r for r in rows if r.seed is not None), default=None, key=lambda r: r.best)
    known = {a: theirs[a] for a in PRESCIENT.split(",") if a in theirs}
    best = max(known, key=lambda a: float(known[a].split()[0]), default=None)
    return [
        "best prescient",
        "",
        "",
        with_name(tables.plus_minus(by_mean.mean), by_mean.label) if by_mean else tables.NONE,
        with_name(tables.number(by_seed.best), by_seed.label) if by_seed else tables.NONE,
        with_name(known[best], best) if best else tables.NONE,
    ]


def regret_table(parts: Sequence[Part]) -> tables.Table | None:
    """What not knowing the future cost each agent per step; None where no part has both kinds.

    Against the best prescient agent by the mean over seeds: the mean over all pairs of a run and
    one of its runs.
    """
    cells = []
    for part in parts:
        groups = compare.group(compare.finished_runs(part.results))
        before = {k: v for k, v in groups.items() if v[0].job.training is not None}
        online = {k: v for k, v in groups.items() if k not in before}
        rows = judge([r for members in before.values() for r in members], part.comparison.warmup)
        known = [row for row in rows if row.mean.mean == row.mean.mean]
        if not known or not online:
            continue
        best = max(known, key=lambda row: row.mean.mean).label
        for label, members in online.items():
            found = [_regret(run, before[best], part.comparison.warmup) for run in members]
            whole, late = (stats.mean_ci(list(values)) for values in zip(*found, strict=True))
            numbers = [tables.plus_minus(whole), tables.plus_minus(late)]
            cells.append([part.env, part.trace, label, str(len(members)), best, *numbers])
    if not cells:
        return None
    header = ["env", "trace", "agent", "seeds", "against", "regret per step", "after warm-up"]
    title = f"{title_of(parts)}: reward per step of the best prescient agent, less an agent's own"
    return tables.Table(header, cells, "lllrlrr", title)


def _regret(run: Result, others: Sequence[Result], warmup: int) -> tuple[float, float]:
    """Per step of a run: over all of it, and after the warm-up."""
    step = run.record["step"]
    found = np.mean([cumulative_regret(run.record, other.record) for other in others], axis=0)
    early = np.interp(warmup, step, found)
    return found[-1] / step[-1], (found[-1] - early) / (step[-1] - warmup)


def training_numbers(result: Result) -> dict[str, float]:
    """What seeds.csv says of the training of a run; nothing of one that has none."""
    return {"end_of_training": end_of_training(result)} if result.job.training else {}

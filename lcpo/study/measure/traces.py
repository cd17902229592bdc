"""Agents on several traces: means over traces, with intervals for other traces of their kind.

Every trace counts the same, however many seeds it has. Intervals are hierarchical
(`stats.hierarchical_ci`); differences are taken on the same trace with the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcpo.contexts import TraceRef, in_short
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.comparable import check_env
from lcpo.study.measure.compare import AgentRow, Summary
from lcpo.study.measure.stats import Estimate


def summarise_traces(
    results: Sequence[Result], warmup: int | None = None, reference: str | None = None
) -> Summary:
    """Compare the agents of `results` on one environment and one trace or several.

    Arguments as those of `compare.summarise`, which is called for each trace. The warm-up applies
    to each.
    """
    by_trace: dict[TraceRef | None, list[Result]] = {}
    for result in results:
        by_trace.setdefault(result.job.trace, []).append(result)
    known = {trace: runs for trace, runs in by_trace.items() if compare.finished_runs(runs)}
    if len(by_trace) < 2 or not known:
        return compare.summarise(results, warmup, reference)
    check_env(results)
    labels = compare.group(results)
    reference = next(iter(labels)) if reference is None else reference
    if reference not in labels:
        raise InputError(unknown("reference", reference, labels))
    endless = any(compare.is_endless(compare.finished_runs(runs)) for runs in known.values())
    parts = []
    for runs in known.values():
        here = reference if reference in compare.group(runs) else None
        parts.append(compare.summarise(runs, warmup, here, endless))
    whole = Summary(
        parts[0].env,
        in_short(str(part.trace) for part in parts),
        max(part.steps for part in parts),
        max(part.warmup for part in parts),
        reference,
        rows=(),
        notes=(),
        memory=None,
        endless=endless,
        measures=parts[0].measures,
        parts=parts,
    )
    whole = whole._replace(rows=tuple(_rows(whole, labels)))
    return whole._replace(notes=tuple(_notes(whole, len(by_trace))))


class _Returns(NamedTuple):
    """Of an agent, by trace."""

    late: dict[str, dict[int, float]]
    """After warm-up, by seed."""
    whole: dict[str, dict[int, float]]
    level: dict[str, float]
    """The mean after warm-up, of the traces on which it ran; -inf where a run failed."""


def _returns(summary: Summary, runs: Sequence[Result]) -> _Returns:
    found = _Returns({}, {}, {})
    for part in summary.parts:
        trace, mine = str(part.trace), [r for r in runs if r.job.trace_name == part.trace]
        if mine:
            late = found.late[trace] = compare.returns(mine, part.warmup, summary.endless)
            found.whole[trace] = compare.returns(mine, 0, summary.endless)
            found.level[trace] = float(np.mean([*compare.ranked(mine, late).values()]))
    return found


def _rows(summary: Summary, labels: Mapping[str, Sequence[Result]]) -> list[AgentRow]:
    found = {label: _returns(summary, runs) for label, runs in labels.items()}
    best: dict[str, float] = {}
    for mine in found.values():
        for trace, level in mine.level.items():
            best[trace] = max(best.get(trace, -np.inf), level)
    expected = {(r.job.trace, r.job.seed) for runs in labels.values() for r in runs}
    rows = []
    for label, runs in labels.items():
        mine, other = found[label], found[summary.reference]
        difference = improvement = None
        if label != summary.reference:
            difference = stats.hierarchical_difference(mine.late, other.late)
            improvement = stats.probability_of_improvement(mine.level, other.level)
        finished = compare.finished_runs(runs)
        row = AgentRow(
            label=label,
            finished=len(finished),
            failed=len(runs) - len(finished),
            missing=len(expected) - len(runs),
            after_warmup=_mean(mine.late),
            whole_run=_mean(mine.whole),
            difference=difference,
            improvement=improvement,
            seconds=float(np.mean([r.seconds for r in finished])) if finished else stats.NAN,
            measured=_measured(summary, label),
            won=sum(level == best[trace] > -np.inf for trace, level in mine.level.items()),
        )
        rows.append(row)
    return rows


def _mean(returns: Mapping[str, Mapping[int, float]]) -> Estimate:
    return stats.hierarchical_ci({trace: list(seeds.values()) for trace, seeds in returns.items()})


def _measured(summary: Summary, label: str) -> dict[str, Estimate | float | None]:
    """Means over the traces that have the number: not every trace revisits a context."""
    rows = [row for part in summary.parts for row in part.rows if row.label == label]
    found: dict[str, Estimate | float | None] = {}
    for name in dict.fromkeys(name for row in rows for name in row.measured):
        values = [row.measured.get(name) for row in rows]
        estimates = [x for x in values if isinstance(x, Estimate) and x.mean == x.mean]
        numbers = [x for x in values if isinstance(x, float) and x == x]
        over = stats.hierarchical_ci({i: [x.mean] for i, x in enumerate(estimates)})
        found[name] = float(np.mean(numbers)) if numbers else over if estimates else None
    return found


def _notes(summary: Summary, planned: int) -> list[str]:
    """Of the whole; each part has its own."""
    notes = ["no episode ended on some trace: rewards are means per step"] * summary.endless
    if len(summary.parts) < planned:
        notes.append(f"{planned - len(summary.parts)} more traces have no finished run")
    if len(summary.parts) < stats.FEWEST:
        notes.append(f"fewer than {stats.FEWEST} traces have no interval over traces")
    if any(row.failed for row in summary.rows):
        notes.append("failed runs: not in the means; their traces are lost in P(better)")
    return notes

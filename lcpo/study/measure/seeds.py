"""The runs behind a table, one row each: seeds.csv."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.report.cells import Cell, Column
from lcpo.study.report.tables import Table

Numbers = Mapping[str, float | None]

FIRST = ("agent", "setting", "env", "trace", "seed", "status")
LAST = ("seconds", "device")
"""Columns of every seeds.csv; those of the study stand between."""


def seeds_table(results: Sequence[Result], numbers: Callable[[Result], Numbers]) -> Table:
    """A row per run. `numbers(result)` has those of a finished run, which a failed one lacks.

    Every number in full; empty where there is none.
    """
    found = [numbers(r) if r.status == "finished" else {} for r in results]
    names = list(dict.fromkeys(name for mine in found for name in mine))
    rows = []
    for result, mine in zip(results, found, strict=True):
        job = result.job
        first = (job.agent, setting(job), job.env, job.trace_name, job.seed, result.status)
        last = (result.seconds, result.provenance.get("device"))
        rows.append((*first, *(mine.get(name) for name in names), *last))
    return data_table([*FIRST, *names, *LAST], rows)


def data_table(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """For programs: every number in full; empty where there is none."""
    rows = list(rows)
    numbers = [any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(names))]
    return Table(
        [
            Column(name, "full", side="r" if number else "l", key=name)
            for name, number in zip(names, numbers, strict=True)
        ],
        rows,
    )


def setting(job: Job) -> str:
    """In what a run differs from others of its agent, in words."""
    faults = "as published" if job.config.get("faults") else ""
    return ", ".join(part for part in (job.case, faults) if part)

"""report.json, from which every other form of a report can be rendered, and the table seeds.csv."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store.files import document, load_document
from lcpo.run.store.results import Result
from lcpo.study.report import cells
from lcpo.study.report.cells import Cell, Column
from lcpo.study.report.tables import Table

REPORT = "report.json"
SCHEMA = 1


class Words(NamedTuple):
    """What a figure shows."""

    heading: str
    caption: str


class Tables(NamedTuple):
    """The content of report.json."""

    tables: Mapping[str, Table]
    """By name, in display order."""
    seeds: Table | None
    """The numbers of every run."""
    figures: Mapping[str, Words] = {}
    """What each figure shows, by name."""


def write(found: Tables) -> bytes:
    """The content of the file."""
    tables = [{"name": name, **_to_json(table)} for name, table in found.tables.items()]
    seeds = None if found.seeds is None else _to_json(found.seeds)
    figures = {name: list(words) for name, words in found.figures.items()}
    return document(SCHEMA, {"tables": tables, "seeds": seeds, "figures": figures})


def read(path: Path) -> Tables:
    """The inverse of `write`; InputError if the file is damaged or not a report."""
    body = load_document(path, SCHEMA, {"tables": list, "seeds": (dict, type(None))})
    try:
        tables = {str(one["name"]): _from_json(one) for one in body["tables"]}
        words = body.get("figures", {}).items()  # earlier files have none
        figures = {name: Words(str(heading), str(caption)) for name, (heading, caption) in words}
        return Tables(tables, _from_json(body["seeds"]) if body["seeds"] else None, figures)
    except (
        AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise InputError(f"{path} is not a report of lcpo: {error!r}") from error


def _to_json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [column._asdict() for column in table.every],
        "rows": [[cells.to_json(cell) for cell in row] for row in table.rows],
        "notes": list(table.notes),
        "compared": table.compared,
        "heading": table.heading,
    }


def _from_json(body: Mapping[str, Any]) -> Table:
    table = Table(
        [_column(values) for values in body["columns"]],
        [[cells.from_json(cell) for cell in row] for row in body["rows"]],
        title=str(body["title"]),
        notes=[str(note) for note in body["notes"]],
        compared=None if body["compared"] is None else tuple(body["compared"]),
        heading=str(body.get("heading", "")),  # earlier files have none
    )
    table.texts()  # raises if a value does not fit its column
    _ = [table.header.index(name) for name in table.compared or ()]
    return table


def _column(values: Mapping[str, Any]) -> Column:
    column = Column(**{"about": "", **values})  # earlier files have no `about`
    texts = (column.name, column.unit, column.key, column.about)
    named = all(isinstance(text, str) for text in texts)
    digits = column.decimals is None or 0 <= column.decimals <= cells.MOST_DIGITS
    known = column.side in ("l", "r") and column.form in get_args(cells.Form)
    if not (named and digits and known):
        raise ValueError(f"{values!r} is not a table column")
    return column


FIRST = ("agent", "setting", "env", "trace", "seed", "status")
LAST = ("seconds", "device")
"""Columns of every seeds.csv; a study's own columns stand between them."""


def seeds_table(
    results: Sequence[Result], numbers: Callable[[Result], Mapping[str, float | None]]
) -> Table:
    """A row per run; `numbers(result)` of finished runs only. Missing values are empty."""
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
    """A table for programs: every number in full, missing values empty."""
    rows = list(rows)
    numbers = [any(isinstance(row[i], (int, float)) for row in rows) for i in range(len(names))]
    columns = [
        Column(name, "full", side="r" if number else "l", key=name)
        for name, number in zip(names, numbers, strict=True)
    ]
    return Table(columns, rows)


def setting(job: Job) -> str:
    """How a run differs from other runs of its agent."""
    faults = "as published" if job.config.get("faults") else ""
    return ", ".join(part for part in (job.case, faults) if part)

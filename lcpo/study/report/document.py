"""report.json: a report as one value, from which every other form can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from lcpo.errors import InputError
from lcpo.run.store.files import document, load_document
from lcpo.study.report import cells
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table

REPORT = "report.json"
SCHEMA = 1


class Tables(NamedTuple):
    """What report.json holds."""

    tables: Mapping[str, Table]
    """By name, in the order in which they are shown."""
    seeds: Table | None
    """The numbers of every run."""


def write(found: Tables) -> bytes:
    """The content of the file."""
    tables = [{"name": name, **_to_json(table)} for name, table in found.tables.items()]
    seeds = None if found.seeds is None else _to_json(found.seeds)
    return document(SCHEMA, {"tables": tables, "seeds": seeds})


def read(path: Path) -> Tables:
    """What `write` made of it; InputError where the file is damaged, or none of ours."""
    body = load_document(path, SCHEMA, {"tables": list, "seeds": (dict, type(None))})
    try:
        tables = {str(one["name"]): _from_json(one) for one in body["tables"]}
        return Tables(tables, _from_json(body["seeds"]) if body["seeds"] else None)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is no file of ours: {error!r}") from error


def _to_json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [column._asdict() for column in table.every],
        "rows": [[cells.to_json(cell) for cell in row] for row in table.rows],
        "notes": list(table.notes),
        "compared": table.compared,
    }


def _from_json(body: Mapping[str, Any]) -> Table:
    columns = [_column(**values) for values in body["columns"]]
    rows = [[cells.from_json(cell) for cell in row] for row in body["rows"]]
    table = Table(
        columns,
        rows,
        title=str(body["title"]),
        notes=[str(note) for note in body["notes"]],
        compared=None if body["compared"] is None else tuple(body["compared"]),
    )
    table.texts()  # raises where a value does not fit its column
    _ = [table.header.index(name) for name in table.compared or ()]
    return table


def _column(**values: Any) -> Column:
    column = Column(**{k: values[k] for k in Column._fields})
    if not all(isinstance(text, str) for text in (column.name, column.unit, column.key)):
        raise ValueError(f"{values!r} is no column of a table")
    if not (column.decimals is None or 0 <= column.decimals <= cells.MOST_DIGITS):
        raise ValueError(f"decimals = {column.decimals!r}")
    if column.side not in ("l", "r") or column.form not in get_args(cells.Form):
        raise ValueError(f"{values!r} is no column of a table")
    return column

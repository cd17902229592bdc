"""Runs on drawn traces as rows of numbers: those of a table of seeds, or of files seeds.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.study.report.cells import Cell
from lcpo.study.report.output import read_made
from lcpo.study.report.tables import Table

LATE = 4
"""One part in so many of a run is its warm-up."""
KEY = ("agent", "setting", "env", "trace", "seed")
"""Columns of seeds.csv that tell runs apart."""
NUMBERS = {"seed": int, "steps": int, "return_after_warmup": float, "whole_run": float,
           "constraint_active": float, "seconds": float}  # fmt: skip
COLUMNS = {*KEY, "steps", "return_after_warmup", "whole_run", "status"}
"""Of a seeds.csv that a report can be made of."""


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
        row: dict[str, Any] = dict(zip(table.header, cells, strict=True))
        names = (row["agent"], point_of(row["setting"]), row["env"], row["trace"])
        after, whole = (
            None if x is None or x != x else x
            for x in (row["return_after_warmup"], row["whole_run"])
        )
        found.append(Run(*names, row["seed"], row["steps"] or 0, after, whole))
    return found


def point_of(setting: str) -> str:
    """The point of a sweep in the column `setting` of seeds.csv."""
    return setting.removesuffix(", as published")


def read_seeds(paths: Sequence[Path]) -> tuple[list[dict[str, Cell]], dict[str, Any]]:
    """Rows of several seeds.csv as one, and what the files made.json beside them say.

    All have the same columns, in the same order.
    """
    found: list[dict[str, Cell]] = []
    makers: list[dict[str, Any]] = []
    places: dict[tuple[Cell, ...], Path] = {}
    for path in paths:
        try:
            header, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines())
            made = read_made(path.parent)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        makers += [made] if made else []
        if not set(header) >= COLUMNS:
            raise InputError(f"{path} is no seeds.csv of this study: its columns are {header}")
        for number, cells in enumerate(lines, start=2):
            try:
                row = _read_row(header, cells)
            except ValueError as error:
                raise InputError(f"{path}, line {number}, is damaged: {error}") from error
            run = tuple(row[name] for name in KEY)
            if run in places:
                raise InputError(f"{path} has the run {' '.join(map(str, run))}, as {places[run]} "
                                 "has: leave one of them out")  # fmt: skip
            places[run] = path
            found.append(row)
    columns = dict.fromkeys(name for row in found for name in row)
    return [{name: row.get(name) for name in columns} for row in found], _how(makers)


def _read_row(header: Sequence[str], cells: Sequence[str]) -> dict[str, Cell]:
    """Raises ValueError for a line that was cut, or has words where numbers should be."""
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells, the header has {len(header)}")
    row: dict[str, Cell] = dict(zip(header, cells, strict=True))
    known = {name: kind for name, kind in NUMBERS.items() if name in row}
    return row | {name: kind(row[name]) if row[name] else None for name, kind in known.items()}


def _how(makers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What several made.json say, as one."""
    if not makers:
        return {}

    def joined(entries: Sequence[dict[str, Any]], name: str) -> list[Any]:
        return list(dict.fromkeys(value for entry in entries for value in entry.get(name, [])))

    versions = [made.get("versions", {}) for made in makers]
    packages = dict.fromkeys(name for entry in versions for name in entry)
    return {
        **{name: joined(makers, name) for name in ("commit", "device", "steps")},
        "versions": {name: joined(versions, name) for name in packages},
    }

"""A table of numbers from a csv file, with or without a line of names; what is wrong with it."""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.contexts import columns
from lcpo.errors import InputError

LAYOUT = "numbers separated by commas, and at most one line of names above them"


class Head(NamedTuple):
    """The beginning of a file."""

    names: tuple[str, ...]
    """Above the columns; empty where it begins with numbers."""
    lines: int
    """Before the first row."""
    first: list[str]
    """The cells of the first row."""


def read(path: Path, wanted: Sequence[str] | None, keep_time: bool) -> columns.Part:
    """The columns that are kept, see `files.read`; what the others hold does not matter."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without data: said below
            head = _head(csv.reader(file))
            kept = _kept(head, wanted, keep_time, path)
            if head.first and not kept:
                raise InputError(f"trace file {path} holds nothing but times: needs {LAYOUT}")
            count = len(head.names or head.first)
            others: dict[int | str, Callable[[str], float]] = {
                i: lambda cell: 0.0 for i in range(count) if i not in kept
            }
            file.seek(0)
            values = np.loadtxt(
                file, delimiter=",", quotechar='"', comments=None, skiprows=head.lines, ndmin=2,
                converters=others or None,
            )  # fmt: skip
    except (ValueError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        fault = _fault(path, wanted, keep_time) or f"{error} Needs {LAYOUT}"
        raise InputError(f"trace file {path}: {fault}") from error
    if values.size == 0:
        raise InputError(f"trace file {path} holds no rows: needs {LAYOUT}")
    if values.shape[1] != count or not np.isfinite(values[:, kept]).all():
        raise InputError(f"trace file {path}: {_fault(path, wanted, keep_time)}")
    every = len(kept) == count and kept == sorted(kept)
    return columns.Part(values if every else values[:, kept], kept, list(head.names), count)


def _head(lines: Any) -> Head:
    """`lines`: a csv.reader."""
    rows = (cells for cells in lines if cells)
    first = next(rows, [])
    if not _is_header(first):
        return Head((), 0, first)
    names = tuple(cell.strip() for cell in first)
    skipped = lines.line_num
    return Head(names, skipped, next(rows, []))


def _kept(head: Head, wanted: Sequence[str] | None, keep_time: bool, path: Path) -> list[int]:
    """The places of the columns that must be numbers."""
    count = len(head.names or head.first)
    if wanted is not None:
        return columns.choose(wanted, head.names, count, path)
    if keep_time:
        return list(range(count))
    named = dict(enumerate(head.names))
    return [
        i
        for i in range(count)
        if not (
            i < len(head.first)
            and _is_text(head.first[i])
            and columns.is_time_text(head.first[i], named.get(i, ""))
        )
    ]


def _fault(path: Path, wanted: Sequence[str] | None, keep_time: bool) -> str | None:
    """What is wrong with the first bad line of a csv file. Slow: for files known to be bad."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            head = _head(reader)
            kept = set(_kept(head, wanted, keep_time, path))
            file.seek(0)
            reader = csv.reader(file)
            count = len(head.names or head.first)
            for cells in reader:
                if cells and reader.line_num > head.lines:
                    fault = _line_fault(cells, kept, count)
                    if fault:
                        return f"line {reader.line_num}{fault}"
    except csv.Error as error:
        return f"not a csv file ({error}): needs {LAYOUT}"
    except UnicodeDecodeError as error:
        return f"not UTF-8 text ({error.reason} at byte {error.start}): needs {LAYOUT}"
    return None


def _line_fault(cells: list[str], kept: set[int], count: int) -> str | None:
    if len(cells) != count:
        return (
            f" has {len(cells)} columns, the lines before it have {count}: every line needs as many"
        )
    more = "; or choose others: --columns" if count > 1 else ""
    for i in sorted(kept):
        if _is_text(cells[i]):
            return f", column {i + 1} is {cells[i].strip()!r}: needs {LAYOUT}{more}"
        if not math.isfinite(float(cells[i])):
            return f", column {i + 1} is {cells[i].strip()!r}: every entry must be finite"
    return None


def _is_header(cells: list[str]) -> bool:
    """A line in which nothing is a number. One with text beside numbers is a faulty row."""
    return bool(cells) and all(_is_text(cell) for cell in cells)


def _is_text(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return True
    return "_" in cell  # 1_000 is a number to Python, not to NumPy

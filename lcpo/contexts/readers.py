"""The formats of a trace file: npy, csv and parquet. Columns are read when they are taken."""

from __future__ import annotations

import contextlib
import csv
import math
import shlex
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.contexts import columns
from lcpo.errors import InputError, MissingPackage

LAYOUT = "numbers separated by commas, and at most one line of names above them"
EMPTY = ("", "nan", "na", "n/a", "null")
"""Cells without a value, in lower case."""


class Table(NamedTuple):
    """A file whose head has been read."""

    names: Sequence[str]
    """Of all columns; empty where the file has none."""
    width: int
    """How many columns it has."""
    times: Collection[int]
    """Places of the columns that hold dates or times as text."""
    take: Callable[[list[int], bool], np.ndarray]
    """Reads columns by their places; what the others hold does not matter. Empty cells become NaN
    where that is allowed, and raise InputError otherwise."""
    texts: Callable[[int], list[str]]
    """The cells of one column as text."""


def _without_value(path: Path, where: str, cell: str, count: int) -> str:
    """The error for cells without a value, of which `cell` is the first and `count` the number."""
    what = f"is {cell!r}" if cell else "is empty"
    many = f" ({count:,} cells have no value)" if count > 1 else ""
    copy = shlex.quote(f"{path.stem}-filled.csv")
    return (
        f"trace file {path}: {where} {what}: every entry must be finite{many}; to fill a copy: "
        f"lcpo trace {shlex.quote(str(path))} --fill previous --write {copy} "
        "(or --fill linear)"
    )


def _read_npy(path: Path) -> Table:
    """Memory-mapped: a float32 file is not even copied."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"trace file {path} is not a plain .npy array of numbers: write it with np.save "
            "(pickled objects are not read)"
        ) from error
    if not isinstance(values, np.ndarray):
        raise InputError(f"trace file {path} is an .npz archive: save one array with np.save")
    if values.dtype.kind not in "fiub":
        raise InputError(f"trace file {path} holds {values.dtype} entries: needs real numbers")
    if values.ndim != 2:
        more = "; for one channel save values.reshape(-1, 1)" if values.ndim == 1 else ""
        raise InputError(
            f"trace file {path} has shape {values.shape}: needs [rows, channels]{more}"
        )
    count = values.shape[1]
    every = list(range(count))

    def take(kept: list[int], allow_empty: bool) -> np.ndarray:
        del allow_empty  # numbers: NaN is refused where rows are checked
        return values if kept == every else values[:, kept]

    return Table((), count, (), take, lambda place: [])


def _read_parquet(path: Path) -> Table:
    try:
        import polars as pl
    except ImportError as error:
        raise MissingPackage(
            f'trace file {path}: reading parquet needs polars: pip install "lcpo[study]"'
        ) from error
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"trace file {path} is not a parquet file ({error})") from error

    def is_time(name: str, kind: Any) -> bool:
        first = frame[name].drop_nulls().head(1)
        is_text = kind == pl.String and len(first) == 1
        return kind.is_temporal() or (is_text and columns.is_time_text(first[0], name))

    def take(kept: list[int], allow_empty: bool) -> np.ndarray:
        chosen = frame.select([frame.columns[i] for i in kept])
        for name, kind in chosen.schema.items():
            if not (kind.is_numeric() or kind == pl.Boolean):
                raise InputError(
                    f"trace file {path}: column {name!r} holds {kind} entries: needs numbers; "
                    "convert it, or choose others: --columns"
                )
            empty = chosen[name].is_null().arg_true()
            if len(empty) and not allow_empty:
                where, total = f"row {empty[0] + 1}, column {name!r}", chosen.null_count().row(0)
                raise InputError(_without_value(path, where, "", sum(total)))
        return chosen.cast(pl.Float64).to_numpy()

    times = [i for i, (name, kind) in enumerate(frame.schema.items()) if is_time(name, kind)]
    texts = lambda place: [str(cell) for cell in frame[frame.columns[place]]]  # noqa: E731
    return Table(frame.columns, len(frame.columns), times, take, texts)


def _read_csv(path: Path) -> Table:
    """With or without a line of names."""
    names: list[str] = []
    with _open(path) as file:
        reader = csv.reader(file)
        rows = (cells for cells in reader if cells)
        first, skipped = next(rows, []), 0
        if first and all(_is_text(cell) for cell in first):  # text beside numbers is a faulty row
            names, skipped = [cell.strip() for cell in first], reader.line_num
            first = next(rows, [])
    count = len(names or first)
    called = names or [str(i + 1) for i in range(count)]
    find_fault = partial(_fault, path, skipped, called)

    def take(kept: list[int], allow_empty: bool) -> np.ndarray:
        convert: Any = {i: lambda cell: 0.0 for i in range(count) if i not in kept}
        if allow_empty:
            convert |= dict.fromkeys(kept, _number)
        try:
            with _open(path) as file, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a file without data: see below
                values = np.loadtxt(
                    file, delimiter=",", quotechar='"', comments=None, skiprows=skipped, ndmin=2,
                    converters=convert or None,
                )  # fmt: skip
        except InputError:
            raise
        except ValueError as error:
            fault = find_fault(kept, allow_empty)
            raise InputError(fault or f"trace file {path}: {error} Needs {LAYOUT}") from error
        if values.size == 0:
            raise InputError(f"trace file {path} holds no rows: needs {LAYOUT}")
        is_bad = np.isinf if allow_empty else lambda x: ~np.isfinite(x)
        if values.shape[1] != count or is_bad(values[:, kept]).any():
            raise InputError(find_fault(kept, allow_empty))
        every = len(kept) == count and kept == sorted(kept)
        return values if every else values[:, kept]

    def texts(place: int) -> list[str]:
        with _open(path) as file:
            return [cells[place] for _, cells in _rows(file, skipped)]

    cells = dict(zip(range(count), first, strict=False))
    times = [i for i, x in cells.items() if _is_text(x) and columns.is_time_text(x, called[i])]
    return Table(names, count, times, take, texts)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[Any]:
    """A csv file to read; InputError where it is not one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except csv.Error as error:
        need = f"not a csv file ({error}): needs {LAYOUT}"
        raise InputError(f"trace file {path}: {need}") from error
    except UnicodeDecodeError as error:
        need = f"not UTF-8 text ({error.reason} at byte {error.start}): needs {LAYOUT}"
        raise InputError(f"trace file {path}: {need}") from error


def _rows(file: Any, skipped: int) -> Iterator[tuple[int, list[str]]]:
    """The lines of a csv file below its names: the number of each, and its cells."""
    reader = csv.reader(file)
    return ((reader.line_num, cells) for cells in reader if cells and reader.line_num > skipped)


def _fault(
    path: Path, skipped: int, called: Sequence[str], kept: list[int], allow_empty: bool
) -> str | None:
    """What is wrong with the first bad line of a csv file. Slow: for files known to be bad."""
    count = len(called)
    more = "; or choose others: --columns" if count > 1 else ""
    with _open(path) as file:
        rows = list(_rows(file, skipped))
    for line, cells in rows:
        if len(cells) != count:
            return (
                f"trace file {path}: line {line} has {len(cells)} columns, the lines before it "
                f"have {count}: every line needs as many"
            )
        for i in sorted(kept):
            named = f" ({called[i]!r})" if called[i] != str(i + 1) else ""
            where, cell = f"line {line}, column {i + 1}{named}", cells[i].strip()
            if _is_empty(cell):
                if not allow_empty:
                    total = sum(_is_empty(row[k]) for _, row in rows for k in kept if k < len(row))
                    return _without_value(path, where, cell, total)
            elif _is_text(cell):
                return f"trace file {path}: {where} is {cell!r}: needs {LAYOUT}{more}"
            elif not math.isfinite(float(cell)):
                return f"trace file {path}: {where} is {cell!r}: every entry must be finite"
    return None


def _is_empty(cell: str) -> bool:
    return cell.strip().lower() in EMPTY


def _number(cell: str) -> float:
    """Of a cell, or NaN where it has no value; ValueError where it is text."""
    if not _is_empty(cell) and _is_text(cell):
        raise ValueError(cell)
    return math.nan if _is_empty(cell) else float(cell)


def _is_text(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return True
    return "_" in cell  # 1_000 is a number to Python, not to NumPy


READERS: dict[str, Callable[[Path], Table]] = {
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}

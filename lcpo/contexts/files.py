"""A user's own trace from a file: npy, csv (with or without a header) or parquet."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.contexts import columns
from lcpo.errors import InputError, MissingFile, MissingPackage

LAYOUT = "numbers separated by commas, and at most one line of names above them"


def is_file(name: str) -> bool:
    """Whether `name` means a file: it has a suffix or a folder, or stands on the disk."""
    suffix = re.search(r"\.[A-Za-z]\w*$", name)
    return suffix is not None or "/" in name or "\\" in name or os.path.isfile(name)


def stamp(name: str) -> tuple[int, int] | None:
    """When a file was last written, and its size; None if it cannot be read."""
    try:
        found = Path(name).expanduser().stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def find(name: str, suffixes: Collection[str], kind: str = "trace") -> Path:
    """The path of a file that can be opened, and whose name ends in one of `suffixes`.

    `kind`: of what it holds, for messages.
    """
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:  # ~nobody
        raise InputError(f"{kind} file {name}: {error}") from error
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{kind} file {name}: needs a name that ends in {' or '.join(suffixes)}")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{kind} file {name} is a pipe or a device: give the path of a file")
        path.open("rb").close()
    except (FileNotFoundError, IsADirectoryError) as error:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        raise MissingFile(f"{kind} file {name} {what}: give the path of a file") from error
    except OSError as error:
        raise InputError(f"{kind} file {name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{kind} file {name!r} cannot be read: {error}") from error
    return path


class Content(NamedTuple):
    """What a file holds."""

    values: np.ndarray
    """As stored: numbers in two dimensions, [rows, channels]."""
    names: tuple[str, ...] = ()
    """Of the channels; empty where the file has none."""
    time: tuple[str, ...] = ()
    """The columns that were left out because they are the time: their names, or numbers from 1."""


class _Table(NamedTuple):
    """A file whose head has been read."""

    names: Sequence[str]
    """Of all columns; empty where the file has none."""
    width: int
    """How many columns it has."""
    times: Collection[int]
    """Places of the columns that hold dates or times as text."""
    take: Callable[[list[int]], np.ndarray]
    """Reads columns by their places; what the others hold does not matter."""


def read(name: str, wanted: Sequence[str] | None = None, *, keep_time: bool = False) -> Content:
    """What is in a file: the columns that are wanted, by name or number; None: all but the time.

    A column is the time where it holds dates, or where it is called so and holds text, or is the
    first and only goes up. `keep_time`: all columns, whatever they are.
    """
    path = find(name, READERS)
    names, count, times, take = READERS[path.suffix.lower()](path)
    if wanted is not None:
        kept = columns.choose(wanted, names, count, path)
    else:
        kept = [i for i in range(count) if keep_time or i not in times]
    if count and not kept:
        raise InputError(f"trace file {path} holds nothing but times: needs {LAYOUT}")
    values = take(kept)
    if 0 in values.shape:
        raise InputError(f"trace file {name} has shape {values.shape}: needs [rows, channels]")
    called = names or [str(i + 1) for i in range(count)]
    time: list[int] = []
    if wanted is None and not keep_time:
        if kept[0] == 0 and columns.counts_time(values, [called[i] for i in kept]):
            values, kept = values[:, 1:], kept[1:]
        time = [i for i in range(count) if i not in kept]
    own = tuple(called[i] for i in kept) if names else ()
    return Content(values, own, tuple(called[i] for i in time))


def _read_npy(path: Path) -> _Table:
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
    return _Table((), count, (), lambda kept: values if kept == every else values[:, kept])


def _read_parquet(path: Path) -> _Table:
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

    def take(kept: list[int]) -> np.ndarray:
        chosen = frame.select([frame.columns[i] for i in kept])
        for name, kind in chosen.schema.items():
            if not (kind.is_numeric() or kind == pl.Boolean):
                raise InputError(
                    f"trace file {path}: column {name!r} holds {kind} entries: needs numbers; "
                    "convert it, or choose others: --columns"
                )
            empty = chosen[name].is_null().arg_true()
            if len(empty):
                raise InputError(
                    f"trace file {path}: row {empty[0] + 1}, column {name!r} is empty "
                    f"({len(empty):,} such rows): every entry must be finite"
                )
        return chosen.cast(pl.Float64).to_numpy()

    times = [i for i, (name, kind) in enumerate(frame.schema.items()) if is_time(name, kind)]
    return _Table(frame.columns, len(frame.columns), times, take)


def _read_csv(path: Path) -> _Table:
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

    def take(kept: list[int]) -> np.ndarray:
        others: Any = {i: lambda cell: 0.0 for i in range(count) if i not in kept}
        try:
            with _open(path) as file, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a file without data: see below
                values = np.loadtxt(
                    file, delimiter=",", quotechar='"', comments=None, skiprows=skipped, ndmin=2,
                    converters=others or None,
                )  # fmt: skip
        except InputError:
            raise
        except ValueError as error:
            fault = _fault(path, skipped, kept, count) or f"{error} Needs {LAYOUT}"
            raise InputError(f"trace file {path}: {fault}") from error
        if values.size == 0:
            raise InputError(f"trace file {path} holds no rows: needs {LAYOUT}")
        if values.shape[1] != count or not np.isfinite(values[:, kept]).all():
            raise InputError(f"trace file {path}: {_fault(path, skipped, kept, count)}")
        every = len(kept) == count and kept == sorted(kept)
        return values if every else values[:, kept]

    cells = dict(zip(range(count), first, strict=False))
    called = names or [""] * count
    times = [i for i, x in cells.items() if _is_text(x) and columns.is_time_text(x, called[i])]
    return _Table(names, count, times, take)


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


def _fault(path: Path, skipped: int, kept: list[int], count: int) -> str | None:
    """What is wrong with the first bad line of a csv file. Slow: for files known to be bad."""
    more = "; or choose others: --columns" if count > 1 else ""
    with _open(path) as file:
        reader = csv.reader(file)
        for cells in reader:
            if not cells or reader.line_num <= skipped:
                continue
            where = f"line {reader.line_num}"
            if len(cells) != count:
                return (
                    f"{where} has {len(cells)} columns, the lines before it have {count}: every "
                    "line needs as many"
                )
            for i in sorted(kept):
                what = f"{where}, column {i + 1} is {cells[i].strip()!r}"
                if _is_text(cells[i]):
                    return f"{what}: needs {LAYOUT}{more}"
                if not math.isfinite(float(cells[i])):
                    return f"{what}: every entry must be finite"
    return None


def _is_text(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return True
    return "_" in cell  # 1_000 is a number to Python, not to NumPy


READERS: dict[str, Callable[[Path], _Table]] = {
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}

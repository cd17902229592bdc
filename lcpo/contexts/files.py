"""A user's own trace from a file: npy, csv (with or without a header) or parquet."""

from __future__ import annotations

import csv
import math
import os
import re
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from lcpo.errors import InputError, MissingFile, MissingPackage

LAYOUT = "numbers separated by commas, and at most one line of names above them"


def is_file(name: str) -> bool:
    """Whether `name` means a file: it has a suffix or a folder, or stands on the disk."""
    suffix = re.search(r"\.[A-Za-z]\w*$", name)
    return suffix is not None or "/" in name or "\\" in name or os.path.isfile(name)


def stamp(name: str) -> tuple[int, int] | None:
    """When a file was last written, and its size; None where it cannot be told."""
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


def read(name: str) -> np.ndarray:
    """The array in a file, as stored: numbers in two dimensions."""
    path = find(name, READERS)
    values = READERS[path.suffix.lower()](path)
    if values.dtype.kind not in "fiub":
        raise InputError(f"trace file {name} holds {values.dtype} entries: needs real numbers")
    if values.ndim == 1:
        raise InputError(
            f"trace file {name} has shape {values.shape}: needs [rows, channels]; "
            "for one channel save values.reshape(-1, 1)"
        )
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"trace file {name} has shape {values.shape}: needs [rows, channels]")
    return values


def _read_npy(path: Path) -> np.ndarray:
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
    return values


def _read_csv(path: Path) -> np.ndarray:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without data: said below
            reader = csv.reader(file)
            first = next((cells for cells in reader if cells), [])
            skip = reader.line_num if _is_header(first) else 0
            file.seek(0)
            values = np.loadtxt(
                file, delimiter=",", quotechar='"', comments=None, skiprows=skip, ndmin=2
            )
    except (ValueError, csv.Error) as error:
        fault = _csv_fault(path) or f"{error} Needs {LAYOUT}"
        raise InputError(f"trace file {path}: {fault}") from error
    if values.size == 0:
        raise InputError(f"trace file {path} holds no rows: needs {LAYOUT}")
    if not np.isfinite(values).all() or len(first) != values.shape[1]:
        raise InputError(f"trace file {path}: {_csv_fault(path)}")
    return values


def _read_parquet(path: Path) -> np.ndarray:
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
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise InputError(
                f"trace file {path}: column {name!r} holds {kind} entries: needs numbers; "
                "drop the column or convert it"
            )
        empty = frame[name].is_null().arg_true()
        if len(empty):
            raise InputError(
                f"trace file {path}: row {empty[0] + 1}, column {name!r} is empty "
                f"({len(empty):,} such rows): every entry must be finite"
            )
    return frame.cast(pl.Float64).to_numpy()


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


def names(path: Path) -> list[str]:
    """The names above the columns of a csv file; none where it begins with numbers."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = next((cells for cells in csv.reader(file) if cells), [])
    except (ValueError, csv.Error):  # told by `read`
        return []
    return [cell.strip() for cell in first] if _is_header(first) else []


def _csv_fault(path: Path) -> str | None:
    """What is wrong with the first bad line of a csv file. Slow: for files known to be bad."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            columns = 0
            for cells in reader:
                if not cells:
                    continue
                line = f"line {reader.line_num}"
                if not columns:
                    columns = len(cells)
                    if _is_header(cells):
                        continue
                if len(cells) != columns:
                    return (
                        f"{line} has {len(cells)} columns, the lines before it have {columns}: "
                        "every line needs as many"
                    )
                for i, cell in enumerate(cells):
                    if _is_text(cell):
                        return f"{line}, column {i + 1} is {cell.strip()!r}: needs {LAYOUT}"
                    if not math.isfinite(float(cell)):
                        return (
                            f"{line}, column {i + 1} is {cell.strip()!r}: "
                            "every entry must be finite"
                        )
    except csv.Error as error:
        return f"not a csv file ({error}): needs {LAYOUT}"
    except UnicodeDecodeError as error:
        return f"not UTF-8 text ({error.reason} at byte {error.start}): needs {LAYOUT}"
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

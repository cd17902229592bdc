"""A user's own trace from a file: npy, csv (with or without a header) or parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.contexts import columns, csv_files
from lcpo.contexts.columns import Part
from lcpo.errors import InputError, MissingFile, MissingPackage


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


class Content(NamedTuple):
    """What a file holds."""

    values: np.ndarray
    """As stored: numbers in two dimensions, [rows, channels]."""
    names: tuple[str, ...] = ()
    """Of the channels; empty where the file has none."""
    time: tuple[str, ...] = ()
    """The columns that were left out because they are the time: their names, or numbers from 1."""


def read(name: str, wanted: Sequence[str] | None = None, *, keep_time: bool = False) -> Content:
    """What is in a file: the columns that are wanted, by name or number; None: all but the time.

    A column is the time where it holds dates, or where it is called so and holds text, or is the
    first and only goes up. `keep_time`: all columns, whatever they are.
    """
    path = find(name, READERS)
    values, kept, names, total = READERS[path.suffix.lower()](path, wanted, keep_time)
    if values.dtype.kind not in "fiub":
        raise InputError(f"trace file {name} holds {values.dtype} entries: needs real numbers")
    if values.ndim == 1:
        raise InputError(
            f"trace file {name} has shape {values.shape}: needs [rows, channels]; "
            "for one channel save values.reshape(-1, 1)"
        )
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"trace file {name} has shape {values.shape}: needs [rows, channels]")
    called = names or [str(i + 1) for i in range(total)]
    time: list[int] = []
    if wanted is None and not keep_time:
        if kept[0] == 0 and columns.counts_time(values, [called[i] for i in kept]):
            values, kept = values[:, 1:], kept[1:]
        time = [i for i in range(total) if i not in kept]
    own = tuple(called[i] for i in kept) if names else ()
    return Content(values, own, tuple(called[i] for i in time))


def _read_npy(path: Path, wanted: Sequence[str] | None, keep_time: bool) -> Part:
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
    if wanted is None or values.ndim != 2:
        count = values.shape[-1] if values.ndim else 0
        return Part(values, list(range(count)), [], count)
    kept = columns.choose(wanted, [], values.shape[1], path)
    return Part(values[:, kept], kept, [], values.shape[1])


def _read_parquet(path: Path, wanted: Sequence[str] | None, keep_time: bool) -> Part:
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
    names = frame.columns
    if wanted is not None:
        kept = columns.choose(wanted, names, len(names), path)
    else:
        kept = [i for i, (name, kind) in enumerate(frame.schema.items())
                if keep_time or not _is_time(frame, name, kind)]  # fmt: skip
    frame = frame.select([names[i] for i in kept])
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind == pl.Boolean):
            raise InputError(
                f"trace file {path}: column {name!r} holds {kind} entries: needs numbers; "
                "convert it, or choose others: --columns"
            )
        empty = frame[name].is_null().arg_true()
        if len(empty):
            raise InputError(
                f"trace file {path}: row {empty[0] + 1}, column {name!r} is empty "
                f"({len(empty):,} such rows): every entry must be finite"
            )
    return Part(frame.cast(pl.Float64).to_numpy(), kept, names, len(names))


def _is_time(frame: Any, name: str, kind: Any) -> bool:
    """Whether a column of parquet holds dates or times, as such or as text."""
    if kind.is_temporal():
        return True
    first = frame[name].drop_nulls().head(1)
    return str(kind) == "String" and len(first) == 1 and columns.is_time_text(first[0], name)


READERS: dict[str, Callable[[Path, Sequence[str] | None, bool], Part]] = {
    ".npy": _read_npy,
    ".csv": csv_files.read,
    ".parquet": _read_parquet,
}

"""A user's own trace from a file: npy, csv (with or without a header) or parquet."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lcpo.contexts import columns
from lcpo.contexts.readers import LAYOUT, READERS
from lcpo.errors import InputError, MissingFile


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


def read(
    name: str,
    wanted: Sequence[str] | None = None,
    *,
    keep_time: bool = False,
    allow_empty: bool = False,
) -> Content:
    """What is in a file: the columns that are wanted, by name or number; None: all but the time.

    A column is the time where it holds dates, or where it is called so and holds text, or is the
    first and only goes up. `keep_time`: all columns, whatever they are. `allow_empty`: empty cells
    become NaN instead of an error.
    """
    path = find(name, READERS)
    names, count, times, take, _ = READERS[path.suffix.lower()](path)
    if wanted is not None:
        kept = columns.choose(wanted, names, count, path)
    else:
        kept = [i for i in range(count) if keep_time or i not in times]
    if count and not kept:
        raise InputError(f"trace file {path} holds nothing but times: needs {LAYOUT}")
    values = take(kept, allow_empty)
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


def read_times(name: str) -> Iterator[tuple[str, list[str] | np.ndarray]]:
    """The columns of a file that are its time: their names, and their cells (text or numbers)."""
    path = find(name, READERS)
    names, count, times, take, texts = READERS[path.suffix.lower()](path)
    called = names or [str(i + 1) for i in range(count)]
    yield from ((called[i], texts(i)) for i in sorted(times))
    if 0 not in times and columns.is_named_time(called[0]):
        values = take([0], True)
        if columns.counts_time(values, called):
            yield called[0], values[:, 0]

"""Which columns of a file are contexts: those that are named, or all but the time.

`mine.csv[rate,size]` is the trace of two columns, by their names or by their numbers from 1.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Sequence

import numpy as np

from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.values import refuse, shown

_NAMED = re.compile(r"(.+)\[([^\[\]]+)\]", re.S)
_TIME = re.compile(r"(?<![a-z])(time|timestamp|datetime|date|ts)(?![a-z])")
_NEED = "names or numbers of columns, separated by commas, and each once"


def split(name: str) -> tuple[str, tuple[str, ...] | None]:
    """(file, columns as written) of `FILE[COLUMNS]`; of any other name: None, all but the time."""
    found = _NAMED.fullmatch(name)
    if found is None or os.path.isfile(name):
        return name, None
    read(found[2])
    return found[1], tuple(found[2].split(","))


def read(text: str) -> tuple[str, ...]:
    """The columns in a text, separated by commas; InputError where there are none."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found) or len(set(found)) < len(found) or {"[", "]"} & set(text):
        refuse("columns", text, _NEED)
    return found


def choose(wanted: Sequence[str], names: Sequence[str], count: int, file: object) -> list[int]:
    """The places of columns that are asked for, among `count` of a file."""
    places = [_place(name, names, count, file) for name in wanted]
    if len(set(places)) < len(places):
        refuse("columns", ",".join(wanted), _NEED)
    return places


def _place(name: str, names: Sequence[str], count: int, file: object) -> int:
    if name in names:
        return list(names).index(name)
    if re.fullmatch(r"[0-9]{1,6}", name):
        if 1 <= int(name) <= count:
            return int(name) - 1
        raise InputError(f"trace file {file} has {count} columns, none is number {name}")
    if not names:
        raise InputError(
            f"trace file {file} has no names above its columns: choose {shown(name)} by its "
            f"number, from 1 to {count}"
        )
    raise InputError(unknown("column", name, names, of=str(file)))


def is_named_time(name: str) -> bool:
    """Whether a column is called as times are: time, timestamp, unix_time, Date (UTC)."""
    return _TIME.search(name.lower()) is not None


def is_time_text(cell: str, name: str) -> bool:
    """Whether a cell of text is a time: an ISO date or time, also with slashes, or called so."""
    if is_named_time(name):
        return True
    for kind in (datetime.datetime, datetime.date, datetime.time):
        with contextlib.suppress(ValueError):
            kind.fromisoformat(cell.strip().replace("/", "-"))
            return True
    return False


def counts_time(values: np.ndarray, names: Sequence[str]) -> bool:
    """Whether the first of several columns is a time: by its name, and it only goes up."""
    if len(names) < 2 or not is_named_time(names[0]):
        return False
    return bool(np.all(np.diff(values[:, 0]) > 0))

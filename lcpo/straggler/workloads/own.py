"""A user's own jobs from a file: csv, npy or npz."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np

from lcpo.archives import read_archive
from lcpo.contexts import files
from lcpo.errors import InputError, message
from lcpo.straggler.workloads.base import Given

MOST_UNPACKED = 2**28
"""Bytes of all arrays of a compressed file; an uncompressed one may be as large as it is."""
SIZE, GAP, TIME = "size_ms", "gap_ms", "time_ms"
LAYOUT = (
    f"two columns, size and gap in ms; or columns called {SIZE!r} and {GAP!r} (time until the "
    f"next job) or {TIME!r} (of arrival)"
)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; pickled objects are not read."""
    files.find(str(path), (".npz",), "workload")
    try:
        with open(path, "rb") as file:
            return read_archive(file, MOST_UNPACKED)
    except Exception as error:  # of a parser of unknown bytes
        raise InputError(
            f"workload file {path} is not a plain .npz archive of arrays ({message(error)}): write "
            "it with np.savez"
        ) from error


def read_jobs(path: Path) -> Given:
    """The jobs in a .csv or .npy file."""
    found = files.read(str(path), keep_time=True)
    table, names = found.values, list(found.names)
    if not names and table.shape[1] == 2:
        names = [SIZE, GAP]
    if not names:
        _refuse(path, f"has {table.shape[1]} columns without names")
    return jobs_of(dict(zip(names, table.T, strict=False)), path)


def jobs_of(columns: Mapping[str, np.ndarray], path: Path) -> Given:
    """Jobs from columns by name: sizes, and gaps or times of arrival."""
    if SIZE not in columns or (GAP in columns) == (TIME in columns):
        _refuse(path, f"has {', '.join(map(repr, columns)) or 'nothing'}")
    kind = GAP if GAP in columns else TIME
    size, time = (_numbers(columns[name], name, path) for name in (SIZE, kind))
    if len(size) != len(time):
        raise InputError(
            f"workload file {path}: {len(size):,} sizes but {len(time):,} entries of {kind!r}: "
            "every job needs both"
        )
    if len(size) < 2:
        raise InputError(f"workload file {path} has {len(size)} jobs: needs at least 2")
    need(size > 0, size, SIZE, path, "every size must be above 0")
    gap = gaps_of(time, str(path)) if kind == TIME else time
    need(gap >= 0, gap, GAP, path, "no gap may be below 0")
    if not gap.sum() > 0:
        raise InputError(f"workload file {path}: all gaps are 0: the jobs need some time between")
    return Given(str(path), size, gap)


def gaps_of(times: np.ndarray, name: str) -> np.ndarray:
    """Times between arrivals. After the last one, the mean of the others, until the first again."""
    gaps = np.diff(times)
    back = np.flatnonzero(gaps < 0)
    if len(back):
        row = back[0] + 1
        raise InputError(
            f"workload file {name}: job {row + 1} (counted from 1) arrives at {times[row]:g}, "
            f"before the one above it, at {times[row - 1]:g}: sort the jobs by time"
        )
    return np.append(gaps, gaps.mean())


def _numbers(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    if values.dtype.kind not in "fiu" or values.ndim != 1:
        raise InputError(
            f"workload file {path}: {name!r} has {values.dtype} entries and shape {values.shape}: "
            "needs real numbers in one dimension"
        )
    values = np.ascontiguousarray(values, np.float64)
    need(np.isfinite(values), values, name, path, "every entry must be finite")
    return values


def need(good: np.ndarray, values: np.ndarray, name: str, path: Path, needed: str) -> None:
    """Raise InputError unless all values are good [N]."""
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"workload file {path}: {name!r} of job {row + 1} (counted from 1) is {values[row]:g}: "
            f"{needed}"
        )


def _refuse(path: Path, found: str) -> NoReturn:
    raise InputError(f"workload file {path} {found}: needs {LAYOUT}")

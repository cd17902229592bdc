"""The time column of a file: its interval, gaps in it, and rows at a fixed interval.

Rows are steps, whatever their times say, so a gap in time is a jump of the context. `gap_note`
reports gaps; `resample` closes them.
"""

from __future__ import annotations

import datetime
import re
import shlex
from typing import NamedTuple

import numpy as np

from lcpo.contexts import files
from lcpo.errors import InputError
from lcpo.values import refuse

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Of durations, in seconds."""
WIDE = 1.5
"""Rows further apart than this many usual intervals have a gap between them."""
MAX_ROWS = 100_000_000


class Clock(NamedTuple):
    """When the rows of a file were measured."""

    column: str
    times: np.ndarray
    """Seconds since 1970 where the column holds dates, otherwise its numbers."""
    is_date: bool = False
    zone: str = ""
    """"Z" where dates name their time zone."""

    def duration(self, length: float) -> str:
        """A length of time as `--every` takes it: 15min, or a number where times are numbers."""
        if not self.is_date:
            return f"{length:.10g}"
        unit = max(
            (u for u in UNITS if length % UNITS[u] == 0.0), key=UNITS.__getitem__, default="s"
        )
        return f"{length / UNITS[unit]:.10g}{unit}"

    def shown(self, time: float) -> str:
        """A time as it stands in a file."""
        if not self.is_date:
            return f"{time:.15g}"
        moment = datetime.datetime.fromtimestamp(time, datetime.UTC)
        return moment.replace(tzinfo=None).isoformat(" ") + self.zone


def read_clock(file: str) -> Clock | None:
    """The first time column that can be read; None where a file has none."""
    for column, cells in files.read_times(file):
        if isinstance(cells, np.ndarray):
            return Clock(column, cells)
        try:
            moments = [datetime.datetime.fromisoformat(c.strip().replace("/", "-")) for c in cells]
        except ValueError:  # times of the day, or text
            continue
        utc = [m if m.tzinfo else m.replace(tzinfo=datetime.UTC) for m in moments]
        zone = "Z" if moments and moments[0].tzinfo else ""
        return Clock(column, np.array([m.timestamp() for m in utc]), True, zone)
    return None


def gap_note(clock: Clock, file: str) -> str | None:
    """How many gaps there are in time, and what to do about them; None where there are none."""
    apart = np.diff(clock.times)
    usual = float(np.median(apart)) if len(apart) else 0.0
    if usual <= 0.0:
        return None
    wide, late = apart > WIDE * usual, int(np.sum(apart <= 0.0))
    parts, every = [], clock.duration(usual)
    if wide.any():
        missing, gaps = int(np.sum(np.round(apart[wide] / usual) - 1)), int(wide.sum())
        first, last = (clock.shown(t) for t in clock.times[np.argmax(apart) :][:2])
        parts.append(
            f"{gaps:,} {'gap' if gaps == 1 else 'gaps'} ({missing:,} rows missing at an interval "
            f"of {every}; the longest from {first} to {last})"
        )
    if late:
        parts.append(f"{late:,} rows that are not later than the row before")
    if not parts:
        return None
    return (
        f"column {clock.column!r} has {' and '.join(parts)}. Every row is one step regardless. For "
        f"rows at a fixed interval: lcpo trace {shlex.quote(file)} --every {every} --fill linear "
        "--write new.csv"
    )


def read_interval(text: str, clock: Clock) -> float:
    """The interval that a user asks for, in the unit of the clock."""
    found = re.fullmatch(r"([0-9.]+) ?(s|min|h|d|)", text.strip())
    need = "a number and a unit: 30s, 15min, 1h or 1d"
    if not clock.is_date:
        need = f"a number in the unit of column {clock.column!r}, such as 900"
    try:
        length = float(found[1]) if found else 0.0
    except ValueError:  # 1.2.3
        length = 0.0
    if found is None or length <= 0.0 or bool(found[2]) != clock.is_date:
        refuse("every", text, need)
    return length * UNITS.get(found[2], 1.0)


def resample(values: np.ndarray, clock: Clock, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of values [rows, channels] over intervals, and the beginning of each.

    Intervals begin at multiples of their length. Those without a value are NaN.
    """
    number = np.floor(clock.times / interval + 1e-9)
    count = int(number.max() - number.min()) + 1
    if count > MAX_ROWS:
        raise InputError(
            f"every = {clock.duration(interval)} makes {count:,} rows: give a longer interval"
        )
    place = (number - number.min()).astype(np.int64)
    means = np.full((count, values.shape[1]), np.nan)
    for c, column in enumerate(values.T):
        known = ~np.isnan(column)
        size = np.bincount(place[known], minlength=count)
        total = np.bincount(place[known], column[known], minlength=count)
        means[:, c] = np.divide(total, size, out=means[:, c], where=size > 0)
    return means, (number.min() + np.arange(count)) * interval

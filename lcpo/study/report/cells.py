"""The values in a table's cells, and how a column shows them.

    Estimate(mean, low, high, n)    over seeds            -373 ± 3, or 0.91 [0.78, 1.00]
    Printed                         the paper's number    -378 ± 3, with its own digits
    Count(7, 8, "1 failed")         part of a total       7 of 8, 1 failed
    Noted(value, "seed 3")          with a remark         -231 (seed 3)
    Median(10.0, 5.0, 25.0)         and the range         10 (5 .. 25)
    Change(14.7, 16.0)              before and after      14.7 to 16.0
    float, int, str, None           as they are           None and NaN are shown as a dash

A column defines how its numbers are shown. Code that needs a number takes it from the value and
never parses text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from lcpo.study.measure.stats import NAN, Estimate

NONE = "-"
"""Shown for a value that does not exist."""
MOST_DIGITS = 20
"""Decimals that a file may ask for."""

Form = Literal["", "+", "bounds", "full", "e", "g", ",", "until"]


class Printed(NamedTuple):
    """A number as it was printed, in the paper or in a report of an earlier version."""

    text: str
    mean: float
    half: float | None = None
    """Half-width of its interval; None: no interval was printed."""
    places: int = 0
    """Decimals of the mean."""

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, mean: str, half: str = "") -> Printed:
        """From the digits of a mean and of the half-width of its interval."""
        text = f"{mean} ± {half}" if half else mean
        places = len(mean.partition(".")[2])
        return cls(text, float(mean), float(half) if half else None, places)


class Count(NamedTuple):
    """Part of a total."""

    some: int
    total: int
    why: str = ""
    """What happened to the others."""


def count_of(some: int, total: int) -> Count | int:
    """Part of a total, or the total alone if none is missing."""
    return total if some == total else Count(some, total)


class Noted(NamedTuple):
    """A number followed by a remark in parentheses."""

    value: Estimate | Printed | float | int | None
    note: str


class Median(NamedTuple):
    """The median of several numbers, and the lowest and highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Median:
        return cls(*map(float, (np.median(values), min(values), max(values))))


class Change(NamedTuple):
    """A number before and after something."""

    before: float | None
    after: float | None


Plain = float | int | str | None
Cell = Estimate | Printed | Count | Noted | Median | Change | float | int | str | None


class Column(NamedTuple):
    """The name of a column and the format of its numbers; text is shown unchanged."""

    name: str
    form: Form = ""
    """"" plain, "+" with a sign, "bounds" as mean [low, high], "full" with all digits, "e" and "g"
    as in Python's formats, "," with thousands separators, "until" for the time until something
    happens, which may be infinite."""
    decimals: int | None = None
    """None: as in the paper, by the size of the number."""
    unit: str = ""
    """Follows each number; "%": cells hold fractions."""
    side: Literal["l", "r"] = "r"
    key: str = ""
    """Name in CSV files; default: the words of `name` joined by underscores."""
    hidden: bool = False
    """Only in CSV files and report.json."""
    about: str = ""
    """What it means, for readers of the page; empty if the name or a note of the table says it."""

    @property
    def code(self) -> str:
        return self.key or "_".join(re.findall(r"\w+", self.name)) or "_"

    def text(self, cell: Cell) -> str:
        """A cell as a reader sees it."""
        match cell:
            case Noted():
                return f"{self.text(cell.value)} ({cell.note})"
            case str():
                return cell
            case Printed():
                return cell.text
            case None:
                shown = "" if self.form == "full" else NONE
            case Count():
                shown = f"{cell.some} of {cell.total}{f', {cell.why}' if cell.why else ''}"
            case Estimate():
                shown = self._interval(cell)
            case Median():
                middle, low, high = map(self.text, cell)
                return f"{middle} ({low} .. {high})"
            case Change():
                return " to ".join(map(self.text, cell))
            case int():
                shown = f"{cell:{self.form}}" if self.form in ("+", ",") else str(cell)
            case _:
                shown = self._number(100 * cell if self.unit == "%" else cell)
        return f"{shown} {self.unit}" if self.unit and shown != NONE else shown

    def _interval(self, cell: Estimate) -> str:
        """Mean ± half-width, or mean [low, high] for asymmetric intervals."""
        if math.isnan(cell.mean):
            return NONE
        if self.form == "bounds":
            known = f"{cell.low:.2f}, {cell.high:.2f}" if cell.low == cell.low else NONE
            return f"{cell.mean:.2f} [{known}]"
        factor = 100 if self.unit == "%" else 1
        mean, low, high = (factor * value for value in cell[:3])
        half = 0.5 * (high - low)
        digits = self._digits(mean, half)
        shown = NONE if math.isnan(half) else f"{half:.{digits}f}"
        return f"{_rounded(mean, digits, '+' if self.form == '+' else '')} ± {shown}"

    def _number(self, value: float) -> str:
        if math.isnan(value):
            return "" if self.form == "full" else NONE
        if self.form == "full":
            return str(value)
        if self.form == "until":
            return "never" if math.isinf(value) else f"{value:.0f}"
        digits = self._digits(value)
        if self.form in ("e", "g"):
            return f"{value:.{digits}{self.form}}"
        return _rounded(value, digits, self.form)

    def _digits(self, mean: float, half: float = NAN) -> int:
        """Decimals: the fewer of the two numbers', but a half-width is not shown as 0 unless it
        is a rounding error, as with runs that are all equal."""
        if self.decimals is not None:
            return self.decimals
        digits = min(map(_places, (mean, half)))
        if 1e-9 * abs(mean) < half < 0.5 * 10**-digits:
            digits = min(-math.floor(math.log10(half)), 9)
        return digits

    def printed(self, cell: Cell) -> Printed | None:
        """A number with the digits that are shown; None: the cell holds no number."""
        match cell:
            case Noted():
                return self.printed(cell.value)
            case Printed():
                return cell
            case Estimate() if not math.isnan(cell.mean):
                mean, half = cell.mean, 0.5 * (cell.high - cell.low)
            case float() if math.isfinite(cell) and self.form in ("", "+"):
                mean, half = cell, NAN
            case _:
                return None
        digits = self._digits(mean, half)
        known = None if math.isnan(half) else round(half, digits)
        return Printed(self.text(cell), round(mean, digits) + 0.0, known, digits)


def _places(value: float) -> int:
    """Decimals as in the paper: none from 100 on, one from 10 on, otherwise two."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def _rounded(value: float, digits: int, form: str) -> str:
    return f"{round(value, digits) + 0.0:{form}.{digits}f}"  # + 0.0: never "-0"


def columns(names: Iterable[str], sides: str) -> list[Column]:
    """Text columns, each aligned to its side."""
    return [
        Column(name, side="r" if side == "r" else "l")
        for name, side in zip(names, sides, strict=True)
    ]


def sort_number(cell: Cell) -> float | None:
    """The number by which a cell is sorted; None: it is sorted as text."""
    match cell:
        case Noted():
            return sort_number(cell.value)
        case Estimate() | Printed():
            value = cell.mean
        case Count():
            value = cell.some
        case Median() | Change():
            return sort_number(cell[0])
        case float() | int():
            value = cell
        case _:
            return None
    return float(value) if math.isfinite(value) else None


def parts(cell: Cell) -> dict[str, Plain]:
    """The plain values of a cell, by the suffix of the column's name in CSV files."""
    match cell:
        case Noted():
            return {**parts(cell.value), "_note": cell.note}
        case Estimate():
            return {f"_{name}": value for name, value in cell._asdict().items()}
        case Printed():
            return {"_mean": cell.mean, "_half": cell.half}
        case Count():
            return {"": cell.some, "_total": cell.total}
        case Median() | Change():
            return {f"_{name}": value for name, value in cell._asdict().items()}
        case None | "":
            return {}
    return {"": cell}


def to_json(cell: Cell) -> Any:
    """A JSON value: an object with one entry for a record, null for NaN, text for infinity."""
    if isinstance(cell, (Estimate, Printed, Count, Noted, Median, Change)):
        return {type(cell).__name__.lower(): [to_json(value) for value in cell]}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None if math.isnan(cell) else {"float": str(cell)}
    return cell


def from_json(value: Any) -> Cell:
    """The inverse of `to_json`; ValueError for anything else."""
    match value:
        case None | str() | int() | float():
            return value
        case {"float": "inf" | "-inf" as text}:
            return float(text)
        case {"estimate": [mean, low, high, int(n)]}:
            return Estimate(_float(mean), _float(low), _float(high), n)
        case {"printed": [str(text), mean, half, int(digits)]} if 0 <= digits <= MOST_DIGITS:
            return Printed(text, _float(mean), None if half is None else _float(half), digits)
        case {"count": [int(some), int(total), str(why)]}:
            return Count(some, total, why)
        case {"median": [middle, low, high]}:
            return Median(_float(middle), _float(low), _float(high))
        case {"change": [before, after]}:
            return Change(_float(before), _float(after))
        case {"noted": [inner, str(note)]} if not (isinstance(inner, dict) and "noted" in inner):
            found = from_json(inner)
            if isinstance(found, (Estimate, Printed, float, int)) or found is None:
                return Noted(found, note)
    raise ValueError(f"{value!r} is not a table cell")


def _float(value: Any) -> float:
    found = from_json(value)
    if found is not None and not isinstance(found, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return NAN if found is None else float(found)

"""What stands in the cells of a table: values, and how a column shows them.

    Estimate(mean, low, high, n)    over seeds          -373 ± 3, or 0.91 [0.78, 1.00]
    Printed                         the paper's number  -378 ± 3, with its own digits
    Count(7, 8, "1 failed")         of a total          7 of 8, 1 failed
    Noted(value, "seed 3")          with a remark       -231 (seed 3)
    float, int, str, None           as they are         None, and NaN, are shown as a dash

A column says how its numbers are shown. A program that needs a number takes it from the value:
nothing reads a number out of a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from lcpo.study.measure.stats import NAN, Estimate

NONE = "-"
"""Shown for a value that does not exist."""

Form = Literal["", "+", "bounds", "full", "e", "g", ","]


class Printed(NamedTuple):
    """A number as somebody printed it: the paper, or a report of an earlier version."""

    text: str
    mean: float
    half: float | None = None
    """Of its interval; None: it has none."""
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
    """So many of a total."""

    some: int
    total: int
    why: str = ""
    """What became of the others."""


def count_of(some: int, total: int) -> Count | int:
    """So many of a total; the total alone where none is missing."""
    return total if some == total else Count(some, total)


class Noted(NamedTuple):
    """A number with a remark, which follows in brackets."""

    value: Estimate | Printed | float | int | None
    note: str


Plain = float | int | str | None
Cell = Estimate | Printed | Count | Noted | float | int | str | None


class Column(NamedTuple):
    """The name of a column, and how its numbers are shown; texts are shown as they are."""

    name: str
    form: Form = ""
    """How numbers are written: "" plainly, "+" with a sign, "bounds" as mean [low, high], "full"
    with all their digits, "e" and "g" as Python's formats of that name, "," with thousands."""
    decimals: int | None = None
    """None: as in the paper, by the size of the number."""
    unit: str = ""
    """Written after each number; "%": cells hold shares."""
    side: Literal["l", "r"] = "r"
    key: str = ""
    """Its name in CSV files; default: the words of its name, with underscores."""
    hidden: bool = False
    """Only CSV files and report.json have it."""

    @property
    def code(self) -> str:
        """Its name for programs."""
        return self.key or "_".join(re.findall(r"\w+", self.name)) or "_"

    def text(self, cell: Cell) -> str:
        """A cell as a reader sees it."""
        if isinstance(cell, Noted):
            return f"{self.text(cell.value)} ({cell.note})"
        found = self._text(cell)
        has_unit = self.unit and found != NONE and not isinstance(cell, (str, Printed))
        return f"{found} {self.unit}" if has_unit else found

    def _text(self, cell: Estimate | Printed | Count | float | int | str | None) -> str:
        match cell:
            case None:
                return "" if self.form == "full" else NONE
            case str():
                return cell
            case Printed():
                return cell.text
            case Count(some, total, why):
                return f"{some} of {total}{f', {why}' if why else ''}"
            case Estimate() if self.form == "bounds":
                return with_bounds(cell)
            case Estimate(mean, low, high, n) if self.unit == "%":
                share = Estimate(100 * mean, 100 * low, 100 * high, n)
                return plus_minus(share, self.form == "+", self.decimals)
            case Estimate():
                return plus_minus(cell, self.form == "+", self.decimals)
            case int():
                return f"{cell:{self.form}}" if self.form in ("+", ",") else str(cell)
        return self._number(100 * cell if self.unit == "%" else cell)

    def _number(self, value: float) -> str:
        if self.form == "full":
            return "" if math.isnan(value) else str(value)
        if math.isnan(value):
            return NONE
        digits = places(value) if self.decimals is None else self.decimals
        if self.form in ("e", "g", ","):
            spec = f",.{digits}f" if self.form == "," else f".{digits}{self.form}"
            return f"{value:{spec}}"
        return _decimals(value, digits, self.form == "+")

    def printed(self, cell: Cell) -> Printed | None:
        """A number with the digits that are shown of it; None: the cell holds none."""
        if isinstance(cell, Noted):
            return self.printed(cell.value)
        if isinstance(cell, Printed):
            return cell
        if isinstance(cell, Estimate) and not math.isnan(cell.mean):
            digits, half = _digits(cell, self.decimals), _half(cell)
            known = None if math.isnan(half) else round(half, digits)
            return Printed(self.text(cell), round(cell.mean, digits) + 0.0, known, digits)
        if isinstance(cell, float) and math.isfinite(cell) and self.form in ("", "+"):
            digits = places(cell) if self.decimals is None else self.decimals
            return Printed(self.text(cell), round(cell, digits) + 0.0, None, digits)
        return None


def columns(names: Iterable[str], sides: str) -> list[Column]:
    """Of texts, each on its side."""
    return [
        Column(name, side="r" if side == "r" else "l")
        for name, side in zip(names, sides, strict=True)
    ]


def sort_number(cell: Cell) -> float | None:
    """By which a cell is sorted; None: it is sorted as text."""
    match cell:
        case Noted():
            return sort_number(cell.value)
        case Estimate() | Printed():
            value = cell.mean
        case Count():
            value = cell.some
        case float() | int():
            value = cell
        case _:
            return None
    return float(value) if math.isfinite(value) else None


def parts(cell: Cell) -> dict[str, Plain]:
    """The plain values of a cell, by what follows the name of its column in a CSV file."""
    match cell:
        case Noted():
            return {**parts(cell.value), "_note": cell.note}
        case Estimate():
            return {f"_{name}": value for name, value in cell._asdict().items()}
        case Printed():
            return {"_mean": cell.mean, "_half": cell.half}
        case Count():
            return {"": cell.some, "_total": cell.total}
        case None | "":
            return {}
    return {"": cell}


def places(value: float) -> int:
    """Decimals as in the paper: none from 100 on, one from 10 on, else two."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def number(value: float | None, sign: bool = False) -> str:
    """A number in the paper's format; `sign`: with a plus."""
    if value is None or math.isnan(value):
        return NONE
    return _decimals(value, places(value), sign)


def plus_minus(estimate: Estimate | None, sign: bool = False, decimals: int | None = None) -> str:
    """Mean ± half-width, with the decimals of the larger; a half-width is never shown as 0.

    Without an interval, a dash stands for it.
    """
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    digits, half = _digits(estimate, decimals), _half(estimate)
    shown = NONE if math.isnan(half) else f"{half:.{digits}f}"
    return f"{_decimals(estimate.mean, digits, sign)} ± {shown}"


def with_bounds(estimate: Estimate | None) -> str:
    """Mean [low, high], for an interval that is not symmetric; two decimals."""
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    if math.isnan(estimate.low):
        return f"{estimate.mean:.2f} [{NONE}]"
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _half(estimate: Estimate) -> float:
    return 0.5 * (estimate.high - estimate.low)


def _digits(estimate: Estimate, decimals: int | None) -> int:
    half = _half(estimate)
    if decimals is not None:
        return decimals
    if math.isnan(half):
        return places(estimate.mean)
    digits = min(places(estimate.mean), places(half))
    if 0.0 < half < 0.5 * 10**-digits:
        digits = min(-math.floor(math.log10(half)), 9)
    return digits


def _decimals(value: float, digits: int, sign: bool) -> str:
    value = round(value, digits) + 0.0  # no "-0"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


KINDS: dict[str, type[Estimate | Printed | Count | Noted]] = {
    "estimate": Estimate, "printed": Printed, "count": Count, "noted": Noted,
}  # fmt: skip
"""In report.json, by the name of the only entry of an object."""


def to_json(cell: Cell) -> Any:
    """A plain value. A number that JSON lacks is text in an object; NaN is null."""
    for name, kind in KINDS.items():
        if isinstance(cell, kind):
            return {name: [to_json(value) for value in cell]}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None if math.isnan(cell) else {"float": str(cell)}
    return cell


MOST_DIGITS = 20
"""Decimals that a file may ask for."""


def from_json(value: Any) -> Cell:
    """What `to_json` wrote; ValueError where it is something else."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    match value:
        case {"float": "inf" | "-inf" as text}:
            return float(text)
        case {"estimate": [mean, low, high, int(n)]}:
            return Estimate(_float(mean), _float(low), _float(high), n)
        case {"printed": [str(text), mean, half, int(digits)]} if 0 <= digits <= MOST_DIGITS:
            return Printed(text, _float(mean), None if half is None else _float(half), digits)
        case {"count": [int(some), int(total), str(why)]}:
            return Count(some, total, why)
        case {"noted": [inner, str(note)]}:
            found = "" if isinstance(inner, dict) and "noted" in inner else from_json(inner)
            if not isinstance(found, (str, Count, Noted)):
                return Noted(found, note)
    raise ValueError(f"{value!r} is no cell of a table")


def _float(value: Any) -> float:
    found = from_json(value)
    if found is not None and not isinstance(found, (int, float)):
        raise ValueError(f"{value!r} is no number")
    return NAN if found is None else float(found)

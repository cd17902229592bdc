"""A trace played faster: `3@1/20` is trace 3 at 20 times its speed.

Every 20th row of the trace is taken: all of its contexts still occur, each for a shorter time.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

from lcpo.contexts.generators import Switches
from lcpo.values import refuse, shown

SIGN = "@"
WHOLE = Fraction(1)
_NUMBER = r"\d+/\d+|\d*\.?\d+"
_LARGEST = 10**9


def read(what: str, text: str) -> Fraction:
    """A fraction greater than 0 and at most 1; InputError for anything else."""
    try:
        found = Fraction(text) if len(text) < 40 and re.fullmatch(_NUMBER, text) else None
    except ZeroDivisionError:
        found = None
    if found is None or not 0 < found <= 1 or found.denominator > _LARGEST:
        refuse(what, text, "a fraction greater than 0 and at most 1, such as 1/20")
    return found


def split(name: str) -> tuple[str, Fraction, str]:
    """(trace, fraction, fraction as written) of `TRACE@FRACTION`; of any other name: all of it."""
    found = re.fullmatch(f"(.+){SIGN}({_NUMBER})", name)
    if found is None:
        return name, WHOLE, ""
    return found[1], read(f"fraction of trace {shown(name)}", found[2]), found[2]


def rows_before(rows: int, fraction: Fraction) -> int:
    """How many rows of the full trace this many rows of the shorter one cover."""
    return -(-rows * fraction.denominator // fraction.numerator)


def take(values: np.ndarray, rows: int, fraction: Fraction) -> np.ndarray:
    """`rows` rows at equal spacing, [rows, channels]."""
    places = np.arange(rows) * fraction.denominator // fraction.numerator
    return values[places]


def take_switches(switches: Switches, rows: int, fraction: Fraction) -> Switches:
    """The schedule of `rows` rows of the shorter trace, without visits that have no row in it."""
    start = -(-switches.start * fraction.numerator // fraction.denominator)
    lasts = np.append(start[1:], rows) > start
    context = switches.context[lasts]
    seen = np.ones(len(context), bool)
    seen[np.unique(context, return_index=True)[1]] = False
    return Switches(start[lasts], context, seen)

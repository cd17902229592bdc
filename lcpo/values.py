"""Checks of user input: plain values, or a one-line error if a value cannot be used.

NumPy's scalars count as the Python values that they stand for, and a float without a fraction as a
whole number; true and false are not numbers.
"""

from __future__ import annotations

import json
import math
import os
import unicodedata
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lcpo.errors import InputError

INT_MAX = 2**31 - 1
"""The largest size, count or seed: compiled programs use 32-bit integers."""
FLOAT_MAX = 3.4028234e38
"""The largest float32."""


_PLAIN = {str, int, float, bool, type(None)}


def plain(value: Any) -> Any:
    """The Python value of a NumPy or JAX scalar; anything else unchanged."""
    if type(value) in _PLAIN:
        return value
    is_scalar = hasattr(value, "item") and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def shown(value: Any, length: int = 80) -> str:
    """A value as shown in an error: on one line, and not too long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4 * length:
        return f"a number of more than {length} digits"
    try:
        text = repr(value)
    except Exception:  # of the user's class
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[:length]}..."


def is_whole(value: Any) -> bool:
    """Whether a plain value is a whole number."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def is_number(value: Any) -> bool:
    """Whether a plain value is a number, finite or not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fits_float32(value: float) -> bool:
    """Whether a number is finite in float32."""
    return -FLOAT_MAX <= value <= FLOAT_MAX


def whole(what: str, value: Any, low: int = 1, high: int = INT_MAX) -> int:
    """A whole number from `low` to `high`."""
    found = plain(value)
    if not is_whole(found) or not low <= found <= high:
        refuse(what, value, f"a whole number from {low:,} to {high:,}")
    return int(found)


def number(what: str, value: Any, low: float = -FLOAT_MAX, high: float = FLOAT_MAX) -> float:
    """A finite number from `low` to `high`."""
    found = plain(value)
    if not is_number(found) or not low <= found <= high:
        bounds = f" from {low:g} to {high:g}" if math.isfinite(low) else ""
        refuse(what, value, f"a number{bounds}")
    return float(found)


def reals(what: str, value: Any) -> np.ndarray:
    """An array of finite real numbers, as float32."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        given = None
    if given is None or given.dtype.kind not in "biuf":
        refuse(what, value, "an array of real numbers")
    if given.ndim == 1 and given.size <= 32:  # far quicker than NumPy: every call of `act` does it
        for number in given.tolist():
            if not -FLOAT_MAX <= number <= FLOAT_MAX:
                break
        else:
            return given.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):
        found = given.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise InputError(f"{what}{np.argwhere(~np.isfinite(found))[0].tolist()} is not finite")
    return found


def flag(what: str, value: Any) -> bool:
    """True or False."""
    found = plain(value)
    return found if isinstance(found, bool) else refuse(what, value, "True or False")


def name(what: str, value: Any) -> str:
    """Text that is not empty."""
    return value if isinstance(value, str) and value else refuse(what, value, "a name")


def split(what: str, text: str) -> list[str]:
    """Split at the commas outside brackets: "lcpo[sigma=2,gamma=0.9],a2c" has two parts."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth != 0:
        refuse(what, text, "a ] for every [")
    return [part.strip() for part in parts]


def file_name(text: str) -> str:
    """A text for use in the name of a file or folder: without slashes and colons."""
    return text.replace("/", "_").replace(":", ".")


def has_control(text: str) -> bool:
    """Whether a text has line ends or control characters."""
    return any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in text)


def path(what: str, value: Any) -> Path:
    """The path of a file or folder."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        refuse(what, value, "a path")
    if has_control(text):
        refuse(what, value, "a path without line breaks or other control characters")
    sizes = [len(os.fsencode(part)) for part in Path(text).parts]
    if max(sizes, default=0) > 255 or sum(sizes) > 4000:
        refuse(what, value, "a path that a file system can hold: its names have 255 bytes at most")
    return Path(text)


def current_folder() -> Path:
    """The current folder; InputError if it has been deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        gone = f"the current folder was deleted ({error.strerror}): change to one that exists"
        raise InputError(gone) from error


_SWITCHES = {"True": "true", "False": "false"}


def from_text(text: str) -> Any:
    """The value of a word on a command line: parsed as JSON, or else the text itself.

    True and False may be written as in Python.
    """
    try:
        return json.loads(_SWITCHES.get(text, text))
    except (ValueError, RecursionError):
        return text


def without_nan(value: Any) -> Any:
    """Plain values for JSON, which has no NaN: null stands for a number that is not finite."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def refuse(what: str, value: Any, need: str) -> NoReturn:
    """Raise InputError with what was given and what is needed."""
    raise InputError(f"{what} = {shown(value)}: needs {need}")

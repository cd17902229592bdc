"""What comes after the end of a trace: `mine.csv+repeat` begins again, `mine.csv+hold` stays.

Both have as many rows as are asked for.
"""

from __future__ import annotations

import numpy as np

REPEAT, HOLD = "+repeat", "+hold"


def split(name: str) -> tuple[str, str]:
    """(trace, ending), the ending empty where the name has none."""
    for ending in (REPEAT, HOLD):
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending), ending
    return name, ""


def extend(values: np.ndarray, rows: int, ending: str) -> np.ndarray:
    """So many rows of a trace that has fewer, or more."""
    places = np.arange(rows)
    if ending == REPEAT:
        return values[places % len(values)]
    return values[np.minimum(places, len(values) - 1)]

"""Which columns of an array are too large or too small for networks to learn from?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LARGE, TINY = 10.0, 0.01
"""A column is out of scale if its root mean square is above the first, or if its largest entry is
below the second. Rare events of ordinary size have a tiny root mean square, and need no factor."""
SHOWN = 6
"""How many columns a message names."""


def out_of_scale(values: np.ndarray) -> list[int]:
    """Columns of values [..., D] that are large or tiny; a column of zeros is neither."""
    rows = np.asarray(values, np.float64).reshape(-1, values.shape[-1])
    sizes = zip(root_mean_square(rows), np.abs(rows).max(axis=0, initial=0.0), strict=True)
    return [i for i, (x, largest) in enumerate(sizes) if x > LARGE or 0.0 < largest < TINY]


def root_mean_square(values: np.ndarray) -> np.ndarray:
    """Root mean square of each column of values [..., D]."""
    rows = np.asarray(values, np.float64).reshape(-1, values.shape[-1])
    return np.sqrt(np.mean(rows**2, axis=0))


def ranges(values: np.ndarray, columns: Sequence[int]) -> str:
    """The columns with their ranges, in words."""
    rows = values.reshape(-1, values.shape[-1])
    words = [f"{i} ({rows[:, i].min():.4g} to {rows[:, i].max():.4g})" for i in columns[:SHOWN]]
    more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
    return ", ".join(words) + more

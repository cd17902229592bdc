"""The trace of the probe of memory (docs/probes.md): A, a long B, A again.

As long as it takes a small network to learn A, to learn B and to unlearn A, and to show which of
them it has. A is more than a fifth of the past until the end, so that it is there to be remembered.
"""

from __future__ import annotations

import numpy as np

from lcpo.contexts import generators
from lcpo.contexts.generators import Switches

FIRST, SECOND, AGAIN = 6_000, 18_000, 1_200
"""Rows in context A, in B, and back in A: whole rollouts of 40 and of 200 steps."""
NUM_ROWS = FIRST + SECOND + AGAIN
A, B = -1.0, 1.0
_SCHEDULE = Switches(
    np.array([0, FIRST, FIRST + SECOND]), np.array([0, 1, 0]), np.array([False, False, True])
)


def two_contexts(rows: int = NUM_ROWS) -> np.ndarray:
    """Context A, then B, then A, [rows, 1]."""
    return generators.hold_levels(rows, _SCHEDULE.start, np.array([[A], [B], [A]]))


def two_contexts_switches(rows: int = NUM_ROWS) -> Switches:
    """Its schedule, as far as `rows` go."""
    begun = _SCHEDULE.start < rows
    return Switches(*(values[begun] for values in _SCHEDULE))

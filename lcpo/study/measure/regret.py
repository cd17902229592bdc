"""Regret: the rewards of a prescient run minus those of another run."""

from __future__ import annotations

import numpy as np

from lcpo.run.store.record import Record


def cumulative_regret(record: Record, prescient: Record) -> np.ndarray:
    """At each `record["step"]` t: sum over the steps up to t of prescient reward - own reward.

    Both runs are on one trace, so that step t has the same context in both. Rows of the prescient
    record that end elsewhere are cut in proportion. Beyond its end: NaN. The last value over the
    number of steps is the difference in mean reward per step.
    """
    own = np.cumsum(record["reward"] * _lengths(record["step"]))
    other = np.cumsum(prescient["reward"] * _lengths(prescient["step"]))
    at = np.append(0, prescient["step"])
    return np.interp(record["step"], at, np.append(0.0, other), right=np.nan) - own


def _lengths(step: np.ndarray) -> np.ndarray:
    """Steps of each row."""
    return np.diff(step, prepend=0)

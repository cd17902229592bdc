"""The context traces of the paper, wind (wx, wy) per step.

The original arrays are not public. Traces 3 and 4 follow formulas read off the published figure,
with i.i.d. Gaussian noise of the measured strength; see docs/contexts.md.
"""

from __future__ import annotations

import numpy as np

MILLION = 1_000_000


def trace_3(rows: int = 8 * MILLION) -> np.ndarray:
    """Six constant winds with Gaussian noise of 0.075."""
    starts = np.array([0, 1.080, 2.154, 3.928, 5.421, 6.864]) * MILLION
    wx = np.array([-0.378, 0.730, 0.586, 3.573, -0.443, -1.810])
    wy = np.array([-1.044, -0.513, 0.780, -0.437, 0.038, -2.709])
    segment = np.searchsorted(starts, np.arange(rows), side="right") - 1
    return _noisy(np.stack([wx[segment], wy[segment]], axis=1), 0.075, seed=3)


def trace_4(rows: int = 8 * MILLION) -> np.ndarray:
    """Calm, then bursts in which the wind turns on a circle; Gaussian noise of 0.37 throughout."""
    time = np.arange(rows) / MILLION
    active = ((time >= 4.5) & (time < 6.0)) | ((time >= 6.5) & (time < 7.0)) | (time >= 7.5)
    phase = 2.0 * np.pi * (time - 4.5) / 0.5
    wind = np.stack([-2.5 * (1.0 - np.cos(phase)), 2.5 * np.sin(phase)], axis=1)
    return _noisy(wind * active[:, None], 0.37, seed=4)


def _noisy(levels: np.ndarray, std: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(levels.shape, np.float32)
    return levels.astype(np.float32) + np.float32(std) * noise

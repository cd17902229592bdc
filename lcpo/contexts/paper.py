"""The context traces of the paper: wind (wx, wy) per step and its scales, the grid world's trap.

The original arrays are not public. Traces 1 and 2 join the points of the digitised figure by
Brownian bridges; traces 3 and 4 follow formulas read off it, with i.i.d. Gaussian noise of the
measured strength. See docs/contexts.md.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np

from lcpo import defaults
from lcpo.contexts import generators
from lcpo.defaults import ENVIRONMENTS, MILLION
from lcpo.errors import InputError
from lcpo.names import unknown


def wind_scale(env: str, trace: Any) -> float:
    """The factor on the wind behind the published tables; 1 on traces that are not the paper's.

    The paper divides the wind by 8 in 8 of its 20 (environment, trace) pairs.
    """
    windy = {name: known.wind_divisors for name, known in ENVIRONMENTS.items()}
    divisors = windy.get(env)
    if divisors is None:
        known = [name for name, found in windy.items() if found]
        raise InputError(unknown("windy environment", env, known))
    from lcpo.contexts.refs import TraceRef  # which knows the traces of this module

    source = "" if trace is None else TraceRef.parse(trace).source
    return 1.0 / divisors[int(source) - 1] if source in ("1", "2", "3", "4") else 1.0


def default_scale(env: str, trace: Any) -> float:
    """The default factor on a trace: the wind scale, or 1."""
    return wind_scale(env, trace) if defaults.of(env).wind_divisors else 1.0


def trap_schedule(episodes: int = 200_000) -> np.ndarray:
    """The paper's context by episode, [episodes, 2]: the trap is active from 20 % to 80 % of the
    run.

    Row r belongs to episode r + 1. The published code counts episodes from 1 and looks up row n
    of its array in episode n, so that the trap comes and goes one episode before a round number.
    """
    number = np.arange(1, episodes + 1)
    active = (number >= 0.2 * episodes) & (number < 0.8 * episodes)
    return np.stack([np.zeros(episodes), active], axis=1).astype(np.float32)


def trace_1(rows: int = 20 * MILLION) -> np.ndarray:
    """Slow drift about (-0.8, -0.9), diffusion 4.6e-4 per root step."""
    return _bridge_points(rows, number=1, diffusion=(4.6e-4, 4.6e-4))


def trace_2(rows: int = 20 * MILLION, draw: int = 0) -> np.ndarray:
    """Slow drift that swings through +-3.9, diffusion 5e-4 and 7.8e-4 per root step.

    `draw`: of the bridges between the digitised points, which the figure does not show; trace 2 has
    the first. Findings should not depend on it.
    """
    return _bridge_points(rows, number=2, diffusion=(5.0e-4, 7.8e-4), draw=draw)


def trace_3(rows: int = 8 * MILLION) -> np.ndarray:
    """Six constant winds with Gaussian noise of 0.075."""
    starts = np.array([0, 1_080_000, 2_154_000, 3_928_000, 5_421_000, 6_864_000])
    wx = [-0.378, 0.730, 0.586, 3.573, -0.443, -1.810]
    wy = [-1.044, -0.513, 0.780, -0.437, 0.038, -2.709]
    levels = generators.hold_levels(rows, starts, np.stack([wx, wy], axis=1))
    return generators.add_noise(levels, 0.075, np.random.default_rng(3))


def trace_4(rows: int = 8 * MILLION) -> np.ndarray:
    """Calm, then bursts in which the wind turns on a circle; Gaussian noise of 0.37 throughout."""
    starts = np.array([4_500_000, 6_500_000, 7_500_000])
    ends = np.array([6_000_000, 7_000_000, 8_000_000])
    axes = np.array([[-1.0, 0.0], [0.0, 1.0]])
    wind = generators.circles(rows, starts, ends, turn=500_000, radius=2.5, axes=axes)
    return generators.add_noise(wind, 0.37, np.random.default_rng(4))


def points(number: int) -> tuple[np.ndarray, np.ndarray]:
    """The digitised curve of trace 1 or 2: steps [P], winds [P, 2]."""
    file = importlib.resources.files("lcpo.contexts") / "data" / "traces-1-2.csv"
    with file.open("r") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)  # trace, million steps, wx, wy
    table = table[table[:, 0] == number]
    return np.rint(table[:, 1] * MILLION).astype(np.int64), table[:, 2:]


def _bridge_points(
    rows: int, number: int, diffusion: tuple[float, float], draw: int = 0
) -> np.ndarray:
    """Straight lines between the digitised points, plus Brownian bridges that vanish at them.

    Before the first point and after the last one the line is flat.
    """
    steps, winds = points(number)
    knots = np.unique(np.concatenate([[0], steps, [20 * MILLION]]))
    levels = np.stack([np.interp(knots, steps, w) for w in winds.T], axis=1)
    rng = np.random.default_rng([number, draw])
    out = np.empty((rows, 2), np.float32)
    for i in range(len(knots) - 1):
        start, end = knots[i], knots[i + 1]
        if start >= rows:
            break
        walk = np.cumsum(rng.standard_normal((end - start, 2), np.float32), axis=0, dtype=float)
        share = (np.arange(end - start) / (end - start))[:, None]
        bridge = np.concatenate([np.zeros((1, 2)), walk[:-1]]) - share * walk[-1]
        line = levels[i] + share * (levels[i + 1] - levels[i])
        out[start:end] = (line + np.asarray(diffusion) * bridge)[: rows - start]
    return out

"""LCPO's detector, simulated along the rows of a trace: how far its past reaches at each update."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lcpo.envs.base import trace_windows

MAX_UPDATES = 1000
"""Updates simulated; further ones are skipped, evenly."""


class Lookback(NamedTuple):
    """How LCPO looks back: sizes of the environment and of the agent."""

    rollout_length: int = 200
    lags: int = 3
    buffer_size: int | None = None
    """Of the reservoir; None: 1 % of the rows."""
    rounds: int = 5


def noise(values: np.ndarray, lookback: Lookback) -> float:
    """The 99th percentile of the distance between a context and the mean of its own rollout."""
    updates = sampled(len(values) // lookback.rollout_length)
    within = [_spread(_rollout(values, int(update), lookback)) for update in updates]
    return float(np.percentile(np.concatenate(within), 99))


def sampled(num_updates: int) -> np.ndarray:
    """The updates that are looked at: all, or evenly so many."""
    count = min(num_updates, MAX_UPDATES)
    return np.unique(np.linspace(0, num_updates - 1, count).round().astype(np.int64))


def _history_means(values: np.ndarray, index: np.ndarray, lags: int) -> np.ndarray:
    """Contexts as the detector sees them: means over the last `lags` rows."""
    return trace_windows(values, index, lags).mean(axis=1, dtype=np.float64)


def _rollout(values: np.ndarray, update: int, lookback: Lookback) -> np.ndarray:
    """The contexts of an update as the detector sees them."""
    index = update * lookback.rollout_length + np.arange(lookback.rollout_length)
    return _history_means(values, index, lookback.lags)


def _spread(contexts: np.ndarray) -> np.ndarray:
    """Distances to their mean."""
    return np.linalg.norm(contexts - contexts.mean(axis=0), axis=1)


def simulate(
    values: np.ndarray, updates: np.ndarray, lookback: Lookback, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(reach of each update, distances to the past, distances within the rollouts)."""
    length, lags, capacity, rounds = lookback
    assert capacity is not None
    rng = np.random.default_rng(seed)
    reach, distances, within = np.zeros(len(updates)), [], []
    for i, update in enumerate(updates):
        first = int(update) * length
        recent = _rollout(values, int(update), lookback)
        centre = recent.mean(axis=0)
        within.append(_spread(recent))
        if first == 0:
            continue  # nothing to look back on
        drawn = _draw(first, capacity, rounds * length, rng)
        found = np.linalg.norm(_history_means(values, drawn, lags) - centre, axis=1)
        reach[i] = np.partition(found, -length)[-length]
        distances.append(found)
    return reach, np.concatenate(distances), np.concatenate(within)


def _draw(seen: int, capacity: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn with replacement from a reservoir that has been offered rows 0 .. seen - 1."""
    if seen <= capacity:
        return rng.integers(0, seen, count)
    slots, which = np.unique(rng.integers(0, capacity, count), return_inverse=True)
    return rng.choice(seen, len(slots), replace=False)[which]

"""Timeouts by simulation: every fixed timeout is simulated, and the best one is chosen.

    fixed_latency     the latency of each timeout, by buckets of five minutes
    best_fixed        the timeout that is best overall
    schedule          the best one of each hour: the plan of `hedge-hourly`
    load_table        the best one at each load: the table of `hedge-table`

A plan is evaluated on other seeds than those that it was made from (`SEEDS`): the best of nine
timeouts on the same run would also be the luckiest.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from lcpo.straggler.latency import WINDOWS_PER_HOUR
from lcpo.straggler.task import BUCKET_MS, NEVER, TIMEOUTS_MS, WINDOW_MS, Straggler

SEEDS = (1_000_000, 1_000_001, 1_000_002, 1_000_003)
"""Seeds of the worlds that plans are made from; runs have seeds from 0 on."""
HOUR = WINDOWS_PER_HOUR
BUCKET = round(BUCKET_MS / WINDOW_MS)  # windows, too
LOADS = tuple(round(0.05 * i, 2) for i in range(1, 16))
NOTE_SECONDS = 5.0
Note = Callable[[str], object]  # called with the progress of a simulation every few seconds


def fixed_latency(
    task: Straggler, num_windows: int, seeds: Sequence[int] = SEEDS, note: Note = str
) -> np.ndarray:
    """The 95th percentile in ms, [actions, seeds, buckets], of the buckets of this many windows.

    NaN where no request arrived. Each cluster starts empty.
    """
    num_actions, names = task.spec.num_actions[0], task.spec.readings
    action = np.repeat(np.arange(num_actions), len(seeds))[:, None]
    worlds = task.open(len(action), [*seeds] * num_actions)
    worlds.reset(np.ones(len(action), bool))
    closed, p95 = names.index("buckets"), names.index("p95")
    found = np.full((num_windows // BUCKET, len(action)), np.nan)
    began = noted = time.monotonic()
    last = (len(found) + 1) * BUCKET  # a bucket is closed when the next one is over
    for window in range(1, last + 1):
        read = worlds.step(action, np.zeros((len(action), 0))).readings
        if window % BUCKET == 0 and window > BUCKET:
            found[window // BUCKET - 2] = np.where(read[:, closed] > 0, read[:, p95], np.nan)
            if time.monotonic() - noted > NOTE_SECONDS:
                noted = time.monotonic()
                left = (noted - began) * (last - window) / window
                note(f"fixed timeouts: {100 * window / last:.0f} %, {left:.0f} s left")
    return found.T.reshape(num_actions, len(seeds), -1)


def best_fixed(p95: np.ndarray) -> int:
    """The action with the lowest mean in `fixed_latency`; never hedge if there is no data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no requests: the mean of nothing
        mean = np.nanmean(p95, axis=(1, 2))
    return NEVER if np.isnan(mean).any() else int(np.argmin(mean))


def schedule(p95: np.ndarray, num_windows: int = HOUR) -> tuple[int, ...]:
    """The best action of each entry of this many windows, from `fixed_latency`.

    A bucket belongs to the entry in which its middle lies.
    """
    entry = (np.arange(p95.shape[2]) * BUCKET + BUCKET // 2) // num_windows
    return tuple(best_fixed(p95[:, :, entry == i]) for i in range(entry[-1] + 1))


def hourly_schedule(
    task: Straggler,
    num_hours: int,
    seeds: Sequence[int] = SEEDS,
    note: Note = str,
    num_windows: int = HOUR,
) -> tuple[int, ...]:
    """The plan of `hedge-hourly`: the best action of each of this many hours."""
    return schedule(fixed_latency(task, num_hours * num_windows, seeds, note), num_windows)


def load_table(
    size: float,
    size_cv: float,
    loads: Sequence[float] = LOADS,
    seeds: Sequence[int] = SEEDS,
    num_windows: int = 4 * HOUR,
    note: Note = str,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(loads, multiples) of `hedge-table`: the best timeout at each constant load.

    A row reaches half-way to the first load at which another timeout is better. The table ends at
    the first load at which it is better never to hedge.
    """
    poisson = Straggler(workload="poisson", size=size, size_cv=size_cv)
    service_ms = size * (1.0 + poisson.slow_share * (poisson.slow_factor - 1.0))
    best = []
    for load in loads:
        rate = load * poisson.num_servers * 1000.0 / service_ms
        task = dataclasses.replace(poisson, rate=rate)
        best.append(best_fixed(fixed_latency(task, num_windows, seeds, note)))
        note(f"load {load:g}: {TIMEOUTS_MS[best[-1]]:g} ms")
        if best[-1] == NEVER:
            break
    changes = [i for i in range(1, len(best)) if best[i] != best[i - 1]]
    edges = [round(0.5 * (loads[i - 1] + loads[i]), 3) for i in changes]
    rows = [best[0], *(best[i] for i in changes)]
    if rows[-1] == NEVER:
        rows.pop()
    else:
        edges.append(loads[len(best) - 1])
    return tuple(edges), tuple(round(TIMEOUTS_MS[row] / service_ms, 3) for row in rows)

"""One step of many worlds, compiled by numba: the events of a window, then what is observed.

    advance(rules, arrays, out, action, status, first, last)    a window of each of these worlds

A world whose status is not `DONE` afterwards stopped between two events, because it needs
something of the host; called again, it goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lcpo.envs.straggler import events, task
from lcpo.envs.straggler.events import (
    ANSWERED,
    AREA,
    ARRIVAL,
    BEHIND,
    HEAD,
    KIND,
    NEXT,
    NUM_DECAYS,
    NUM_WINDOWS,
    QUEUE,
    One,
    arrive,
    complete,
    count,
    hedge,
)
from lcpo.envs.straggler.task import NEVER

DONE, START, NEEDS_JOBS, NEEDS_ROOM, FULL = range(5)
"""Status: the window is over; it shall begin; it needs more jobs, or room for more answers; there
is no place for another copy."""

UNSAFE, SAFE, PENALTY = 50, 3, 3.0
"""The safety rule: hedging stops above 50 copies at one server, until none has more than 3; while
one has more than 50, latency counts threefold."""
_DECAYS = np.array([0.9, 0.99, 0.999])
_TINY = 1e-8


class Arrays(NamedTuple):
    """The state of N worlds; the first five are those of `One`."""

    world: Any  # [N] of WORLD
    server_f: np.ndarray  # [N, 3, S]
    server_i: np.ndarray  # [N, 3, S]
    copy_f: np.ndarray  # [N, K, 4]
    copy_i: np.ndarray  # [N, K, 5]
    jobs: np.ndarray  # [N, 2, B]: sizes and gaps of a block of jobs
    coins: np.ndarray  # [N, B]: bit 0: the first copy is slow, bit 1: the second
    answers: np.ndarray  # [N, 2, L]: latency and arrival of the requests answered in this window
    obs: np.ndarray  # [N, D]


OUT = np.dtype([("reward", "f4"), ("elapsed", "f4"), ("weight", "f4"), ("terminated", "?")])
"""What a step returns beside the observations."""


@njit
def _advance(
    rules: Any, arrays: Any, out: Any, action: Any, status: Any, first: int, last: int
) -> None:
    """Play a window of the worlds from `first` to `last` that are not `DONE`."""
    for i in range(first, last):
        if status[i] == DONE:
            continue
        one = One(
            arrays.world[i], arrays.server_f[i], arrays.server_i[i], arrays.copy_f[i],
            arrays.copy_i[i],
        )  # fmt: skip
        answers = arrays.answers[i]
        if status[i] == START:
            _begin(one)
        played = NEVER if one.w.unsafe else action[i]
        jobs = arrays.jobs[i]
        status[i] = _play(rules, one, played, jobs[0], jobs[1], arrays.coins[i], answers)
        if status[i] == DONE:
            _close(rules, one, answers, arrays.obs[i], out[i])


@njit
def _begin(one: Any) -> None:
    w = one.w
    w.began = w.clock
    w.num_answers, w.hedged_before = 0, w.hedged
    w.window = (w.window + 1) % NUM_WINDOWS
    w.sums[w.window, :] = 0.0
    one.server_f[AREA, :] = 0.0


@njit
def _play(
    rules: Any, one: Any, action: int, sizes: Any, gaps: Any, coins: Any, answers: Any
) -> int:
    """The events of a window. At equal times copies finish first, then come hedges."""
    w, upcoming = one.w, one.server_f[NEXT]
    end = w.base + rules.window
    server = _soonest(upcoming)
    while True:
        soonest = upcoming[server]
        event = w.hedge_time if w.hedge_time <= w.next_arrival else w.next_arrival
        finishes = soonest <= event
        if finishes:
            event = soonest
        if event > end and (not rules.late_windows or w.num_answers > 0):
            return DONE
        if finishes:
            if w.num_answers == answers.shape[1]:
                return NEEDS_ROOM
            complete(rules, one, answers, server)
            server = _soonest(upcoming)
        elif w.free < 0:
            return FULL
        elif w.hedge_time <= w.next_arrival:
            joined = hedge(rules, one)
            server = joined if upcoming[joined] < upcoming[server] else server
        else:
            place = w.job - w.block * len(sizes)
            if place == len(sizes):
                return NEEDS_JOBS
            joined = arrive(rules, one, action, sizes[place], gaps[place], coins[place])
            server = joined if upcoming[joined] < upcoming[server] else server
        w.clock = event


@njit(inline="always")
def _soonest(upcoming: Any) -> int:
    """The server at which the next copy finishes."""
    server, soonest = 0, np.inf
    for s in range(len(upcoming)):
        at = upcoming[s]
        server = s if at < soonest else server  # no branches: none could be foreseen
        soonest = at if at < soonest else soonest
    return server


@njit
def _close(rules: Any, one: Any, answers: Any, obs: Any, out: Any) -> None:
    """The window is over: reward, and the next observation."""
    w, queue = one.w, one.server_i[QUEUE]
    end = w.base + rules.window
    if not rules.late_windows:
        w.clock = w.base = end
    elif w.clock <= end:
        w.base = end
    else:
        w.base += w.clock - w.began
    elapsed = w.clock - w.began
    was_unsafe = w.unsafe
    deep = False
    for s in range(len(queue)):
        deep |= obs[2 * s] > UNSAFE
    w.p95 = _p95(answers[0, : w.num_answers]) if w.num_answers > 0 else _oldest(one)
    cost = w.p95 * (PENALTY if deep else 1.0) + rules.price * (w.hedged - w.hedged_before)
    for s in range(len(queue)):
        count(one, s, w.clock, 0)
        obs[2 * s] = queue[s]
        obs[2 * s + 1] = one.server_f[AREA, s] / elapsed if elapsed > 0.0 else queue[s]
    if not rules.future_sizes:
        w.sums[w.window, 1] = elapsed
    _workload(rules, w, len(queue), obs[2 * len(queue) :])
    longest = queue.max()
    w.unsafe = longest > UNSAFE or (w.unsafe and longest > SAFE)
    obs[-1] = 1.0 if w.unsafe else 0.0
    out.reward = -cost / rules.reward_ms
    out.elapsed = elapsed / rules.window
    out.weight = 0.0 if was_unsafe else 1.0
    out.terminated = rules.idle_terminal and longest == 0


@njit
def _p95(latencies: Any) -> float:
    """The 95th percentile, interpolated between two requests."""
    ordered = np.sort(latencies)
    rank = 0.95 * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


@njit
def _oldest(one: Any) -> float:
    """The age of the oldest request without an answer, 0 where there is none."""
    first = one.w.clock
    for s in range(one.server_i.shape[1]):
        copy = one.server_i[HEAD, s]
        while copy >= 0:
            if not one.copy_i[copy, KIND] & ANSWERED:
                first = min(first, one.copy_f[copy, ARRIVAL])
            copy = one.copy_i[copy, BEHIND]
    return one.w.clock - first


@njit
def _workload(rules: Any, w: Any, num_servers: int, obs: Any) -> None:
    """Rate and size of the last four windows, the largest of one window, load; their averages."""
    n = span = m = work = most_rate = most_size = 0.0
    for k in range(NUM_WINDOWS):
        row = w.sums[k]
        n, span, m, work = n + row[0], span + row[1], m + row[2], work + row[3]
        if row[1] > 0.0:
            most_rate = max(most_rate, row[0] / row[1])
        if row[2] > 0.0:
            most_size = max(most_size, row[3] / row[2])
    rate, size = n / (span + _TINY), work / (m + _TINY)
    load = work / (span + _TINY)
    if not rules.future_sizes:
        # Nothing has been served: what was last seen still stands.
        if m == 0.0:
            size = most_size = w.last_size
        w.last_size = size
        load = rate * size
    obs[0], obs[1] = rate / rules.rate_scale, size / rules.size_scale
    obs[2], obs[3] = most_rate / rules.rate_scale, most_size / rules.size_scale
    obs[4] = load / num_servers
    for k in range(NUM_DECAYS):
        w.ewma_weight[k] = _DECAYS[k] * w.ewma_weight[k] + 1.0
        for j in range(2):
            w.ewma[k, j] = _DECAYS[k] * w.ewma[k, j] + obs[j]
            obs[5 + 2 * k + j] = w.ewma[k, j] / w.ewma_weight[k]


def _with_cache() -> Any:
    """`advance`, compiled once per machine.

    numba's cache looks at the file of the function that it keeps, not at those of the functions
    which that calls. It looks at the variables of a closure, too: hence this one.
    """
    source = Path(events.__file__).read_bytes() + Path(task.__file__).read_bytes()
    of_what = hashlib.sha256(source).hexdigest()

    @njit(cache=True, nogil=True)
    def advance(
        rules: Any, arrays: Any, out: Any, action: Any, status: Any, first: int, last: int
    ) -> None:
        """Play a window of the worlds from `first` to `last` that are not `DONE`."""
        len(of_what)
        _advance(rules, arrays, out, action, status, first, last)

    return advance


advance = _with_cache()

"""One step of many worlds, compiled by numba: the events of a window, then what is observed.

    advance(rules, arrays, out, action, status, first, last)    a window of each of these worlds;
                                                                returns whether all are `DONE`

A world whose status is not `DONE` afterwards stopped between two events, because it needs something
from the host; the next call resumes it.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lcpo.straggler import buckets, events, task
from lcpo.straggler.events import ANSWERED, arrive, complete, count, hedge
from lcpo.straggler.task import NEVER, READINGS

DONE, START, NEEDS_JOBS, NEEDS_ROOM, FULL = range(5)
"""Status: the window is over; it has not begun; it needs more jobs, or room for more answers; there
is no place for another copy."""

UNSAFE, SAFE, PENALTY = 50, 3, 3.0
"""The safety rule: hedging stops above 50 copies at one server, until none has more than 3; while
one has more than 50, latency counts threefold."""
_DECAYS = np.array([0.9, 0.99, 0.999])
_TINY = 1e-8


class Arrays(NamedTuple):
    """The state of N worlds, each row of records that `events` explains."""

    world: Any  # [N] of WORLD
    servers: Any  # [N, S] of SERVER
    copies: Any  # [N, K] of COPY
    jobs: Any  # [N, B] of JOB: the block of jobs that a world is in
    answers: Any  # [N, L] of ANSWER: to the requests that were answered in this window
    buckets: Any  # [N, 2, B] int32: histograms of latencies
    obs: np.ndarray  # [N, D]


OUT = np.dtype(
    [("reward", "f4"), ("elapsed", "f4"), ("weight", "f4"), ("action", "i4"),
     ("readings", "f4", len(READINGS)), ("terminated", "?")],
    align=True,
)  # fmt: skip
"""What a step returns besides the observations."""


@njit
def _advance(
    rules: Any, arrays: Any, out: Any, action: Any, status: Any, first: int, last: int
) -> bool:
    """Simulate a window of the worlds from `first` to `last` that are not `DONE`; whether all
    are."""
    all_done = True
    for i in range(first, last):
        if status[i] == DONE:
            continue
        w, servers, copies = arrays.world[i], arrays.servers[i], arrays.copies[i]
        if status[i] == START:
            _begin(w, servers)
        played = NEVER if w.unsafe else action[i]
        answers = arrays.answers[i]
        status[i] = _play(rules, w, servers, copies, played, arrays.jobs[i], answers)
        if status[i] != DONE:
            all_done = False
            continue
        buckets.add(w, arrays.buckets[i], answers)
        _close(rules, w, servers, copies, answers, arrays.obs[i], out[i])
        buckets.close_one(w, arrays.buckets[i])
        out[i].action = played
        for k in range(len(READINGS)):
            out[i].readings[k] = w.readings[k]
    return all_done


@njit
def _begin(w: Any, servers: Any) -> None:
    w.began = w.clock
    w.played += 1
    w.num_answers, w.hedged_before = 0, w.hedged
    w.readings[:] = 0.0
    w.readings[events.UNSAFE] = 1.0 if w.unsafe else 0.0
    w.window = (w.window + 1) % events.NUM_WINDOWS
    w.sums[w.window, :] = 0.0
    for s in range(len(servers)):
        servers[s].area = 0.0


@njit
def _play(
    rules: Any, w: Any, servers: Any, copies: Any, action: int, jobs: Any, answers: Any
) -> int:
    """The events of a window. At equal times copies finish first, then come hedges."""
    end, s = w.base + rules.window, _soonest(servers)
    while True:
        event = w.hedge_time if w.hedge_time <= w.next_arrival else w.next_arrival
        finishes = servers[s].next_finish <= event
        if finishes:
            event = servers[s].next_finish
        if event > end and (not rules.late_windows or w.num_answers > 0):
            return DONE
        if finishes:
            if w.num_answers == len(answers):
                return NEEDS_ROOM
            complete(rules, w, servers, copies, answers, s)
            s = _soonest(servers)
        elif w.free < 0:
            return FULL
        else:
            if w.hedge_time <= w.next_arrival:
                joined = hedge(rules, w, servers, copies)
            else:
                place = w.job - w.block * len(jobs)
                if place == len(jobs):
                    return NEEDS_JOBS
                joined = arrive(rules, w, servers, copies, action, jobs[place])
            s = joined if servers[joined].next_finish < servers[s].next_finish else s
        w.clock = event


@njit
def _soonest(servers: Any) -> int:
    """The server at which the next copy finishes."""
    best, soonest = 0, np.inf
    for s in range(len(servers)):
        at = servers[s].next_finish
        best = s if at < soonest else best  # no branches: none could be foreseen
        soonest = at if at < soonest else soonest
    return best


@njit
def _close(rules: Any, w: Any, servers: Any, copies: Any, answers: Any, obs: Any, out: Any) -> None:
    """The window is over: reward, and the next observation."""
    end = w.base + rules.window
    if not rules.late_windows:
        w.clock = w.base = end
    elif w.clock <= end:
        w.base = end
    else:
        w.base += w.clock - w.began
    elapsed, was_unsafe = w.clock - w.began, w.unsafe
    w.p95 = _p95(answers, w.num_answers) if w.num_answers > 0 else _oldest(w, servers, copies)
    longest_before = longest = 0.0
    for s in range(len(servers)):
        server = servers[s]
        count(server, w.clock, 0)
        longest_before = max(longest_before, obs[2 * s])
        longest = max(longest, server.queue)
        obs[2 * s] = server.queue
        obs[2 * s + 1] = server.area / elapsed if elapsed > 0.0 else server.queue
    if not rules.future_sizes:
        w.sums[w.window, 1] = elapsed
    _workload(rules, w, len(servers), obs[2 * len(servers) :])
    w.unsafe = longest > UNSAFE or (w.unsafe and longest > SAFE)
    obs[-1] = 1.0 if w.unsafe else 0.0
    latency = w.p95 * PENALTY if longest_before > UNSAFE else w.p95
    out.reward = -(latency + rules.price * (w.hedged - w.hedged_before)) / rules.reward_ms
    out.elapsed = elapsed / rules.window
    out.weight = 0.0 if was_unsafe else 1.0
    out.terminated = rules.idle_terminal and longest == 0.0


@njit
def _p95(answers: Any, num_answers: int) -> float:
    """The 95th percentile of the latencies, interpolated between two requests.

    It moves the largest latencies to the end one by one: with ten requests, two moves suffice.
    """
    rank = 0.95 * (num_answers - 1)
    low, above = math.floor(rank), 0.0
    for last in range(num_answers - 1, low - 1, -1):
        largest = last
        for k in range(last):
            largest = k if answers[k].latency > answers[largest].latency else largest
        a, b = answers[largest], answers[last]
        a.latency, b.latency = b.latency, a.latency
        a.arrival, b.arrival = b.arrival, a.arrival
        if last == low + 1:
            above = b.latency
    at = answers[low].latency
    return at + (rank - low) * (above - at) if rank > low else at


@njit
def _oldest(w: Any, servers: Any, copies: Any) -> float:
    """The age of the oldest request without an answer, 0 where there is none."""
    first = w.clock
    for s in range(len(servers)):
        place = servers[s].head
        while place >= 0:
            if not copies[place].kind & ANSWERED:
                first = min(first, copies[place].arrival)
            place = copies[place].behind
    return w.clock - first


@njit
def _workload(rules: Any, w: Any, num_servers: int, obs: Any) -> None:
    """Rate and size of the last four windows, the largest of one window, load; their averages."""
    n = span = m = work = most_rate = most_size = 0.0
    for k in range(events.NUM_WINDOWS):
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
    for k in range(events.NUM_DECAYS):
        w.ewma_weight[k] = _DECAYS[k] * w.ewma_weight[k] + 1.0
        for j in range(2):
            w.ewma[k, j] = _DECAYS[k] * w.ewma[k, j] + obs[j]
            obs[5 + 2 * k + j] = w.ewma[k, j] / w.ewma_weight[k]


def _with_cache() -> Any:
    """`advance`, compiled once per machine.

    numba's cache checks the file of the cached function, but not the files of the functions it
    calls. It also checks the variables of a closure: hence this one.
    """
    source = b"".join(Path(str(m.__file__)).read_bytes() for m in (buckets, events, task))
    of_what = hashlib.sha256(source).hexdigest()

    @njit(cache=True, nogil=True)
    def advance(
        rules: Any, arrays: Any, out: Any, action: Any, status: Any, first: int, last: int
    ) -> bool:
        """Simulate a window of the worlds from `first` to `last` that are not `DONE`."""
        len(of_what)
        return _advance(rules, arrays, out, action, status, first, last)

    return advance


advance = _with_cache()

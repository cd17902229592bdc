"""The events of one world, compiled by numba: a request arrives, is hedged, a copy finishes.

A copy of a request occupies one of `max_copies` places. Each server has a list of its copies,
first come first served; each timeout has a list of the first copies that will be hedged, which is
in the order of time because they all wait equally long. When a copy finishes is known when it
joins a queue, unless losers are cancelled. So a request is to be hedged if its first copy will
finish after the timeout, which is known at its arrival.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lcpo.straggler.task import NEVER, READINGS, TIMEOUTS_MS

TIMEOUTS = np.array(TIMEOUTS_MS)
NUM_WINDOWS = 4  # windows that the newest features look back on
NUM_DECAYS = 3
ARRIVED, HEDGED, FIRST_MS, WORK_MS, UNSAFE, SERVED, SERVICE_MS, SLOWER = range(8)
"""Indices of readings; "slower" has several."""

_SECOND, ANSWERED, _WAITS, _SLOW_SECOND = 1, 2, 4, 8
"""Flags of a copy: it is the second one; its request has been answered; it will be hedged; the
second one will be slow."""

WORLD = np.dtype(
    [
        ("seed", "u8"), ("clock", "f8"), ("base", "f8"), ("began", "f8"),
        ("job", "i8"), ("block", "i8"), ("block_time", "f8"), ("next_arrival", "f8"),
        ("free", "i8"), ("hedge_time", "f8"), ("hedge_list", "i8"),
        ("hedge_head", "i8", NEVER), ("hedge_tail", "i8", NEVER),
        ("arrived", "i8"), ("hedged", "i8"), ("answered", "i8"), ("finished", "i8"),
        ("cancelled", "i8"), ("hedged_before", "i8"), ("num_answers", "i8"), ("p95", "f8"),
        ("window", "i8"), ("sums", "f8", (NUM_WINDOWS, 4)), ("last_size", "f8"),
        ("ewma", "f8", (NUM_DECAYS, 2)), ("ewma_weight", "f8", NUM_DECAYS),
        ("bucket", "i8"), ("newer", "i8"), ("played", "i8"), ("episode", "i8"), ("means", "f8", 2),
        ("readings", "f8", len(READINGS)), ("unsafe", "?"),
    ],
    align=True,
)  # fmt: skip
"""A world: its clock, the jobs ahead, counts since the beginning, moving averages, the bucket that
it is in, windows of this episode, episodes, means of all jobs, readings of the window."""

SERVER = np.dtype(
    [("next_finish", "f8"), ("area", "f8"), ("since", "f8"),
     ("queue", "i4"), ("head", "i4"), ("tail", "i4"), ("losers", "i4")],
    align=True,
)  # fmt: skip
"""A server: when its next copy finishes; the integral of its queue over the window, until `since`;
the number of its copies, the first and the last of them; how many belong to answered requests."""

COPY = np.dtype(
    [("finish", "f8"), ("service", "f8"), ("arrival", "f8"), ("size", "f8"),
     ("server", "i4"), ("behind", "i4"), ("later", "i4"), ("twin", "i4"), ("kind", "i4")],
    align=True,
)  # fmt: skip
"""A copy: `arrival` and `size` are those of its request; `behind` is next in its queue, or in the
list of free places, `later` next to be hedged, `twin` the other copy; `kind` are its bits."""

JOB = np.dtype([("size", "f8"), ("gap", "f8"), ("slow", "?"), ("second_slow", "?")], align=True)
"""A request, the time until the next one arrives, and whether its copies will be slow."""

ANSWER = np.dtype([("latency", "f8"), ("arrival", "f8")])


class Rules(NamedTuple):
    """What does not change while worlds run."""

    window: float
    slow_factor: float
    slow_share: float
    slow_ms: float
    price: float
    reward_ms: float
    rate_scale: float
    size_scale: float
    cancel: bool
    late_windows: bool
    future_sizes: bool
    idle_terminal: bool
    declared_sizes: bool
    losers_unseen: bool


@njit
def _shortest(rules: Any, servers: Any, other_than: int) -> int:
    """The server with the fewest copies, as far as the proxy sees them; the first of these."""
    best, fewest = -1, 2**31
    for s in range(len(servers)):
        seen = servers[s].queue - servers[s].losers if rules.losers_unseen else servers[s].queue
        queue = seen if s != other_than else 2**31
        best = s if queue < fewest else best  # no branches: none could be foreseen
        fewest = min(queue, fewest)
    return best


@njit
def _is_slow_server(rules: Any, seed: Any, server: int, now: float) -> bool:
    """Whether a server is slow now: a function of seed, server and period (splitmix64)."""
    period = math.floor(now / rules.slow_ms) * 1024 + server
    z = np.uint64(seed) + np.uint64(period + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53 < rules.slow_share


@njit
def count(server: Any, now: float, change: int) -> None:
    """A queue changes: its integral over time is updated."""
    server.area += server.queue * (now - server.since)
    server.since = now
    server.queue += change


@njit
def _join(
    rules: Any, w: Any, servers: Any, copies: Any, s: int, now: float, size: float, slow: bool
) -> int:
    """A copy joins the queue of server `s`, in a free place: which is returned."""
    if rules.slow_ms > 0.0:
        slow = _is_slow_server(rules, w.seed, s, now)
    server, place = servers[s], w.free
    copy, last = copies[place], server.tail
    copy.service = size * rules.slow_factor if slow else size
    copy.size, copy.server, copy.twin = size, s, -1
    w.free = copy.behind
    copy.behind = -1
    if last < 0:
        copy.finish = now + copy.service
        server.head, server.next_finish = place, copy.finish
    else:
        copy.finish = copies[last].finish + copy.service
        copies[last].behind = place
    server.tail = place
    count(server, now, 1)
    return place


@njit
def _find_hedge(w: Any, copies: Any) -> None:
    """The next hedge: of the heads of all lists, that which is due first."""
    w.hedge_time = np.inf
    for i in range(NEVER):
        place = w.hedge_head[i]
        if place >= 0 and copies[place].arrival + TIMEOUTS[i] < w.hedge_time:
            w.hedge_time, w.hedge_list = copies[place].arrival + TIMEOUTS[i], i


@njit
def arrive(rules: Any, w: Any, servers: Any, copies: Any, action: int, job: Any) -> int:
    """A request arrives: its first copy joins the shortest queue, and may be hedged later.

    This and `hedge` return the server that was joined.
    """
    now, s = w.next_arrival, _shortest(rules, servers, -1)
    place = _join(rules, w, servers, copies, s, now, job.size, job.slow)
    copy, wait = copies[place], TIMEOUTS[action]
    copy.arrival = now
    copy.kind = _SLOW_SECOND if job.second_slow else 0
    if wait > 0.0 and now + wait < copy.finish and len(servers) > 1:
        copy.kind |= _WAITS
        copy.later = -1
        if w.hedge_head[action] < 0:
            w.hedge_head[action] = place
        else:
            copies[w.hedge_tail[action]].later = place
        w.hedge_tail[action] = place
        if now + wait < w.hedge_time:
            w.hedge_time, w.hedge_list = now + wait, action
    w.arrived += 1
    w.readings[ARRIVED] += 1.0
    w.readings[FIRST_MS] += copy.service
    w.readings[WORK_MS] += copy.service
    w.job += 1
    w.next_arrival = now + job.gap
    w.sums[w.window, 0] += 1.0
    if rules.future_sizes:
        w.sums[w.window, 1] += job.gap
        w.sums[w.window, 2] += 1.0
        w.sums[w.window, 3] += copy.service
    elif rules.declared_sizes:
        w.sums[w.window, 2] += 1.0
        w.sums[w.window, 3] += job.size
    return s


@njit
def hedge(rules: Any, w: Any, servers: Any, copies: Any) -> int:
    """A request is still unanswered at its timeout: a second copy, at another server."""
    place = w.hedge_head[w.hedge_list]
    first = copies[place]
    w.hedge_head[w.hedge_list] = first.later
    s, slow = _shortest(rules, servers, first.server), (first.kind & _SLOW_SECOND) != 0
    twin = _join(rules, w, servers, copies, s, w.hedge_time, first.size, slow)
    second = copies[twin]
    second.arrival, second.kind, second.twin = first.arrival, _SECOND, place
    first.kind, first.twin = first.kind & ~_WAITS, twin
    w.hedged += 1
    w.readings[HEDGED] += 1.0
    w.readings[WORK_MS] += second.service
    _find_hedge(w, copies)
    return s


@njit
def _withdraw_hedge(w: Any, copies: Any, place: int) -> None:
    """A request was answered before its timeout, thanks to a cancelled copy ahead of it."""
    for i in range(NEVER):
        before, found = -1, w.hedge_head[i]
        while found >= 0 and found != place:
            before, found = found, copies[found].later
        if found == place:
            if before < 0:
                w.hedge_head[i] = copies[place].later
            else:
                copies[before].later = copies[place].later
            if w.hedge_tail[i] == place:
                w.hedge_tail[i] = before
    _find_hedge(w, copies)


@njit
def _cancel(w: Any, servers: Any, copies: Any, place: int, now: float) -> None:
    """A copy leaves its queue, or its server; those behind it move up."""
    copy = copies[place]
    server = servers[copy.server]
    before, found = -1, server.head
    while found != place:
        before, found = found, copies[found].behind
    follower = copy.behind
    if before < 0:
        server.head = follower
        free_at = now
    else:
        copies[before].behind = follower
        free_at = copies[before].finish
    if follower < 0:
        server.tail = before
    while follower >= 0:
        free_at += copies[follower].service
        copies[follower].finish = free_at
        follower = copies[follower].behind
    server.next_finish = copies[server.head].finish if server.head >= 0 else np.inf
    count(server, now, -1)
    copy.behind, w.free = w.free, place
    w.cancelled += 1
    w.readings[WORK_MS] -= min(copy.service, copy.finish - now)  # a part may be done


@njit
def complete(rules: Any, w: Any, servers: Any, copies: Any, answers: Any, s: int) -> None:
    """Server `s` has served a copy. If it is the first of its request, that is answered."""
    server = servers[s]
    now, place = server.next_finish, server.head
    copy = copies[place]
    server.head = copy.behind
    if server.head >= 0:
        server.next_finish = copies[server.head].finish
    else:
        server.next_finish, server.tail = np.inf, -1
    count(server, now, -1)
    w.finished += 1
    if not copy.kind & _SECOND:
        w.readings[SERVED] += 1.0
        w.readings[SERVICE_MS] += copy.service
        for k in range(NEVER):
            w.readings[SLOWER + k] += 1.0 if now - copy.arrival > TIMEOUTS[k] else 0.0
    if not (rules.future_sizes or rules.declared_sizes or copy.kind & _SECOND):
        w.sums[w.window, 2] += 1.0
        w.sums[w.window, 3] += copy.service
    if copy.kind & _WAITS:
        _withdraw_hedge(w, copies, place)
    if not copy.kind & ANSWERED:
        answer = answers[w.num_answers]
        answer.latency, answer.arrival = now - copy.arrival, copy.arrival
        w.num_answers += 1
        w.answered += 1
        if copy.twin >= 0 and rules.cancel:
            _cancel(w, servers, copies, copy.twin, now)
        elif copy.twin >= 0:
            copies[copy.twin].kind |= ANSWERED
            servers[copies[copy.twin].server].losers += 1
    else:
        server.losers -= 1
    copy.behind, w.free = w.free, place

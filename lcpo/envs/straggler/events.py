"""The events of one world, compiled by numba: a request arrives, is hedged, a copy finishes.

A copy of a request stands in one of `max_copies` places. Each server has a list of its copies,
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

from lcpo.envs.straggler.task import NEVER, TIMEOUTS_MS

TIMEOUTS = np.array(TIMEOUTS_MS)
NUM_WINDOWS = 4
"""Windows that the newest features look back on."""
NUM_DECAYS = 3

_SECOND, ANSWERED, _WAITS, _SLOW_SECOND = 1, 2, 4, 8
"""Bits of a copy: it is the second one; its request has been answered; it will be hedged; the
second one will be slow."""
FINISH, SERVICE, ARRIVAL, SIZE = range(4)
SERVER, BEHIND, LATER, TWIN, KIND = range(5)
AREA, SINCE, NEXT = range(3)
QUEUE, HEAD, TAIL = range(3)

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
        ("unsafe", "?"),
    ],
    align=True,
)  # fmt: skip
"""Scalars of a world: its clock, the jobs ahead, counts since the beginning, moving averages."""


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


class One(NamedTuple):
    """The rows of one world."""

    w: Any  # a WORLD
    server_f: Any  # [3, S]: queue integrated over the window, until when; next finish
    server_i: Any  # [3, S]: copies in the queue, the first and the last of them
    copy_f: Any  # [K, 4]: finish, service time, arrival of the request, its size
    copy_i: Any  # [K, 5]: server, next in its queue, next to be hedged, the twin, bits


@njit(inline="always")
def _shortest(server_i: Any, other_than: int) -> int:
    """The server with the fewest copies, the first of these."""
    best, fewest = -1, 2**31
    for s in range(server_i.shape[1]):
        copies = server_i[QUEUE, s] if s != other_than else 2**31
        best = s if copies < fewest else best  # no branches: none could be foreseen
        fewest = min(copies, fewest)
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


@njit(inline="always")
def count(one: Any, server: int, now: float, change: int) -> None:
    """A queue changes: its integral over time is brought up to now."""
    server_f, server_i = one.server_f, one.server_i
    server_f[AREA, server] += server_i[QUEUE, server] * (now - server_f[SINCE, server])
    server_f[SINCE, server] = now
    server_i[QUEUE, server] += change


@njit(inline="always")
def _join(rules: Any, one: Any, server: int, now: float, size: float, slow: bool) -> int:
    """A copy joins a queue, in a free place: which is returned."""
    w, copy_f, copy_i, server_i = one.w, one.copy_f, one.copy_i, one.server_i
    if rules.slow_ms > 0.0:
        slow = _is_slow_server(rules, w.seed, server, now)
    service = size * rules.slow_factor if slow else size
    copy, last = w.free, server_i[TAIL, server]
    w.free = copy_i[copy, BEHIND]
    copy_i[copy, BEHIND] = -1
    if last < 0:
        copy_f[copy, FINISH] = now + service
        server_i[HEAD, server] = copy
        one.server_f[NEXT, server] = now + service
    else:
        copy_f[copy, FINISH] = copy_f[last, FINISH] + service
        copy_i[last, BEHIND] = copy
    server_i[TAIL, server] = copy
    count(one, server, now, 1)
    copy_f[copy, SERVICE], copy_f[copy, SIZE] = service, size
    copy_i[copy, SERVER], copy_i[copy, TWIN] = server, -1
    return copy


@njit
def _find_hedge(one: Any) -> None:
    """The next hedge: of the heads of all lists, that which is due first."""
    w = one.w
    w.hedge_time = np.inf
    for i in range(NEVER):
        copy = w.hedge_head[i]
        if copy >= 0 and one.copy_f[copy, ARRIVAL] + TIMEOUTS[i] < w.hedge_time:
            w.hedge_time, w.hedge_list = one.copy_f[copy, ARRIVAL] + TIMEOUTS[i], i


@njit(inline="always")
def arrive(rules: Any, one: Any, action: int, size: float, gap: float, coin: int) -> int:
    """A request arrives: its first copy joins the shortest queue, and may be hedged later.

    This and `hedge` return the server that was joined.
    """
    w, now = one.w, one.w.next_arrival
    server = _shortest(one.server_i, -1)
    copy = _join(rules, one, server, now, size, (coin & 1) != 0)
    one.copy_f[copy, ARRIVAL] = now
    kind = _SLOW_SECOND if coin & 2 else 0
    wait = TIMEOUTS[action]
    if wait > 0.0 and now + wait < one.copy_f[copy, FINISH] and one.server_i.shape[1] > 1:
        kind |= _WAITS
        one.copy_i[copy, LATER] = -1
        if w.hedge_head[action] < 0:
            w.hedge_head[action] = copy
        else:
            one.copy_i[w.hedge_tail[action], LATER] = copy
        w.hedge_tail[action] = copy
        if now + wait < w.hedge_time:
            w.hedge_time, w.hedge_list = now + wait, action
    one.copy_i[copy, KIND] = kind
    w.arrived += 1
    w.job += 1
    w.next_arrival = now + gap
    w.sums[w.window, 0] += 1.0
    if rules.future_sizes:
        w.sums[w.window, 1] += gap
        w.sums[w.window, 2] += 1.0
        w.sums[w.window, 3] += one.copy_f[copy, SERVICE]
    return server


@njit(inline="always")
def hedge(rules: Any, one: Any) -> int:
    """A request is still unanswered at its timeout: a second copy, at another server."""
    w, now, copy_i = one.w, one.w.hedge_time, one.copy_i
    first = w.hedge_head[w.hedge_list]
    w.hedge_head[w.hedge_list] = copy_i[first, LATER]
    slow = (copy_i[first, KIND] & _SLOW_SECOND) != 0
    server = _shortest(one.server_i, copy_i[first, SERVER])
    second = _join(rules, one, server, now, one.copy_f[first, SIZE], slow)
    one.copy_f[second, ARRIVAL] = one.copy_f[first, ARRIVAL]
    copy_i[first, KIND] &= ~_WAITS
    copy_i[second, KIND] = _SECOND
    copy_i[first, TWIN], copy_i[second, TWIN] = second, first
    w.hedged += 1
    _find_hedge(one)
    return server


@njit
def _withdraw_hedge(one: Any, copy: int) -> None:
    """A request was answered before its timeout, thanks to a cancelled copy ahead of it."""
    w, later = one.w, one.copy_i[:, LATER]
    for i in range(NEVER):
        before, found = -1, w.hedge_head[i]
        while found >= 0 and found != copy:
            before, found = found, later[found]
        if found == copy:
            if before < 0:
                w.hedge_head[i] = later[copy]
            else:
                later[before] = later[copy]
            if w.hedge_tail[i] == copy:
                w.hedge_tail[i] = before
    _find_hedge(one)


@njit
def _cancel(one: Any, copy: int, now: float) -> None:
    """A copy leaves its queue, or its server; those behind it move up."""
    finish, behind = one.copy_f[:, FINISH], one.copy_i[:, BEHIND]
    server = one.copy_i[copy, SERVER]
    before, found = -1, one.server_i[HEAD, server]
    while found != copy:
        before, found = found, behind[found]
    follower = behind[copy]
    if before < 0:
        one.server_i[HEAD, server] = follower
        free_at = now
    else:
        behind[before] = follower
        free_at = finish[before]
    if follower < 0:
        one.server_i[TAIL, server] = before
    while follower >= 0:
        free_at += one.copy_f[follower, SERVICE]
        finish[follower] = free_at
        follower = behind[follower]
    head = one.server_i[HEAD, server]
    one.server_f[NEXT, server] = finish[head] if head >= 0 else np.inf
    count(one, server, now, -1)
    behind[copy], one.w.free = one.w.free, copy
    one.w.cancelled += 1


@njit(inline="always")
def complete(rules: Any, one: Any, answers: Any, server: int) -> None:
    """A copy has been served. If it is the first of its request, that is answered."""
    w, copy_i, now = one.w, one.copy_i, one.server_f[NEXT, server]
    copy = one.server_i[HEAD, server]
    head = copy_i[copy, BEHIND]
    one.server_i[HEAD, server] = head
    one.server_f[NEXT, server] = one.copy_f[head, FINISH] if head >= 0 else np.inf
    if head < 0:
        one.server_i[TAIL, server] = -1
    count(one, server, now, -1)
    kind = copy_i[copy, KIND]
    w.finished += 1
    if not (rules.future_sizes or kind & _SECOND):
        w.sums[w.window, 2] += 1.0
        w.sums[w.window, 3] += one.copy_f[copy, SERVICE]
    if kind & _WAITS:
        _withdraw_hedge(one, copy)
    if not kind & ANSWERED:
        arrival = one.copy_f[copy, ARRIVAL]
        answers[0, w.num_answers], answers[1, w.num_answers] = now - arrival, arrival
        w.num_answers += 1
        w.answered += 1
        twin = copy_i[copy, TWIN]
        if twin >= 0 and rules.cancel:
            _cancel(one, twin, now)
        elif twin >= 0:
            copy_i[twin, KIND] |= ANSWERED
    copy_i[copy, BEHIND], w.free = w.free, copy

"""Latencies in buckets of five minutes, compiled by numba: a histogram instead of a growing list.

A bucket holds the requests that arrived in five minutes. Two are open, the current one and the one
before, so that requests in flight can finish; requests that take even longer count in the older
one. Bins are so narrow that their middle is within 0.2 % of every latency in them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from lcpo.straggler.task import BUCKET_MS, PERCENTILES, READINGS

_SHORTEST, _LONGEST = 0.1, 1e7  # milliseconds; what lies beyond counts in the first or the last bin
_DROPPED = 44
"""Low bits of a latency (of 64) that are dropped. The rest, its exponent and the first 8 bits of
the mantissa, is the index of its bin: 256 between each power of two and the next. It takes no
logarithm."""
_FIRST, _LAST = (np.array([_SHORTEST, _LONGEST]).view(np.int64) >> _DROPPED).tolist()
NUM_BINS = _LAST - _FIRST + 1
_CLOSED = READINGS.index("buckets")


@njit
def add(w: Any, histograms: Any, answers: Any) -> None:
    """Add the answers of a window to histograms [2, B]; `w.newer` is the newer one."""
    for k in range(w.num_answers):
        answer = answers[k]
        latency = np.float64(min(max(answer.latency, _SHORTEST), _LONGEST))
        place = (latency.view(np.int64) >> _DROPPED) - _FIRST
        late = answer.arrival < w.bucket * BUCKET_MS
        histograms[1 - w.newer if late else w.newer, place] += 1


@njit
def close_one(w: Any, histograms: Any) -> None:
    """When a bucket begins, close the older one and read its percentiles."""
    if w.clock < (w.bucket + 1) * BUCKET_MS:
        return
    w.bucket = math.floor(w.clock / BUCKET_MS)  # late windows, a published fault, may pass some
    w.newer = 1 - w.newer
    histogram, count = histograms[w.newer], 0
    for k in range(NUM_BINS):
        count += histogram[k]
    if count > 0:
        w.readings[_CLOSED] = 1.0
        for k in range(len(PERCENTILES)):
            rank = PERCENTILES[k] * (count - 1)
            w.readings[_CLOSED + 1 + k] = _latency_at(histogram, rank)
        histogram[:] = 0


@njit
def _latency_at(histogram: Any, rank: float) -> float:
    """The latency at a rank (from 0), interpolated between two requests."""
    whole = math.floor(rank)
    place, upto = 0, histogram[0]
    while upto <= whole:
        place += 1
        upto += histogram[place]
    at = above = _middle(place)
    if rank > whole and upto == whole + 1:
        place += 1
        while histogram[place] == 0:
            place += 1
        above = _middle(place)
    return at + (rank - whole) * (above - at)


@njit
def _middle(place: int) -> float:
    bits = np.int64(((_FIRST + place) << _DROPPED) + (1 << (_DROPPED - 1)))
    return bits.view(np.float64)

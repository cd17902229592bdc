"""Latencies by five minutes, compiled by numba: a histogram in place of a list that would grow.

A bucket holds the requests that arrived in five minutes. Two are open, this one and the one before,
so that requests which are under way can end; what takes even longer counts in the older of them.
Bins are so narrow that the middle of one is within 0.2 % of whatever is in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from lcpo.straggler.task import BUCKET_MS, PERCENTILES, READINGS

_SHORTEST, _LONGEST = 0.1, 1e7  # milliseconds; what lies beyond counts in the first or the last bin
_DROPPED = 44
"""Of the 64 bits of a latency. What is left, its exponent and the first 8 bits after that, is the
number of its bin: 256 between each power of two and the next. It takes no logarithm."""
_FIRST, _LAST = (np.array([_SHORTEST, _LONGEST]).view(np.int64) >> _DROPPED).tolist()
NUM_BINS = _LAST - _FIRST + 1
_CLOSED = READINGS.index("buckets")


@njit
def add(w: Any, histograms: Any, answers: Any) -> None:
    """Count the answers of a window in histograms [2, B], of which `w.newer` is the newer."""
    for k in range(w.num_answers):
        answer = answers[k]
        latency = np.float64(min(max(answer.latency, _SHORTEST), _LONGEST))
        place = (latency.view(np.int64) >> _DROPPED) - _FIRST
        late = answer.arrival < w.bucket * BUCKET_MS
        histograms[1 - w.newer if late else w.newer, place] += 1


@njit
def close_one(w: Any, histograms: Any) -> None:
    """When a bucket begins, the older one is closed: its percentiles are read."""
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
    """The latency at a rank from 0 on; between two requests it is interpolated."""
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

"""The interface of a workload to a simulator, and workloads from a list of jobs.

A job has a size (how long a server works on it) and a gap (how long after it the next one
arrives), both in milliseconds. Job 0 arrives at time 0. After the last job of a pass the workload
starts over.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Protocol, Self

import numpy as np

from lcpo.errors import InputError
from lcpo.values import number, whole

SECOND = 1000.0
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE  # in milliseconds, as all times are
LAST_INDEX = 2**53  # indices of jobs are exact in float64
FEWEST_JOBS = 100  # jobs in a pass
PIECE = MINUTE
"""A shortened workload of given jobs keeps whole pieces of this length, so that bursts remain."""
FEWEST_PIECES = 10
SHARES, SCALES, FACTORS = (1e-9, 1.0), (1e-9, 1e9), (1.0, 1e6)
"""Bounds of shares of a pass, of factors that scale it, and of those that shorten it."""


class Means(NamedTuple):
    """Means of some jobs, in milliseconds."""

    size: float
    gap: float


class Profile(NamedTuple):
    """What to expect of one pass, in windows of equal length."""

    window: float  # its length in milliseconds
    jobs: np.ndarray  # [W], how many jobs arrive in it
    size: np.ndarray  # [W], their mean size in milliseconds; 0 where there are none

    @property
    def rate(self) -> np.ndarray:
        """[W], jobs per second."""
        return self.jobs / (self.window / SECOND)

    @property
    def hours(self) -> np.ndarray:
        """[W], the middle of each window."""
        return (np.arange(len(self.jobs)) + 0.5) * (self.window / HOUR)


class Workload(Protocol):
    """Jobs by index. A job depends on its index and the seed only."""

    @property
    def name(self) -> str: ...

    @property
    def length(self) -> float:
        """Length of a pass, in milliseconds."""
        ...

    def jobs(self, first: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Sizes [count] and gaps [count] of the jobs from `first` on: float64, milliseconds."""
        ...

    def num_jobs(self, seed: int) -> int:
        """Number of jobs in every pass."""
        ...

    def means(self, share: float = 1.0) -> Means:
        """Means over the first `share` of the jobs of a pass, and over all seeds."""
        ...

    def profile(self) -> Profile:
        """Rate and mean size over a pass, for all seeds."""
        ...

    def scale(self, rate: float = 1.0, size: float = 1.0) -> Self:
        """`rate` times as many jobs per second, each `size` times as large."""
        ...

    def shorten(self, factor: float) -> Self:
        """A pass in 1/factor of the time, at the same rates and sizes: with fewer jobs."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """Jobs from a list, the same for every seed and in every pass."""

    name: str
    sizes: np.ndarray  # [N]
    gaps: np.ndarray  # [N]

    @property
    def length(self) -> float:
        return float(self.gaps.sum())

    def jobs(self, first: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        first, count, _ = check_request(first, count, seed)
        index = np.arange(first, first + count) % len(self.sizes)
        return self.sizes[index].astype(np.float64), self.gaps[index].astype(np.float64)

    def num_jobs(self, seed: int) -> int:
        return len(self.sizes)

    def means(self, share: float = 1.0) -> Means:
        count = math.ceil(number("share", share, *SHARES) * len(self.sizes))
        return Means(float(self.sizes[:count].mean()), float(self.gaps[:count].mean()))

    def profile(self) -> Profile:
        """In windows of about a minute, of which a pass has a whole number."""
        num_windows = max(round(self.length / MINUTE), 1)
        window = self.length / num_windows
        index = np.minimum((self._arrivals() / window).astype(np.int64), num_windows - 1)
        jobs = np.bincount(index, minlength=num_windows).astype(np.float64)
        total = np.bincount(index, self.sizes, num_windows)
        return Profile(window, jobs, total / np.maximum(jobs, 1.0))

    def scale(self, rate: float = 1.0, size: float = 1.0) -> Given:
        """A higher rate replays the same jobs faster: the pass becomes shorter."""
        rate, size = number("rate", rate, *SCALES), number("size", size, *SCALES)
        return dataclasses.replace(self, sizes=self.sizes * size, gaps=self.gaps / rate)

    def shorten(self, factor: float) -> Given:
        """Keeps the first of every `factor` minutes as it is."""
        factor = number("shorten", factor, *FACTORS)
        if factor == 1.0:
            return self
        arrivals, stretch = self._arrivals(), factor * PIECE
        num_pieces = int(self.length // stretch)  # the last stretch may lack a whole piece
        if num_pieces < FEWEST_PIECES:
            raise InputError(
                f"workload {self.name!r} lasts {self.length / MINUTE:.1f} minutes: shortened "
                f"{factor:g} times it would have {num_pieces} pieces of a minute, needs "
                f"{FEWEST_PIECES}: use a smaller factor"
            )
        piece = (arrivals // stretch).astype(np.int64)
        kept = (arrivals - piece * stretch < PIECE) & (piece < num_pieces)
        if not kept.any():
            raise InputError(
                f"workload {self.name!r}: shortened {factor:g} times it has no jobs left: use a "
                "smaller factor"
            )
        clock = (arrivals - piece * (stretch - PIECE))[kept]
        ends = np.append(clock[1:], num_pieces * PIECE + clock[0])
        return dataclasses.replace(self, sizes=self.sizes[kept], gaps=ends - clock)

    def _arrivals(self) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(self.gaps[:-1], dtype=np.float64)])


def check_request(first: int, count: int, seed: int) -> tuple[int, int, int]:
    """The arguments of `Workload.jobs`; seeds are 64-bit words."""
    first = whole("first", first, 0, LAST_INDEX)
    return first, whole("count", count), whole("seed", seed, 0, 2**64 - 1)

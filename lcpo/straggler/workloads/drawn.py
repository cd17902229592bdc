"""Workloads whose jobs are drawn at random: only rates and sizes over time are stored.

A pass is divided into blocks. How many jobs each has is drawn once per seed, so that the place of a
job follows from its index. Arrivals and sizes are drawn anew in every pass, from a counter-based
stream (Philox) whose key is the seed and whose counter begins at the block's number. So a job
depends on its index and the seed only, and job 10^12 costs as much as job 0.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from lcpo.errors import InputError
from lcpo.straggler.workloads import base
from lcpo.straggler.workloads.base import Means, Profile
from lcpo.values import number

Rng = np.random.Generator
Factor = Callable[[Rng, int], np.ndarray]
"""factor(rng, count) -> [count] with mean 1: how the sizes of jobs spread about their mean."""

BLOCK_JOBS = 4096
"""About as many jobs are drawn at a time: enough that the start of a stream costs little."""
KEPT = 128
"""Seeds whose counts are kept, and blocks: two for each of the worlds that run side by side."""
_COUNTS, _JOBS = 0, 1  # streams of a seed


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn(abc.ABC):
    """What all drawn workloads share. Subclasses determine how many jobs there are, and draw a
    block.

    Its jobs are counted in cells, which are in order of time: a block is a range of them.
    """

    name: str
    expected: Profile

    def __post_init__(self) -> None:
        total = float(self.expected.jobs.sum())
        if not total >= base.FEWEST_JOBS:
            raise InputError(
                f"workload {self.name!r} has about {total:.3g} jobs in a pass, needs "
                f"{base.FEWEST_JOBS}: use a smaller factor, or a higher rate"
            )

    @property
    @abc.abstractmethod
    def block(self) -> float:
        """Length of a block in milliseconds; the last one of a pass may be shorter."""

    @abc.abstractmethod
    def block_cells(self) -> np.ndarray:
        """[B + 1]: block b has the cells from block_cells[b] to block_cells[b + 1]."""

    @abc.abstractmethod
    def counts(self, rng: Rng) -> np.ndarray:
        """How many jobs each cell has, [C] whole numbers."""

    @abc.abstractmethod
    def draw(self, rng: Rng, cells: slice, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Arrivals from the start of a block on, sorted, and sizes, for the counts of its cells."""

    @abc.abstractmethod
    def rescaled(self, rate: float, size: float, factor: float) -> Self:
        """`rate` times the rate, `size` times the sizes, and windows that are `factor` shorter."""

    @property
    def length(self) -> float:
        return self.expected.window * len(self.expected.jobs)

    def profile(self) -> Profile:
        return self.expected

    def means(self, share: float = 1.0) -> Means:
        """Means over the first windows, in which `share` of the jobs of a pass are expected."""
        share = number("share", share, *base.SHARES)
        window, jobs, size = self.expected
        total = np.cumsum(jobs)
        last = int(np.searchsorted(total, share * total[-1] * (1 - 1e-12)))
        count = float(total[last])
        worth = float(jobs[: last + 1] @ size[: last + 1])
        length = self.length if share == 1.0 else (last + 1) * window
        return Means(worth / count, length / count)

    def jobs(self, first: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        first, count, seed = base.check_request(first, count, seed)
        starts = _index(self, seed).starts
        sizes, gaps = np.empty(count), np.empty(count)
        filled = 0
        while filled < count:
            turn, place = divmod(first + filled, int(starts[-1]))
            block = _block_of(starts, place)
            arrivals, drawn = _draw(self, seed, turn, block)
            begin = place - int(starts[block])
            end = min(begin + count - filled, len(arrivals))
            following = arrivals[begin + 1 : end + 1]
            if end == len(arrivals):
                following = np.append(following, self._next_arrival(seed, turn, block))
            here = slice(filled, filled + end - begin)
            sizes[here] = drawn[begin:end]
            gaps[here] = np.maximum(following - arrivals[begin:end], 0.0)  # rounding at an edge
            filled += end - begin
        return sizes, gaps

    def num_jobs(self, seed: int) -> int:
        _, _, seed = base.check_request(0, 1, seed)
        return int(_index(self, seed).starts[-1])

    def scale(self, rate: float = 1.0, size: float = 1.0) -> Self:
        """More jobs in the same time."""
        rate, size = number("rate", rate, *base.SCALES), number("size", size, *base.SCALES)
        return self.rescaled(rate, size, 1.0)

    def shorten(self, factor: float) -> Self:
        """Every window in less time, with fewer jobs."""
        return self.rescaled(1.0, 1.0, number("shorten", factor, *base.FACTORS))

    def _next_arrival(self, seed: int, turn: int, block: int) -> float:
        """When the first job after a block arrives, from the start of the block on."""
        starts, ahead = _index(self, seed).starts, 0.0
        place = int(starts[block + 1])
        if place == starts[-1]:
            turn, place, ahead = turn + 1, 0, self.length
        following = _block_of(starts, place)
        arrivals, _ = _draw(self, seed, turn, following)
        return ahead + (following - block) * self.block + float(arrivals[0])


class _Index(NamedTuple):
    """Where the jobs of a seed are, in every pass."""

    counts: np.ndarray  # [C], jobs of each cell
    cells: np.ndarray  # [B + 1], the first cell of each block, and the end of the last
    starts: np.ndarray  # [B + 1], the first job of each block, and the end of the last


@functools.lru_cache(maxsize=KEPT)
def _index(workload: Drawn, seed: int) -> _Index:
    counts = workload.counts(_stream(seed, _COUNTS, 0, 0)).astype(np.int32)
    cells = workload.block_cells()
    total = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if total[-1] == 0:
        raise InputError(
            f"workload {workload.name!r}, seed {seed}: no job was drawn: use a higher rate"
        )
    return _Index(counts, cells, total[cells])


def _block_of(starts: np.ndarray, place: int) -> int:
    """The last of the blocks that begin with this job: the others are empty."""
    return int(np.searchsorted(starts, place, side="right")) - 1


@functools.lru_cache(maxsize=KEPT)
def _draw(workload: Drawn, seed: int, turn: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Arrivals and sizes of a block in pass `turn`. Cached: callers that ask for few jobs soon ask
    again."""
    counts, edges, _ = _index(workload, seed)
    cells = slice(int(edges[block]), int(edges[block + 1]))
    return workload.draw(_stream(seed, _JOBS, turn, block), cells, counts[cells])


def _stream(seed: int, kind: int, turn: int, block: int) -> Rng:
    """The lowest word of the counter is left for the draws."""
    key = np.array([seed, kind], np.uint64)  # a list with such a seed would become floats
    return np.random.Generator(np.random.Philox(key=key, counter=[0, block, turn, 0]))


@dataclasses.dataclass(frozen=True, eq=False)
class Poisson(Drawn):
    """Independent arrivals at the rate of each window, sizes that spread about its mean."""

    factor: Factor

    @property
    def _windows(self) -> int:
        """In a block."""
        return max(1, round(BLOCK_JOBS / float(self.expected.jobs.mean())))

    @property
    def block(self) -> float:
        return self._windows * self.expected.window

    def block_cells(self) -> np.ndarray:
        """Cells are windows."""
        num_windows = len(self.expected.jobs)
        return np.append(np.arange(0, num_windows, self._windows), num_windows)

    def counts(self, rng: Rng) -> np.ndarray:
        return rng.poisson(self.expected.jobs)

    def draw(self, rng: Rng, cells: slice, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Uniform within each window."""
        window = np.repeat(np.arange(len(counts)), counts)
        times = np.sort(window + rng.random(len(window))) * self.expected.window
        return times, self.expected.size[cells][window] * self.factor(rng, len(window))

    def rescaled(self, rate: float, size: float, factor: float) -> Poisson:
        window, jobs, mean = self.expected
        expected = Profile(window / factor, jobs * rate / factor, mean * size)
        return dataclasses.replace(self, expected=expected)


def lognormal(cv: float) -> Factor:
    """With this coefficient of variation (standard deviation / mean)."""
    variance = np.log1p(number("cv", cv, 0.0, 100.0) ** 2)
    mean, std = -0.5 * variance, np.sqrt(variance)
    return lambda rng, count: np.exp(mean + std * rng.standard_normal(count))


def alike(values: np.ndarray) -> Factor:
    """Drawn from these sizes, with replacement, and divided by their mean."""
    factors = np.asarray(values, np.float64) / np.mean(values)
    return lambda rng, count: factors[rng.integers(0, len(factors), count)]

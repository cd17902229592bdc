"""Where requests come from: their sizes, and the gaps between them.

Worlds ask for one block of jobs after the other. A block depends on the seed, its number and the
time at which its first job arrives: a world that resumes asks for the same block again.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lcpo.errors import InputError
from lcpo.straggler import workloads

BLOCK = 4096
"""Jobs that a world asks for at a time: making a generator takes longer than drawing from it."""


class Block(NamedTuple):
    """Jobs in the order of arrival."""

    sizes: np.ndarray  # [BLOCK], milliseconds of service
    gaps: np.ndarray  # [BLOCK], milliseconds from the arrival of a job to that of the next
    slow: np.ndarray | None = None  # [BLOCK, 2]: whether first and second copy are slow, if known


class Jobs(Protocol):
    """A source of jobs."""

    def block(self, seed: int, index: int, time: float) -> Block:
        """Jobs index * BLOCK, ...; the first of them arrives at `time`, in milliseconds."""
        ...

    def means(self, share: float) -> tuple[float, float]:
        """Mean size and gap over this share of the trace, from its beginning."""
        ...


class WorkloadJobs:
    """Jobs of a workload (docs/workloads.md).

    `slow` [M, 2] replays a recorded run: whether the copies of each of its M jobs were slow.
    """

    def __init__(self, workload: workloads.Workload, slow: np.ndarray | None = None) -> None:
        self.workload, self.slow = workload, slow

    def block(self, seed: int, index: int, time: float) -> Block:
        first = index * BLOCK
        sizes, gaps = self.workload.jobs(first, BLOCK, seed)
        if self.slow is None:
            return Block(sizes, gaps)
        return Block(sizes, gaps, self.slow[np.arange(first, first + BLOCK) % len(self.slow)])

    def means(self, share: float) -> tuple[float, float]:
        size, gap = self.workload.means(share)
        return size, gap or self.workload.means().gap  # a burst has no rate


class ArrayJobs(WorkloadJobs):
    """Jobs from arrays [M], which repeat after the last one."""

    def __init__(self, sizes: ArrayLike, gaps: ArrayLike, slow: ArrayLike | None = None) -> None:
        self.sizes, self.gaps = np.asarray(sizes, float), np.asarray(gaps, float)
        if self.sizes.ndim != 1 or self.sizes.shape != self.gaps.shape or not self.sizes.size:
            raise InputError(
                f"sizes {list(self.sizes.shape)}, gaps {list(self.gaps.shape)}: "
                "needs two arrays of the same length, with at least one job"
            )
        check(self.sizes, self.gaps)
        if not self.gaps.any():
            raise InputError("all gaps are 0: needs at least one gap above 0")
        known = None if slow is None else np.asarray(slow, bool)
        if known is not None and known.shape != (len(self.sizes), 2):
            shape = list(known.shape)
            raise InputError(f"slow {shape}: needs {[len(self.sizes), 2]}, two copies per job")
        super().__init__(workloads.Given("arrays", self.sizes, self.gaps), known)


class PoissonJobs(NamedTuple):
    """Independent arrivals at a constant rate, lognormal sizes."""

    rate: float  # jobs per second
    size: float  # mean, in milliseconds
    size_cv: float  # standard deviation of the sizes, as a multiple of their mean; 0: all alike

    def block(self, seed: int, index: int, time: float) -> Block:
        rng = generator(seed, index, stream=0)
        gaps = rng.exponential(1000.0 / self.rate, BLOCK)
        spread = math.sqrt(math.log1p(self.size_cv**2))
        sizes = self.size * np.exp(spread * rng.standard_normal(BLOCK) - 0.5 * spread**2)
        return Block(sizes, gaps)

    def means(self, share: float) -> tuple[float, float]:
        return self.size, 1000.0 / self.rate


@functools.lru_cache(maxsize=8)
def workload_jobs(name: str, stamp: tuple[int, int] | None, **given: Any) -> WorkloadJobs:
    """The jobs of `workloads.get`, which all worlds share. `stamp`: of the file, if it is one."""
    return WorkloadJobs(workloads.get(name, **given))


def generator(seed: int, block: int, stream: int) -> np.random.Generator:
    """The random generator of a block; blocks and streams are too far apart to overlap."""
    return np.random.Generator(np.random.Philox(key=seed, counter=(block << 128) | (stream << 192)))


def check(sizes: np.ndarray, gaps: np.ndarray, first: int = 0) -> None:
    """Raise InputError unless these are sizes and gaps; `first`: the number of the first job."""
    bad = ~((sizes > 0.0) & np.isfinite(sizes) & (gaps >= 0.0) & np.isfinite(gaps))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"job {first + row} (counted from 0) has size {sizes[row]:g} and gap {gaps[row]:g}: "
            "needs a finite size above 0 and a finite gap from 0 on; leave out such jobs"
        )

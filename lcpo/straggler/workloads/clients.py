"""A workload of many clients, each with its own bursts and sizes (ServeGen).

The data of a client: how many requests it sent in each window, the shape of the gaps between
them, and a histogram of sizes for each longer period. A row is a client in a window.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from lcpo.straggler.workloads.base import Profile
from lcpo.straggler.workloads.drawn import Drawn, Rng


class Histograms(NamedTuple):
    """Sizes of jobs: histogram h has the entries from pointer[h] to pointer[h + 1]."""

    pointer: np.ndarray  # [H + 1]
    value: np.ndarray  # [E], ascending in each
    upto: np.ndarray  # [E], counts summed up within each

    def means(self) -> np.ndarray:
        counts = np.diff(self.upto, prepend=0)
        counts[self.pointer[:-1]] = self.upto[self.pointer[:-1]]
        total = np.add.reduceat(counts * self.value, self.pointer[:-1])
        return total / self.upto[self.pointer[1:] - 1]

    def draw(self, rng: Rng, number: int, count: int) -> np.ndarray:
        """[count] values of one histogram."""
        entries = slice(self.pointer[number], self.pointer[number + 1])
        upto = self.upto[entries]
        return self.value[entries][np.searchsorted(upto, rng.integers(0, upto[-1], count), "right")]


class ClientRows(NamedTuple):
    """Clients in windows, sorted by window; all are [R]."""

    window: np.ndarray
    jobs: np.ndarray  # how many to expect
    shape: np.ndarray  # of the gaps
    weibull: np.ndarray  # their distribution: Weibull, else Gamma
    histogram: np.ndarray  # of their sizes


def expect(rows: ClientRows, histograms: Histograms, num_windows: int, window: float) -> Profile:
    """Jobs and mean size of each window, of all clients together."""
    jobs = np.bincount(rows.window, rows.jobs, num_windows)
    work = rows.jobs * histograms.means()[rows.histogram]
    total = np.bincount(rows.window, work, num_windows)
    return Profile(window, jobs, np.divide(total, jobs, out=np.zeros(num_windows), where=jobs > 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Clients(Drawn):
    """Jobs of clients. A block is a window, a cell is a row."""

    rows: ClientRows
    histograms: Histograms

    @property
    def block(self) -> float:
        return self.expected.window

    def block_cells(self) -> np.ndarray:
        return np.searchsorted(self.rows.window, np.arange(len(self.expected.jobs) + 1))

    def counts(self, rng: Rng) -> np.ndarray:
        """Jobs of each row: the expected number, rounded up or down at random to keep the mean."""
        return np.floor(self.rows.jobs + rng.random(len(self.rows.jobs))).astype(np.int64)

    def draw(self, rng: Rng, cells: slice, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All clients of a window.

        A client's gaps are stretched to fill the window, which keeps its number of jobs and its
        bursts, and are then rotated by a random phase: otherwise every client would end on the
        edge.
        """
        times, sizes = [np.empty(0)], [np.empty(0)]
        for row, count in zip(range(cells.start, cells.stop), counts, strict=True):
            if count == 0:
                continue
            gaps = rng.weibull if self.rows.weibull[row] else rng.gamma
            total = np.cumsum(gaps(self.rows.shape[row], size=count))
            # Shapes near 0 may draw nothing but zeros.
            share = total / total[-1] if total[-1] > 0 else rng.random(count)
            times.append((share + rng.random()) % 1.0)
            sizes.append(self.histograms.draw(rng, self.rows.histogram[row], count))
        arrivals = np.concatenate(times)
        order = np.argsort(arrivals, kind="stable")
        return arrivals[order] * self.expected.window, np.concatenate(sizes)[order]

    def rescaled(self, rate: float, size: float, factor: float) -> Clients:
        """At a higher rate, the bursts of each client become denser."""
        rows = self.rows._replace(jobs=self.rows.jobs * (rate / factor))
        histograms = self.histograms._replace(value=self.histograms.value * size)
        window, jobs, _ = self.expected
        expected = expect(rows, histograms, len(jobs), window / factor)
        return dataclasses.replace(self, rows=rows, histograms=histograms, expected=expected)

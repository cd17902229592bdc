"""Controllers that learn nothing: constants, a quantile with a budget, a table by load.

Each decides once per window from what was seen. None of them decides while the safety rule holds:
then nothing is hedged, whoever controls a lane.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from examples.hedging import workload
from examples.hedging.seen import Window
from lcpo.straggler.task import NEVER, TIMEOUTS_MS

TIMEOUTS = np.array(TIMEOUTS_MS[:NEVER])


class Rule(Protocol):
    """Chooses an action after each window."""

    def decide(self, window: Window) -> int: ...


class Safety:
    """The safety rule: above `most` copies at a backend nothing is hedged, until all have `few`.

    The simulator has the same rule with 50 copies. Behind a real proxy that is late: a queue of ten
    is already longer than most timeouts.
    """

    def __init__(self, most: int = 10, few: int = 3) -> None:
        self._most, self._few = most, few
        self._holds = False

    def holds(self, window: Window) -> bool:
        """Whether it holds after a window."""
        longest = float(window.queue.max())
        self._holds = longest > self._most or (self._holds and longest > self._few)
        return self._holds


class Fixed:
    """One timeout, or never."""

    def __init__(self, action: int = NEVER) -> None:
        self._action = action

    def decide(self, window: Window) -> int:
        return self._action


class Quantile:
    """Hedge after the 95th percentile of the response times, within a budget of second copies.

    `hedge-p95` of docs/agents/hedging.md, with the response times that a proxy sees: a request that
    was hedged counts with the time of its faster copy. Counts are forgotten as quickly.
    """

    def __init__(
        self, quantile: float = 0.95, budget: float = 0.05, memory: float = 120.0,
        capacity: float = 100.0,
    ) -> None:  # fmt: skip
        self._quantile, self._budget, self._capacity = quantile, budget, capacity
        self._decay = 1.0 - 1.0 / memory
        self._tokens = capacity
        self._slower = np.zeros(NEVER)
        self._served = self._arrived = self._hedged = 0.0

    def decide(self, window: Window) -> int:
        slower = (window.latencies[:, None] > TIMEOUTS).sum(0)
        self._slower = self._decay * self._slower + slower
        self._served = self._decay * self._served + window.latencies.size
        self._arrived = self._decay * self._arrived + window.sizes.size
        self._hedged = self._decay * self._hedged + window.hedged
        self._tokens = min(self._tokens + window.sizes.size - window.hedged, self._capacity)
        if self._served == 0.0 or self._tokens < 1.0:
            return NEVER
        if self._hedged > self._budget * self._arrived:
            return NEVER
        fits = np.flatnonzero(self._slower <= (1.0 - self._quantile) * self._served)
        return int(fits[0]) if fits.size else NEVER


class Table:
    """A timeout for each load: `actions[i]` up to `loads[i]`, above the last one never."""

    def __init__(
        self, loads: Sequence[float], actions: Sequence[int], num_servers: int, windows: int = 4
    ) -> None:
        self._loads, self._actions = list(loads), [*actions, NEVER]
        self._num_servers, self._windows = num_servers, windows
        self._seen: list[tuple[int, float]] = []

    def load(self, window: Window) -> float:
        """Offered load per server over the last windows, first copies only."""
        self._seen = [*self._seen, (window.sizes.size, window.elapsed)][-self._windows :]
        arrived, span = (sum(x) for x in zip(*self._seen, strict=True))
        return arrived / span * workload.SERVICE_MS / self._num_servers if span else 0.0

    def decide(self, window: Window) -> int:
        return self._actions[bisect.bisect_left(self._loads, self.load(window))]

"""The observation of `lcpo.straggler` with `observe="proxy"`, from what was seen of a real proxy.

Entries, their order and their scales are those of docs/envs/straggler.md, so that a policy from the
simulator can act on them. The scales belong to the policy: they were taken from its workload.
"""

from __future__ import annotations

import numpy as np

from examples.hedging.seen import Window
from lcpo.straggler.task import NUM_COMMON

SAFE, UNSAFE, PENALTY = 3, 50, 3.0
"""The safety rule and the threefold latency of the simulator."""
WINDOWS = 4
DECAYS = (0.9, 0.99, 0.999)
_TINY = 1e-8


class Observer:
    """Makes observations of one lane; it remembers averages and the simulator's safety rule."""

    def __init__(self, num_servers: int, rate_scale: float, size_scale: float) -> None:
        self.num_servers = num_servers
        self._scales = (rate_scale, size_scale)
        self._rows = np.zeros((WINDOWS, 4))  # arrivals, milliseconds, arrivals, their sizes
        self._window = 0
        self._last_size = 0.0
        self._averages, self._weights = np.zeros((len(DECAYS), 2)), np.ones(len(DECAYS))
        self._longest = 0.0
        self.unsafe = False
        """Whether the simulator's safety rule would hold in the next window: the last entry."""

    def reward(self, window: Window, reward_ms: float) -> float:
        """Minus the 95th percentile over `reward_ms`; before `observe` of the same window."""
        penalty = PENALTY if self._longest > UNSAFE else 1.0
        return -penalty * window.p95 / reward_ms

    def observe(self, window: Window) -> np.ndarray:
        """The observation after a window."""
        longest = float(window.queue.max())
        self.unsafe = longest > UNSAFE or (self.unsafe and longest > SAFE)
        self._longest = longest
        obs = np.zeros(2 * self.num_servers + NUM_COMMON)
        obs[: 2 * self.num_servers : 2] = window.queue
        obs[1 : 2 * self.num_servers : 2] = window.mean_queue
        obs[2 * self.num_servers : -1] = self._workload(window)
        obs[-1] = float(self.unsafe)
        return obs

    def _workload(self, window: Window) -> np.ndarray:
        """Rates and sizes of four windows, the largest of one window, the load; averages."""
        self._window = (self._window + 1) % WINDOWS
        count = float(window.sizes.size)
        self._rows[self._window] = count, window.elapsed, count, window.sizes.sum()
        arrived, span, known, work = self._rows.sum(0)
        rate = arrived / (span + _TINY)
        some = self._rows[self._rows[:, 1] > 0.0]
        most_rate = float((some[:, 0] / some[:, 1]).max(initial=0.0))
        if known:
            size = work / (known + _TINY)
            some = self._rows[self._rows[:, 2] > 0.0]
            most_size = float((some[:, 3] / some[:, 2]).max())
        else:  # the last size that was seen still stands
            size = most_size = self._last_size
        self._last_size = size
        by_rate, by_size = self._scales
        now = np.array([rate / by_rate, size / by_size])
        averages = []
        for k, decay in enumerate(DECAYS):
            self._weights[k] = decay * self._weights[k] + 1.0
            self._averages[k] = decay * self._averages[k] + now
            averages += [*(self._averages[k] / self._weights[k])]
        load = rate * size / self.num_servers
        return np.array([*now, most_rate / by_rate, most_size / by_size, load, *averages])

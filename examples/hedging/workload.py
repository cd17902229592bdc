"""What is requested when: arrivals in regimes, sizes, and which copies are slow.

Every lane sees the same requests: they depend on the seed alone. Whether a copy is slow depends on
its request and on its number, not on the server or the moment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import NamedTuple

import numpy as np

SERVERS = 8
SIZE_MS, SIZE_CV = 20.0, 0.5
SLOW_SHARE, SLOW_FACTOR = 0.1, 10.0
RATES = (30.0, 125.0)
"""Requests per second, one regime after the other."""
REGIME_SECONDS = 10.0
SERVICE_MS = SIZE_MS * (1.0 + SLOW_SHARE * (SLOW_FACTOR - 1.0))
"""Mean service time of a copy."""


@dataclasses.dataclass(frozen=True)
class Regimes:
    """Rates that alternate with the time of day, so that every process knows which one holds."""

    rates: tuple[float, ...] = RATES
    seconds: float = REGIME_SECONDS

    def number(self, time: float) -> int:
        """Which rate holds, an index of `rates`; `time`: in seconds."""
        return math.floor(time / self.seconds) % len(self.rates)

    @property
    def cycle(self) -> float:
        """Seconds until all regimes have been seen once."""
        return self.seconds * len(self.rates)


class Requests(NamedTuple):
    """Requests in the order of arrival."""

    times: np.ndarray  # [M], seconds
    sizes: np.ndarray  # [M], milliseconds of service by a server that is not slow


def requests(regimes: Regimes, begin: float, end: float, seed: int) -> Requests:
    """The requests between two times: Poisson arrivals in every regime, lognormal sizes."""
    times = []
    first, last = math.floor(begin / regimes.seconds), math.ceil(end / regimes.seconds)
    for period in range(first, last):
        rng = np.random.default_rng([seed, period])
        rate = regimes.rates[period % len(regimes.rates)]
        count = rng.poisson(rate * regimes.seconds)
        times.append(np.sort(rng.uniform(0.0, 1.0, count)) * regimes.seconds)
        times[-1] += period * regimes.seconds
    found = np.concatenate(times) if times else np.zeros(0)
    found = found[(found >= begin) & (found < end)]
    rng = np.random.default_rng([seed, first, 1])
    return Requests(found, sizes(rng, len(found)))


def sizes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Lognormal sizes in milliseconds."""
    spread = math.sqrt(math.log1p(SIZE_CV**2))
    return SIZE_MS * np.exp(spread * rng.standard_normal(count) - 0.5 * spread**2)


def is_slow(seed: int, request: str, attempt: int) -> bool:
    """Whether the copy of a request with this number, from 1 on, is slow."""
    digest = hashlib.sha256(f"{seed} {request} {attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < SLOW_SHARE * 2**64

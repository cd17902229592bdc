"""Sends the requests to every lane at their times, whether or not earlier ones were answered.

`python -m examples.hedging.load JSON`. For each lane it writes a CSV file: arrival in seconds,
latency in milliseconds from the planned arrival, the HTTP status (0: no answer).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from examples.hedging import http, workload
from examples.hedging.backends import ID, SIZE

PATIENCE = 30.0
"""Seconds after the last arrival that answers are waited for."""


class Lane:
    """Sends to one proxy, and writes a line about every answer."""

    def __init__(self, port: int, path: Path) -> None:
        self.pool, self._file = http.Pool(port), path.open("w", buffering=1)
        self._open: dict[int, float] = {}

    def send(self, number: int, message: bytes, planned: float) -> None:
        self._open[number] = planned
        self.pool.send(message, lambda status: self._done(number, status))

    def _done(self, number: int, status: int) -> None:
        planned = self._open.pop(number, None)
        if planned is not None:
            latency = 1000.0 * (time.time() - planned)
            self._file.write(f"{planned:.4f},{latency:.2f},{status}\n")

    @property
    def num_open(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Requests that are still open count as not answered."""
        for number in list(self._open):
            self._done(number, 0)
        self.pool.close()
        self._file.close()


async def run(
    lanes: Mapping[str, int], files: Mapping[str, str], rates: list[float], seconds: float,
    begin: float, end: float, seed: int,
) -> None:  # fmt: skip
    """All requests between two times; returns when they are answered."""
    regimes = workload.Regimes(tuple(rates), seconds)
    found = workload.requests(regimes, begin, end, seed)
    senders = [Lane(port, Path(files[name])) for name, port in lanes.items()]
    for number, (at, size) in enumerate(zip(found.times, found.sizes, strict=True)):
        wait = at - time.time()
        if wait > 0.0:
            await asyncio.sleep(wait)
        headers = {ID: str(number).encode(), SIZE: f"{size:.3f}".encode()}
        message = http.request("/", headers)
        for sender in senders:
            sender.send(number, message, float(at))
    late = time.time() + PATIENCE
    while any(sender.num_open for sender in senders) and time.time() < late:
        await asyncio.sleep(0.05)
    for sender in senders:
        sender.close()


if __name__ == "__main__":
    http.run(run(**json.loads(sys.argv[1])))

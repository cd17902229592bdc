"""What can be seen from outside, window by window: the access log, counters, the backends' queues.

Arrivals and their declared sizes come from the lines that the proxy writes when a request arrives,
response times from those at its end, hedges from a counter, and queues from the backends.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from examples.hedging.envoy import counters
from examples.hedging.http import Port

STATS = "/stats?format=json&filter=upstream_rq_retry$"
START, END = "DownstreamStart", "DownstreamEnd"


class Window(NamedTuple):
    """What was seen of a lane since the last look."""

    time: float
    """Seconds since 1970, at the end of the window."""
    elapsed: float
    """Milliseconds."""
    sizes: np.ndarray
    """Declared sizes in milliseconds of the requests that arrived."""
    latencies: np.ndarray
    """Response times in milliseconds of the requests that ended."""
    hedged: int
    """Second copies that were sent."""
    queue: np.ndarray
    """Copies at each backend, at the end of the window."""
    mean_queue: np.ndarray
    """The same, mean over the window."""
    oldest: float
    """Age in milliseconds of the oldest request without an answer; 0: there is none."""
    work_ms: float
    first_ms: float
    """Work of all copies and of first copies that the backends accepted: only they know it, so no
    controller reads it. The table of results does."""

    @property
    def p95(self) -> float:
        """The 95th percentile of response times; the oldest age if nothing was answered."""
        return float(np.percentile(self.latencies, 95)) if self.latencies.size else self.oldest


@dataclasses.dataclass
class AccessLog:
    """Reads the lines that were added to a file since the last look."""

    path: Path
    _offset: int = 0
    _left: bytes = b""

    def lines(self) -> list[dict[str, Any]]:
        """New lines; one that is not complete yet is left for the next look."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            self._offset = file.tell()
        *whole, self._left = (self._left + data).split(b"\n")
        return [json.loads(line) for line in whole if line]

    def skip(self) -> None:
        """Leave out what is there."""
        self._offset, self._left = os.path.getsize(self.path) if self.path.exists() else 0, b""


class LaneView:
    """What is seen of one lane; it remembers totals and open requests."""

    def __init__(self, name: str, log: Path, backends: int) -> None:
        self.name = name
        self._log, self._backends = AccessLog(log), Port(backends)
        self._open: dict[str, float] = {}
        self._told: dict[str, Any] = self._backends.get("/")
        self._hedged = 0

    def look(self, now: float, retries: dict[str, int]) -> Window:
        """The window since the last look; `retries`: counters of the proxy by name."""
        sizes, latencies = [], []
        for line in self._log.lines():
            if line["type"] == START:
                sizes.append(float(line["size"]))
                self._open[line["id"]] = float(line["start"])
            elif line["type"] == END:
                latencies.append(float(line["ms"]))
                self._open.pop(line["id"], None)
        told, before = self._backends.get("/"), self._told
        total = retries.get(f"cluster.{self.name}.upstream_rq_retry", 0)
        seconds = max(told["time"] - before["time"], 1e-6)
        mean = (np.array(told["area"]) - np.array(before["area"])) / seconds
        window = Window(
            time=now,
            elapsed=1000.0 * seconds,
            sizes=np.array(sizes),
            latencies=np.array(latencies),
            hedged=total - self._hedged,
            queue=np.array(told["queue"], float),
            mean_queue=mean,
            oldest=1000.0 * max(now - min(self._open.values()), 0.0) if self._open else 0.0,
            work_ms=told["work_ms"] - before["work_ms"],
            first_ms=told["first_ms"] - before["first_ms"],
        )
        self._told, self._hedged = told, total
        return window

    def close(self) -> None:
        self._backends.close()


def retries(admin: Port) -> dict[str, int]:
    """Counters of hedges, of all lanes."""
    return counters(admin.get(STATS))

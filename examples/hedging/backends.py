"""Servers with a queue each, first come first served: `python -m examples.hedging.backends JSON`.

A copy takes the size that its request declares, or ten times as long if it is slow. A server works
on every copy to its end, even after the proxy has hung up. A further port reports the queues and
the work that was accepted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from examples.hedging import http, workload

ID, SIZE, ATTEMPT = b"x-id", b"x-size-ms", b"x-envoy-attempt-count"
"""Headers: of the load generator, and of the proxy (from 1 on)."""
TOTALS = ("copies", "first_copies", "work_ms", "first_ms")


class Server:
    """One server: a copy begins when all copies before it are done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.queue, self.area = 0, 0.0
        self._since = self._free_at = loop.time()

    def count(self, change: int) -> None:
        """The queue changes: its integral over time is updated."""
        now = self._loop.time()
        self.area += self.queue * (now - self._since)
        self._since = now
        self.queue += change

    def work(self, seconds: float, reply: http.Reply) -> None:
        """Serve a copy, whether or not anybody still waits for it."""
        self.count(1)
        self._free_at = max(self._free_at, self._loop.time()) + seconds
        self._loop.call_at(self._free_at, self._finish, reply)

    def _finish(self, reply: http.Reply) -> None:
        self.count(-1)
        reply(http.OK)


class Cluster:
    """The servers behind one proxy, and what they were asked to do."""

    def __init__(self, num_servers: int, seed: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.servers = [Server(self._loop) for _ in range(num_servers)]
        self.seed = seed
        self.copies = self.first_copies = 0
        self.work_ms = self.first_ms = 0.0

    def handler(self, server: Server) -> http.Handler:
        """Answers the requests to one server."""

        def handle(head: bytes, reply: http.Reply) -> None:
            number, size = http.header(head, ID), http.header(head, SIZE)
            attempt = int(http.header(head, ATTEMPT) or 1)
            if number is None or size is None:
                reply(http.answer(b"needs the headers x-id and x-size-ms", 400))
                return
            slow = workload.is_slow(self.seed, number.decode(), attempt)
            ms = float(size) * (workload.SLOW_FACTOR if slow else 1.0)
            self.copies += 1
            self.work_ms += ms
            if attempt == 1:
                self.first_copies += 1
                self.first_ms += ms
            server.work(ms / 1000.0, reply)

        return handle

    def report(self, head: bytes, reply: http.Reply) -> None:
        """Queues now, their integrals over time in copies times seconds, and totals."""
        for server in self.servers:
            server.count(0)
        found: dict[str, Any] = {
            "time": self._loop.time(),
            "queue": [server.queue for server in self.servers],
            "area": [server.area for server in self.servers],
        }
        found |= {name: getattr(self, name) for name in TOTALS}
        reply(http.answer(json.dumps(found).encode()))


async def run(ports: list[int], report: int, seed: int) -> None:
    """Serve until the process ends."""
    cluster = Cluster(len(ports), seed)
    for port, server in zip(ports, cluster.servers, strict=True):
        await http.serve(port, cluster.handler(server))
    await http.serve(report, cluster.report)
    await asyncio.Event().wait()


if __name__ == "__main__":
    http.run(run(**json.loads(sys.argv[1])))

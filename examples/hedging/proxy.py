"""A small hedging proxy, where there is no Envoy: `python -m examples.hedging.proxy JSON`.

It understands the calls that this example makes to Envoy, and writes the same access log. It is no
replacement for Envoy in any other way.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import IO, Any
from urllib.parse import parse_qsl, urlsplit

from examples.hedging import http
from examples.hedging.backends import ATTEMPT, ID, SIZE
from examples.hedging.envoy import LanePorts, runtime_key
from examples.hedging.seen import END, START
from lcpo.straggler.task import NEVER, TIMEOUTS_MS


class Lane:
    """A listener with its backends."""

    def __init__(self, ports: LanePorts) -> None:
        self.name = ports.name
        self.file: IO[str] = open(ports.log, "w", buffering=1)  # noqa: SIM115 - until the end
        self.pools = [http.Pool(port) for port in ports.backends]
        self.active = [0] * len(self.pools)
        self.action, self.retries = NEVER, 0

    def handle(self, head: bytes, reply: http.Reply) -> None:
        Hedged(self, head, reply)

    def shortest(self, other_than: int = -1) -> int:
        """The backend with the fewest open copies."""
        places = (place for place in range(len(self.active)) if place != other_than)
        return min(places, key=self.active.__getitem__)


class Hedged:
    """A request with one or two copies; the first answer is passed on."""

    def __init__(self, lane: Lane, head: bytes, reply: http.Reply) -> None:
        self._lane, self._reply = lane, reply
        self._headers = {name: http.header(head, name) or b"" for name in (ID, SIZE)}
        self._start, self._timer = time.time(), None
        self._copies: list[tuple[int, Any]] = []
        self._left = 0
        self._answered = False
        self._log(START, 0)
        self._send(lane.shortest())
        if lane.action != NEVER:
            wait = TIMEOUTS_MS[lane.action] / 1000.0
            self._timer = asyncio.get_running_loop().call_later(wait, self._hedge)

    def _send(self, place: int) -> None:
        number, lane = len(self._copies), self._lane
        lane.active[place] += 1
        self._left += 1
        message = http.request("/", {**self._headers, ATTEMPT: str(number + 1).encode()})
        self._copies.append((place, None))
        cancel = lane.pools[place].send(message, lambda status: self._done(number, status))
        self._copies[number] = (place, cancel)

    def _hedge(self) -> None:
        if not self._answered:
            self._lane.retries += 1
            self._send(self._lane.shortest(self._copies[0][0]))

    def _done(self, number: int, status: int) -> None:
        self._left -= 1
        self._lane.active[self._copies[number][0]] -= 1
        if self._answered or (status == 0 and self._left):
            return
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
        for other, (place, cancel) in enumerate(self._copies):
            if other != number and cancel is not None and cancel():
                self._left -= 1
                self._lane.active[place] -= 1
        self._reply(http.OK if status == 200 else http.answer(b"no backend", 503))
        self._log(END, len(self._copies))

    def _log(self, kind: str, attempts: int) -> None:
        line = {
            "type": kind, "id": self._headers[ID].decode(), "size": self._headers[SIZE].decode(),
            "start": f"{self._start:.3f}", "ms": round(1000.0 * (time.time() - self._start)),
            "attempts": attempts,
        }  # fmt: skip
        self._lane.file.write(json.dumps(line) + "\n")


class Admin:
    """The calls of Envoy's admin port that this example makes."""

    def __init__(self, lanes: list[Lane]) -> None:
        self._keys = {runtime_key(lane.name, a): (lane, a) for lane in lanes for a in range(NEVER)}
        self._lanes = lanes

    def handle(self, head: bytes, reply: http.Reply) -> None:
        url = urlsplit(http.target(head))
        if url.path == "/runtime_modify":
            for key, value in sorted(parse_qsl(url.query), key=lambda pair: int(pair[1])):
                self._switch(key, int(value))
            reply(http.answer(b"OK\n"))
        elif url.path == "/stats":
            stats = [
                {"name": f"cluster.{lane.name}.upstream_rq_retry", "value": lane.retries}
                for lane in self._lanes
            ]
            reply(http.answer(json.dumps({"stats": stats}).encode()))
        elif url.path == "/ready":
            reply(http.answer(b'"LIVE"'))
        else:
            reply(http.answer(b"unknown", 404))

    def _switch(self, key: str, value: int) -> None:
        """0 turns a timeout off, 100 on."""
        lane, action = self._keys[key]
        if value:
            lane.action = action
        elif lane.action == action:
            lane.action = NEVER


async def run(lanes: list[dict[str, Any]], admin: int) -> None:
    """Serve until the process ends."""
    opened = []
    for given in lanes:
        ports = LanePorts(**given)
        opened.append(Lane(ports))
        await http.serve(ports.port, opened[-1].handle)
    await http.serve(admin, Admin(opened).handle)
    await asyncio.Event().wait()


if __name__ == "__main__":
    http.run(run(**json.loads(sys.argv[1])))

"""The little HTTP/1.1 that the processes of this example speak, on asyncio protocols.

Messages have a Content-Length or no body. On a machine with two cores this must be cheap: heads are
searched, not parsed, and with uvloop (which `lcpo serve` needs anyway) a message takes about 50
microseconds.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

END = b"\r\n\r\n"
LENGTH = b"content-length"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"
"""What a backend answers."""

Reply = Callable[[bytes], None]
"""Answers a request; nothing happens if the client has left."""
Handler = Callable[[bytes, Reply], None]
"""From the head of a request and how to answer it."""
Done = Callable[[int], None]
"""Receives the status of an answer; 0: there is none."""


def header(head: bytes, name: bytes) -> bytes | None:
    """The value of a header, whose name is given in lower case."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        at = head.lower().find(b"\r\n" + name + b":")
        if at < 0:
            return None
    begin = at + len(name) + 3
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else None].strip()


def target(head: bytes) -> str:
    """What a request asks for."""
    return head.split(b" ", 2)[1].decode("latin-1")


def request(target: str, headers: dict[bytes, bytes], method: str = "GET") -> bytes:
    """A request without a body."""
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers.items())
    return f"{method} {target} HTTP/1.1\r\nhost: lane\r\n".encode() + lines + b"\r\n"


def answer(body: bytes, status: int = 200) -> bytes:
    """A whole answer."""
    reason = http.client.responses[status]
    return f"HTTP/1.1 {status} {reason}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class _Messages(asyncio.Protocol):
    """Splits what arrives into messages."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._left = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        data = self._left + data
        while (at := data.find(END)) >= 0:
            head, end = data[:at], at + len(END)
            size = header(head, LENGTH)
            end += int(size) if size else 0
            if len(data) < end:
                break
            data = data[end:]
            self.message(head)
        self._left = data

    def message(self, head: bytes) -> None:
        raise NotImplementedError


class _Served(_Messages):
    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self._handler = handler

    def message(self, head: bytes) -> None:
        self._handler(head, self._reply)

    def _reply(self, whole: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(whole)


async def serve(port: int, handler: Handler) -> asyncio.Server:
    """Answer requests on a port of the loopback."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Served(handler), "127.0.0.1", port, backlog=1024)


class _Asking(_Messages):
    """A connection that waits for at most one answer."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self.done: Done | None = None

    def message(self, head: bytes) -> None:
        done, self.done = self.done, None
        if done is not None:
            self._pool.idle.append(self)
            done(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.left(self)
        if self.done is not None:
            self.done(0)


class Pool:
    """Connections to one port, as many as requests are open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.idle: list[_Asking] = []
        self._opening: set[asyncio.Task[None]] = set()

    def send(self, message: bytes, done: Done) -> Callable[[], bool]:
        """Send a request. Returns how to cancel it, which closes its connection.

        That returns whether it could: if so, there will be no call of `done`.
        """
        if self.idle:
            connection = self.idle.pop()
            connection.done = done
            connection.transport.write(message)
            return lambda: self._cancel(connection, done)
        task = asyncio.get_running_loop().create_task(self._open(message, done))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return lambda: False

    async def _open(self, message: bytes, done: Done) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: _Asking(self), "127.0.0.1", self._port
            )
        except OSError:
            done(0)
            return
        connection.done = done
        connection.transport.write(message)

    @staticmethod
    def _cancel(connection: _Asking, done: Done) -> bool:
        if connection.done is not done:
            return False
        connection.done = None
        connection.transport.abort()
        return True

    def left(self, connection: _Asking) -> None:
        if connection in self.idle:
            self.idle.remove(connection)

    def close(self) -> None:
        for connection in list(self.idle):
            connection.transport.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a process of this example, on uvloop."""
    import uvloop  # installed with lcpo[serve]; not on Windows, where the example does not run

    uvloop.run(main)


class Port:
    """A port of the loopback that answers with JSON; for one thread."""

    def __init__(self, port: int, timeout: float = 2.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def get(self, target: str) -> Any:
        return json.loads(self._ask("GET", target))

    def post(self, target: str) -> None:
        self._ask("POST", target)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, target: str) -> bytes:
        try:
            self._connection.request(method, target)
            found = self._connection.getresponse()
            body = found.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next call opens another connection
            raise
        if found.status != 200:
            raise OSError(f"{method} {target}: {found.status} {body[:200]!r}")
        return body


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()

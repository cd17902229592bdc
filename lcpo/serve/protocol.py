"""Connections: one that is slow, idle or oversized is closed, so that it holds up nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from lcpo.serve.events import Events
from lcpo.serve.state import State

MAX_HEAD = 32768
"""Bytes of a request's line and headers."""


def protocol_of(state: State) -> type[asyncio.Protocol]:
    """The protocol of connections under the limits of a server."""

    class Limited(HttpToolsProtocol):
        """HTTP with limits on the time and size of requests' headers, and on connections."""

        _timer: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None
        _head, _is_reading, active = 0, True, 0.0
        _why: str | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.active = time.monotonic()
            self.timeout_keep_alive = state.config.file.serve.idle_seconds
            if len(self.connections) > state.config.file.serve.max_connections:
                self._make_room()
            self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            self._stop_unread()
            self._unset_keepalive_if_required()  # else a timer keeps a connection that was reset
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self.active = time.monotonic()
            if self._is_reading:
                self._head += len(data)
            super().data_received(data)
            if self._is_reading and self._head > MAX_HEAD:
                self.send_400_response("the headers are too large")
            waits = self._timer or self.timeout_keep_alive_task
            if waits is None and self._is_between and not self.transport.is_closing():
                self._await_request()  # line breaks before a request do not begin one

        def pause_writing(self) -> None:
            super().pause_writing()
            # A client that does not read its answers has as long as one that is idle.
            seconds = state.config.file.serve.idle_seconds
            self._unread = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop_unread()
            super().resume_writing()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._is_reading = True
            self._await_request()

        def on_headers_complete(self) -> None:
            self._is_reading, self._head = False, 0
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MAX_HEAD:
                self._why = "the headers are too large"
                raise ValueError(self._why)  # httptools makes it an answer of 400
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._stop_timer()
            super().on_message_complete()
            self._is_reading = True

        def send_400_response(self, msg: str) -> None:
            self._end(400, self._why or msg)

        def _end(self, status: int, text: str) -> None:
            """Answer in the form of all errors, and close."""
            if self.transport.is_closing():
                return
            state.metrics.errors.labels(str(status)).inc()
            state.events.refused(status=status, text=text)
            body = json.dumps({"error": text}).encode()
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: "
            self.transport.write(STATUS_LINE[status] + head + b"%d\r\n\r\n" % len(body) + body)
            self.transport.close()

        def timeout_keep_alive_handler(self) -> None:
            self._hang_up()

        @property
        def is_idle(self) -> bool:
            """Whether it may be closed: it waits for a request, or for its client to read."""
            return self._is_between or self.flow.write_paused

        @property
        def _is_between(self) -> bool:
            """Whether no request is under way."""
            return self.cycle is None or self.cycle.response_complete

        def _await_request(self) -> None:
            """The whole request must come in time."""
            self._stop_timer()
            seconds = state.config.file.serve.request_seconds
            self._timer = self.loop.call_later(seconds, self._give_up)

        def _give_up(self) -> None:
            seconds = state.config.file.serve.request_seconds
            self._end(408, f"the request did not come within {seconds:g} s")

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _stop_unread(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _hang_up(self) -> None:
            if self.transport.is_closing():
                return
            # A client that does not read would never let a buffer drain.
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            else:
                self.transport.close()

        def _make_room(self) -> None:
            """Close the connection that has been idle for the longest time, or the new one."""
            everyone: list[Any] = list(self.connections)
            idle = [each for each in everyone if each.is_idle and each is not self]
            oldest = min(idle, key=lambda each: each.active, default=self)
            oldest.transport.abort()
            state.events.refused(text="too many connections: the oldest idle one was closed")

    return Limited


class Lines(logging.Handler):
    """What uvicorn logs, as JSON lines."""

    def __init__(self, events: Events) -> None:
        super().__init__(logging.WARNING)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._events.refused(text=record.getMessage(), level=record.levelname)

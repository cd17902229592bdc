"""A client for `lcpo serve` that needs only Python's standard library: copy this file if you like.

    client = Client("http://127.0.0.1:8080", fallback=2)
    decision = client.act([queue, servers], [requests])
    client.observe(decision.id, reward)
    client.close()

`act` answers in time: if the server does not, the fallback decides, and `source` is "local".
`observe` returns at once. A thread repeats it, with the decision's id, until the server has
acknowledged it, so that an outcome is neither lost nor counted twice.
"""

from __future__ import annotations

import collections
import http.client
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

UNCERTAIN = 100
"""Calls of a stream that got no answer, and that are settled later, at most."""


class Decision(NamedTuple):
    """What `Client.act` returns."""

    id: int | None
    """Report what it led to with `observe(id, reward)`. None if the fallback decided."""
    action: Any
    """Numbers of actions; of a fallback, as it was given."""
    probability: float | None
    policy_version: int | None
    source: str
    """policy, incumbent, guard, fallback; "local": the client's own fallback."""


class Refused(Exception):
    """The server has refused a call: repeating it would not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


class Unavailable(Exception):
    """The server has not answered, or cannot answer now."""

    may_be_done = False
    """Whether the call may have reached the server."""


class _Unix(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Wire:
    """One kept-alive connection, for one thread at a time."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if url.startswith("unix:"):
            self._make: Callable[[float], Any] = lambda seconds: _Unix(url[5:], seconds)
        elif parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/"):
            secure = parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            where = parts.netloc.rpartition("@")[2]
            self._make = lambda seconds: kind(where, timeout=seconds)
        else:
            raise ValueError(f"url = {url!r}: needs http://HOST:PORT or unix:PATH")
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock, self._sent = threading.Lock(), False
        self._open: Any = None

    def call(self, method: str, path: str, body: Any, until: float) -> Any:
        """The answer; Unavailable if there is none by `until` (of time.monotonic)."""
        data = None if body is None else json.dumps(body, allow_nan=False)
        with self._lock:
            fresh = self._open is None
            while True:
                try:
                    return self._once(method, path, data, until)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    self.close()
                    # A kept connection may have been closed while nobody used it.
                    stale = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                    if fresh or not stale:
                        failed = Unavailable(f"{type(error).__name__}: {error}")
                        failed.may_be_done = self._sent
                        raise failed from error
                    fresh = True

    def _once(self, method: str, path: str, data: str | None, until: float) -> Any:
        left = until - time.monotonic()
        self._sent = False
        if left <= 0.0:
            raise TimeoutError("no time is left")
        wire = self._open
        if getattr(wire, "sock", None) is None:  # none yet, or the server has closed it
            wire = self._open = self._make(left)
            wire.connect()  # which sends small packets at once (TCP_NODELAY)
        wire.sock.settimeout(left)
        self._sent = True
        wire.request(method, path, data, self._headers)
        answer = wire.getresponse()
        text = answer.read()
        found = json.loads(text) if text else {}
        if answer.status == 503:
            raise Unavailable(str(found.get("error")))
        if answer.status >= 400:
            raise Refused(answer.status, str(found.get("error")))
        return found

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None


class Client:
    """Calls a server. Several threads may share a client."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout: float = 0.2,
        fallback: Any = None,
        queue: int = 10_000,
        rest: float = 1.0,
    ) -> None:
        """Nothing is connected yet.

        Args:
          url: "http://127.0.0.1:8080", or "unix:" and the path of a socket.
          token: what the server's token file holds.
          timeout: seconds in which `act` answers.
          fallback: an action, or a function of (obs, context), for when the server does not answer.
            None: `act` raises Unavailable.
          queue: outcomes that wait for the server, at most.
          rest: seconds for which `act` does not ask a server that has let it wait in vain.
        """
        self._acting, self._telling = _Wire(url, token), _Wire(url, token)
        self._timeout, self._fallback, self._most, self._rest = timeout, fallback, queue, rest
        self._changed = threading.Condition()
        self._queue: collections.deque[dict[str, Any]] = collections.deque()
        self._closed = self._is_down = False
        self._silent_until = 0.0
        self._uncertain: dict[str, list[str]] = {}
        self._thread: threading.Thread | None = None
        self.lost: list[str] = []
        """Why outcomes were given up: the server has refused them."""

    def act(
        self,
        obs: Sequence[float],
        context: float | Sequence[float] | None = None,
        stream: str = "0",
        taken: Any = None,
        deterministic: bool = False,
    ) -> Decision:
        """The server's decision, or that of the fallback. Refused if the call is wrong."""
        until = time.monotonic() + self._timeout
        body: dict[str, Any] = {"obs": list(map(float, obs)), "stream": stream}
        if context is not None:
            one = isinstance(context, (int, float))
            body["context"] = context if one else list(map(float, context))
        if taken is not None:
            body["taken"] = taken
        if deterministic:
            body["deterministic"] = True
        body["key"] = uuid.uuid4().hex
        if time.monotonic() < self._silent_until and self._fallback is not None:
            return self._decide(obs, context)
        self._let_pass(until)
        try:
            self._settle(stream, until)
            found = self._acting.call("POST", "/v1/act", body, until)
        except Unavailable as error:
            if error.may_be_done:
                keys = self._uncertain.setdefault(stream, [])
                keys.append(body["key"])
                del keys[:-UNCERTAIN]
            if time.monotonic() >= until:
                self._silent_until = time.monotonic() + self._rest
            if self._fallback is None:
                raise
            return self._decide(obs, context)
        self._is_down = False
        return Decision(*(found[name] for name in Decision._fields))

    def observe(self, id: int | None, reward: float | None = None, **rest: Any) -> bool:
        """Report what a decision led to; the server gets it as soon as it can.

        `rest`: next_obs, next_context, terminated, truncated, action, elapsed, readings. False if
        the queue is full, so that the outcome is lost. An outcome of the fallback (id None) is not
        sent: the server does not know the decision.
        """
        if id is None:
            return True
        body = {"id": id, "reward": reward, **rest}
        json.dumps(body, allow_nan=False)  # a mistake is reported here, not in the thread
        with self._changed:
            if self._closed:
                raise ValueError("the client is closed")
            if len(self._queue) >= self._most:
                return False
            self._queue.append(body)
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="lcpo-client", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def step(self, items: Sequence[dict[str, Any]], timeout: float | None = None) -> list[Any]:
        """`/v1/step`: observe and act for several streams in one call. There is no fallback.

        Give every act a `key`, and repeat the whole call if it raises Unavailable: observations are
        then duplicates, and decisions are the same.
        """
        until = time.monotonic() + (self._timeout if timeout is None else timeout)
        return self._acting.call("POST", "/v1/step", {"items": list(items)}, until)["items"]

    def status(self, timeout: float = 2.0) -> dict[str, Any]:
        """`/v1/status`."""
        return self._acting.call("GET", "/v1/status", None, time.monotonic() + timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the server has all outcomes; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, timeout)

    def close(self, timeout: float = 2.0) -> bool:
        """Send what waits, for at most `timeout` seconds; whether that was everything."""
        done = self.flush(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        self._acting.close()
        self._telling.close()
        return done

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decide(self, obs: Any, context: Any) -> Decision:
        found = self._fallback(obs, context) if callable(self._fallback) else self._fallback
        return Decision(None, found, None, None, "local")

    def _let_pass(self, until: float) -> None:
        """Outcomes that wait go first, unless the server is down."""
        with self._changed:
            left = until - time.monotonic()
            self._changed.wait_for(lambda: not self._queue or self._is_down, left / 2)

    def _settle(self, stream: str, until: float) -> None:
        """Discard decisions that the server may have made, and that were not played."""
        while keys := self._uncertain.get(stream):
            body = {"stream": stream, "key": keys[0]}
            self._acting.call("POST", "/v1/discard", body, until)
            del keys[0]
        self._uncertain.pop(stream, None)

    def _tell(self) -> None:
        """Send outcomes in order, each until it is acknowledged."""
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                body = self._queue[0]
            try:
                self._telling.call("POST", "/v1/observe", body, time.monotonic() + 2.0)
            except Unavailable:
                pause = min(max(2.0 * pause, 0.02), 1.0)
                with self._changed:
                    self._is_down = True
                    self._changed.notify_all()
                    if self._changed.wait_for(lambda: self._closed, pause):
                        return
                continue
            except Refused as error:
                self.lost = [*self.lost[-99:], f"{body}: {error}"]
            pause = 0.0
            with self._changed:
                self._is_down = False
                self._queue.popleft()
                self._changed.notify_all()

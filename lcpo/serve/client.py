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
AWAY = (408, 429, 502, 503, 504)
"""Statuses that pass: the server, or a proxy before it, asks to try again."""
CONFLICT = 409
"""Among others: the stream's reward is missing."""
MAYBE_DONE = (502, 504)
"""Those after which the call may have reached the server: a proxy has waited in vain."""


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
        try:
            is_place = parts.path in ("", "/") and parts.port != 0
        except ValueError:  # else a wrong port would look like a server that is down
            is_place = False
        if url.startswith("unix:"):
            self._make: Callable[[float], Any] = lambda seconds: _Unix(url[5:], seconds)
        elif parts.scheme in ("http", "https") and parts.hostname and is_place:
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

    def call(self, method: str, path: str, data: str | None, until: float) -> Any:
        """The answer; Unavailable if there is none by `until` (of time.monotonic)."""
        if not self._lock.acquire(timeout=max(until - time.monotonic(), 0.0)):
            raise Unavailable("TimeoutError: calls of other threads took all the time")
        try:
            fresh, may_be_done = self._open is None, False
            while True:
                try:
                    return self._once(method, path, data, until)
                except Unavailable as error:
                    error.may_be_done |= may_be_done
                    raise
                except (OSError, http.client.HTTPException, ValueError) as error:
                    self.close()
                    may_be_done |= self._sent  # whatever becomes of the second attempt
                    # A kept connection may have been closed while nobody used it.
                    stale = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                    if fresh or not stale:
                        failed = Unavailable(f"{type(error).__name__}: {error}")
                        failed.may_be_done = may_be_done
                        raise failed from error
                    fresh = True
        finally:
            self._lock.release()

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
        if answer.status < 400:
            return json.loads(text) if text else {}
        if answer.status in AWAY:
            failed = Unavailable(f"{answer.status}: {_reason(text)}")
            failed.may_be_done = answer.status in MAYBE_DONE
            raise failed
        raise Refused(answer.status, _reason(text))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _reason(text: bytes) -> str:
    """The error in an answer. A proxy may have answered, in a form of its own."""
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:200].decode(errors="replace")


def _encoded(body: Any) -> str:
    """A body as JSON; numbers and arrays of NumPy become plain ones."""
    return json.dumps(body, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{value!r} cannot be sent: give numbers, lists or arrays")


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
        self._asking = _Wire(url, token)  # for calls that may take longer than `act`
        self._timeout, self._fallback, self._most, self._rest = timeout, fallback, queue, rest
        self._changed = threading.Condition()
        self._queue: collections.deque[str] = collections.deque()
        self._given = self._done = 0
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
            body["context"] = context
        if taken is not None:
            body["taken"] = taken
        if deterministic:
            body["deterministic"] = True
        body["key"] = uuid.uuid4().hex
        data = _encoded(body)
        if time.monotonic() < self._silent_until and self._fallback is not None:
            return self._decide(obs, context)
        self._let_pass(until)
        is_behind = self._done < self._given
        try:
            self._settle(stream, until)
            found = self._acting.call("POST", "/v1/act", data, until)
        except (Unavailable, Refused) as error:
            if isinstance(error, Refused) and error.status == CONFLICT and is_behind:
                # The server is back, and still waits for an outcome that is in the queue.
                self._wake()
                error = Unavailable(f"outcomes wait to be sent: {error}")
            if isinstance(error, Refused) and error.status < 500:
                raise
            if isinstance(error, Refused) or error.may_be_done:
                with self._changed:
                    keys = self._uncertain.setdefault(stream, [])
                    keys.append(body["key"])
                    del keys[:-UNCERTAIN]
            if time.monotonic() >= until:
                self._silent_until = time.monotonic() + self._rest
            if self._fallback is None:
                raise error
            return self._decide(obs, context)
        if self._is_down:
            self._wake()
        return Decision(*(found[name] for name in Decision._fields))

    def observe(self, id: int | None, reward: float | None = None, **rest: Any) -> bool:
        """Report what a decision led to; the server gets it as soon as it can.

        `rest`: next_obs, next_context, terminated, truncated, action, elapsed, readings. False if
        the queue is full, so that the outcome is lost. An outcome of the fallback (id None) is not
        sent: the server does not know the decision.
        """
        if id is None:
            return True
        # Encoded here: a mistake is reported now, and the caller may use its arrays again.
        data = _encoded({"id": id, "reward": reward, **rest})
        with self._changed:
            if self._closed:
                raise ValueError("the client is closed")
            if len(self._queue) >= self._most:
                return False
            self._queue.append(data)
            self._given += 1
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
        data = _encoded({"items": list(items)})
        return self._asking.call("POST", "/v1/step", data, until)["items"]

    def end(self, stream: str = "0", timeout: float = 2.0) -> int:
        """A stream leaves, when the server has its outcomes; how many decisions that discards.

        Repeat it if it raises Unavailable. Refused with status 404: the stream has left.
        """
        until = time.monotonic() + timeout
        with self._changed:
            given = self._given
            if not self._changed.wait_for(lambda: self._done >= given, timeout):
                raise Unavailable("outcomes wait to be sent")
        data = _encoded({"stream": stream})
        count = self._asking.call("POST", "/v1/end", data, until)["discarded"]
        with self._changed:  # whatever it may have decided is discarded, too
            self._uncertain.pop(stream, None)
        return count

    def status(self, timeout: float = 2.0) -> dict[str, Any]:
        """`/v1/status`."""
        return self._asking.call("GET", "/v1/status", None, time.monotonic() + timeout)

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
        for wire in (self._acting, self._telling, self._asking):
            wire.close()
        return done

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decide(self, obs: Any, context: Any) -> Decision:
        found = self._fallback(obs, context) if callable(self._fallback) else self._fallback
        return Decision(None, found, None, None, "local")

    def _let_pass(self, until: float) -> None:
        """Outcomes that wait now go first, unless the server is down."""
        with self._changed:
            given, left = self._given, until - time.monotonic()
            self._changed.wait_for(lambda: self._done >= given or self._is_down, left / 2)

    def _wake(self) -> None:
        """The server answers: outcomes need not wait any longer."""
        with self._changed:
            self._is_down = False
            self._changed.notify_all()

    def _settle(self, stream: str, until: float) -> None:
        """Discard decisions that the server may have made, and that were not played."""
        while True:
            with self._changed:
                keys = self._uncertain.get(stream)
                if not keys:
                    self._uncertain.pop(stream, None)
                    return
                key = keys[0]
            data = _encoded({"stream": stream, "key": key})
            self._acting.call("POST", "/v1/discard", data, until)
            with self._changed:  # another thread may have settled it, too
                if key in keys:
                    keys.remove(key)

    def _tell(self) -> None:
        """Send outcomes in order, each until it is acknowledged."""
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                data = self._queue[0]
            try:
                self._telling.call("POST", "/v1/observe", data, time.monotonic() + 2.0)
            except Unavailable:
                pause = min(max(2.0 * pause, 0.02), 1.0)
                with self._changed:
                    self._is_down = True
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._closed or not self._is_down, pause)
                continue
            except Refused as error:
                self.lost = [*self.lost[-99:], f"{data}: {error}"]
            pause = 0.0
            with self._changed:
                self._is_down = False
                self._queue.popleft()
                self._done += 1
                self._changed.notify_all()

"""Requests: who may ask what, bodies within limits, and the status of every error.

A plain ASGI application: all paths are fixed, so a table of them is the whole routing. No part of a
request becomes a path of a file.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import importlib.resources
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from lcpo.errors import CannotServe, Conflict, InputError, NoAnswer, Unknown, trace_of
from lcpo.live import NotWritten
from lcpo.serve import openapi, status
from lcpo.serve.calls import Calls, one_line, traced
from lcpo.serve.config import ANY
from lcpo.serve.metrics import CONTENT_TYPE
from lcpo.serve.state import State, is_ok

JSON, TEXT = b"application/json", b"text/plain; charset=utf-8"
SAFE = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = {
    "/": ("index.html", b"text/html; charset=utf-8"),
    "/page.css": ("page.css", b"text/css; charset=utf-8"),
    "/page.js": ("page.js", b"text/javascript; charset=utf-8"),
}
HEALTH = ("/livez", "/readyz", "/healthz")
RETRY_SECONDS = b"1"
Headers = Mapping[bytes, bytes]


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Disconnected(Exception):
    """The client has gone before its request was complete."""


class Call(NamedTuple):
    """One of the calls to the agent."""

    handler: Callable[..., Awaitable[Any]]
    decoder: msgspec.json.Decoder[Any]


_encode = msgspec.json.Encoder().encode


class App:
    """The application. One instance serves all connections of a process."""

    def __init__(self, state: State) -> None:
        self.state = state
        made = Calls(state)
        self._calls = {
            path: Call(getattr(made, path.rpartition("/")[2]), msgspec.json.Decoder(each.body))
            for path, each in openapi.CALLS.items()
        }
        self._page = _load_page()
        self._gets: dict[str, Callable[[Any], Awaitable[Answer]]] = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/healthz": self._ready,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            "/v1/status": self._status,
            **dict.fromkeys(PAGE, self._shown),
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        reader = _Reader(receive, scope)
        try:
            answer = await self._answer(scope, reader)
        except Disconnected:
            return
        except Exception as error:
            answer = self._failed(scope, error)
        headers = [
            (b"content-type", answer.kind),
            (b"content-length", str(len(answer.body)).encode()),
            *SAFE,
            *answer.headers,
        ]
        if not reader.is_done:  # what is left of the body would be read as the next request
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Any, reader: _Reader) -> Answer:
        headers, path, method = reader.headers, scope["path"], scope["method"]
        call = self._calls.get(path)
        if path not in HEALTH:
            self._check_host(headers)
        if call is None and path not in self._gets:
            raise Refused(404, f"there is no such path: {openapi.PLACE} lists them")
        if path.startswith("/v1/"):
            self._check_token(headers)
        allowed = (b"GET, HEAD",) if call is None else (b"POST",)
        if method not in ("GET", "HEAD") if call is None else method != "POST":
            raise Refused(405, f"use {allowed[0].decode()}", (b"allow", allowed[0]))
        if call is None:
            answer = await self._gets[path](scope)
            return answer._replace(body=b"") if method == "HEAD" else answer
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != JSON:
            raise Refused(415, "send the body as JSON, with Content-Type: application/json")
        body = call.decoder.decode(await reader.read(self.state.config.file.serve.max_body))
        agent = self.state.agent
        if agent is None or self.state.refuses:
            why = "the server is stopping" if self.state.refuses else "the server is not ready"
            raise Refused(503, f"{why}: try again", (b"retry-after", RETRY_SECONDS))
        trace = traced(headers.get(b"traceparent"))
        return Answer(200, _encode(await call.handler(agent, body, trace)))

    def _check_host(self, headers: Headers) -> None:
        """Other names may lead a browser here, with the rights of a page that nobody trusts."""
        config = self.state.config
        given = headers.get(b"host", b"").decode("latin-1").lower()
        name = given[: given.find("]") + 1] if given.startswith("[") else given.partition(":")[0]
        if ANY not in config.hosts and name not in config.hosts:
            raise Refused(421, "this server does not serve that Host: see serve.hosts")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != given:
            raise Refused(403, "requests of web pages of other origins are refused")

    def _check_token(self, headers: Headers) -> None:
        token = self.state.config.token
        if token is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), token):
            ask = (b"www-authenticate", b"Bearer")
            raise Refused(401, "needs the token, as in Authorization: Bearer TOKEN", ask)

    def _failed(self, scope: Any, error: Exception) -> Answer:
        """The answer for an exception, which is counted and reported."""
        number, headers = _status_of(error)
        text = one_line(error) if number != 500 else "internal error: the server's log has it"
        self.state.metrics.errors.labels(str(number)).inc()
        if number == 500:
            self.state.events.write("bug", path=_shown(scope), traceback=trace_of(error))
        else:
            self.state.events.refused(status=number, path=_shown(scope), text=text)
        return Answer(number, _encode({"error": self.state.answered(text)}), headers=headers)

    async def _live(self, scope: Any) -> Answer:
        return Answer(200, b"ok\n", TEXT)

    async def _ready(self, scope: Any) -> Answer:
        checks = self.state.checks()
        number = 200 if is_ok(checks) else 503
        lines = [f"{name}: {self.state.answered(text)}" for name, text in checks.items()]
        if b"verbose" not in scope["query_string"]:
            lines = ["ok" if number == 200 else "not ready"]
        return Answer(number, "\n".join([*lines, ""]).encode(), TEXT)

    async def _metrics(self, scope: Any) -> Answer:
        text = await self._look(status.metrics, self.state)
        return Answer(200, text, CONTENT_TYPE.encode())

    async def _status(self, scope: Any) -> Answer:
        found = await self._look(status.document, self.state, self.state.series.to_json())
        return Answer(200, _encode(found))

    async def _openapi(self, scope: Any) -> Answer:
        return Answer(200, openapi.document())

    async def _shown(self, scope: Any) -> Answer:
        body = self._page.get(scope["path"])
        if body is None:
            raise Refused(404, "this installation has no status page")
        return Answer(200, body, PAGE[scope["path"]][1], ((b"content-security-policy", POLICY),))

    async def _look(self, function: Callable[..., Any], *given: Any) -> Any:
        look = functools.partial(function, *given)
        return await asyncio.get_running_loop().run_in_executor(self.state.looks, look)


class _Reader:
    """The headers and the body of a request."""

    def __init__(self, receive: Any, scope: Any) -> None:
        self._receive, self.headers = receive, dict(scope["headers"])
        length = self.headers.get(b"content-length", b"0")
        self.length = int(length) if length.isdigit() else 0
        self.is_done = not self.length and b"transfer-encoding" not in self.headers

    async def read(self, most: int) -> bytes:
        """The whole body; Refused if it is larger than `most` bytes."""
        too_large = Refused(413, f"the body is larger than {most:,} bytes: see serve.max_body")
        if self.length > most:
            raise too_large
        body, more = b"", True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > most:
                raise too_large
        self.is_done = True
        return body


def _status_of(error: Exception) -> tuple[int, tuple[tuple[bytes, bytes], ...]]:
    if isinstance(error, Refused):
        return error.status, error.headers
    if isinstance(error, (NotWritten, NoAnswer, CannotServe)):
        return 503, ((b"retry-after", RETRY_SECONDS),)
    for kind, number in ((Conflict, 409), (Unknown, 404), (InputError, 400)):
        if isinstance(error, kind):
            return number, ()
    if isinstance(error, (msgspec.DecodeError, UnicodeDecodeError, RecursionError)):
        return 400, ()
    return 500, ()


def _shown(scope: Any) -> str:
    return f"{scope['method']} {scope['path']}"[:200]


def _load_page() -> dict[str, bytes]:
    """The files of the status page."""
    folder, found = importlib.resources.files("lcpo.serve") / "page", {}
    for path, (name, _) in PAGE.items():
        file = folder / name
        if file.is_file():
            found[path] = file.read_bytes()
    return found

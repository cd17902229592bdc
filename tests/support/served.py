"""Servers for tests: the application called in process, and `lcpo serve` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.serve import config as configs
from lcpo.serve.app import App
from lcpo.serve.events import Events
from lcpo.serve.server import open_agent
from lcpo.serve.state import State

CONFIG = """
folder = "agent"
[agent]
name = "a2c"
mode = "{mode}"
[agent.config]
rollout_length = 8
hidden = [8, 8]
[spec]
obs_size = 5
num_actions = [4]
context = {{start = 2, channels = 1, lags = 3}}
[live]
{live}
[serve]
address = "{address}"
{serve}
{rest}
"""
"""The small agent of `live_examples`."""
HOST = (b"host", b"localhost")
JSON = (b"content-type", b"application/json")


def write(
    folder: Path, address: str = "127.0.0.1:8080", live: str = "late = 50", serve: str = "",
    rest: str = "", mode: str = "live",
) -> Path:  # fmt: skip
    """A configuration file."""
    path = folder / "config.toml"
    given = {"address": address, "live": live, "serve": serve, "rest": rest, "mode": mode}
    path.write_text(CONFIG.format(**given))
    return path


class Reply(NamedTuple):
    """What the application answered."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Local:
    """The application without a network."""

    def __init__(self, path: Path, **how: Any) -> None:
        """`how`: clock, of `State`."""
        self.lines = io.StringIO()
        self.state = State(configs.load(path), Events(self.lines), **how)
        self.app = App(self.state)

    def open(self) -> Local:
        """With its agent."""
        self.state.serve(open_agent(self.state.config, False))
        return self

    def close(self) -> None:
        if self.state.agent is not None:
            self.state.agent.defer = None
            self.state.agent.close()
        self.state.close()

    def send(
        self, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes]
    ) -> Reply:  # fmt: skip
        """One request with exactly these headers."""
        target, _, query = path.partition("?")
        sent: list[Any] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        length = [(b"content-length", str(len(body)).encode())] if body else []
        scope = {
            "type": "http", "method": method, "path": target, "query_string": query.encode(),
            "headers": [*headers, *length],
        }  # fmt: skip
        asyncio.run(self.app(scope, receive, send))
        return Reply(sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"])

    def post(self, path: str, body: Any, *headers: tuple[bytes, bytes]) -> Reply:
        """A call."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, HOST, JSON, *headers)

    def get(self, path: str, *headers: tuple[bytes, bytes]) -> Reply:
        return self.send("GET", path, b"", HOST, *headers)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was reported."""
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Process:
    """`lcpo serve` as a process."""

    def __init__(self, config: Path, port: int, wait: bool = True) -> None:
        self.config, self.port = config, port
        self.url = f"http://127.0.0.1:{port}"
        self.log = config.parent / "log.jsonl"
        with self.log.open("a") as log:
            command = [sys.executable, "-m", "lcpo.cli", "serve", str(config)]
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        if wait:
            self.wait()

    def wait(self, seconds: float = 400.0) -> None:
        """Until it is ready."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.get("/readyz")
                return
            time.sleep(0.05)
        raise AssertionError(f"the server is not ready:\n{self.log.read_text()}")

    def get(self, path: str) -> bytes:
        return urllib.request.urlopen(f"{self.url}{path}", timeout=10.0).read()

    def post(self, path: str, body: Any) -> Any:
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.url}{path}", data, kind)
        return json.loads(urllib.request.urlopen(asked, timeout=10.0).read())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(60.0)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON lines so far."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextlib.contextmanager
def running(folder: Path, **how: Any) -> Iterator[Process]:
    """A server in a folder; arguments as of `write`."""
    port = free_port()
    process = Process(write(folder, f"127.0.0.1:{port}", **how), port)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()


def connect(port: int, seconds: float = 10.0) -> socket.socket:
    """A connection to a server."""
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)

"""A headless Chromium, spoken to through two pipes in its DevTools protocol: nothing to install.

Messages are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
CONNECT = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""It reads from 3 and writes to 4: a process gives its pipes these numbers and becomes it."""
PATIENCE = 60.0
"""Seconds until an answer must have come."""


def find() -> str | None:
    """The program, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextlib.contextmanager
def browse(profile: Path) -> Iterator[Chromium]:
    """A browser, closed at the end; `profile`: an empty folder."""
    program = find()
    assert program is not None, "these tests need Chromium: apt-get install chromium"
    opened = Chromium(program, profile)
    try:
        opened.start()
        yield opened
    finally:
        opened.close()


def _move_up(pipe: int) -> int:
    """The same end of a pipe under a number that is not in the way."""
    moved = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(pipe)
    return moved


class Chromium:
    """The browser with one page."""

    def __init__(self, program: str, folder: Path) -> None:
        theirs, self._out = map(_move_up, os.pipe())
        self._in, ours = map(_move_up, os.pipe())
        command = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", CONNECT, str(theirs), str(ours), *command],
            pass_fds=(theirs, ours), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(ours)
        self._numbers, self._rest, self._session = itertools.count(1), b"", None
        self.events: list[dict[str, Any]] = []

    def start(self) -> None:
        """Open its page."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the process that was started here."""
        for pipe in (self._out, self._in):
            os.close(pipe)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method; its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]

    def _read(self) -> dict[str, Any]:
        """The next message; an event is kept, too."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            content = os.read(self._in, 1 << 16)
            assert content, "the browser has ended"
            self._rest += content
        first, _, self._rest = self._rest.partition(b"\0")
        found = json.loads(first)
        if "method" in found:
            self.events.append(found)
        return found

    def open(
        self,
        page: Path | str,
        width: int,
        height: int = 900,
        *,
        dark: bool = False,
        query: str = "",
    ) -> None:
        """Show a file or an address in a window of this size; returns when it has been loaded."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        where = page.resolve().as_uri() if isinstance(page, Path) else page
        self.send("Page.navigate", url=f"{where}?{query}")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors on the console, exceptions, and what the page's policy has refused."""
        self.evaluate("0")  # what came before has been read then
        loud = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [
            json.dumps(event["params"])
            for event in self.events
            if event["method"] in loud
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] != "log")
        ]

    def screenshot(self, file: Path) -> None:
        """The whole page, as a PNG."""
        content = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(content))

"""The status page as `lcpo serve` serves it, in a real browser: `make test-browser`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium

TOKEN = "only-for-this-test-0123456789"
CONFIG = """
folder = "agent"
[agent]
name = "a2c"
steps = 10_000
mode = "live"
[agent.config]
rollout_length = 4
[spec]
obs_size = 3
num_actions = [3]
context = {start = 1, channels = 1, lags = 2}
[live]
fallback = 1
version_every = 1
[serve]
address = "127.0.0.1:0"
token_file = "token"
"""
PATIENCE = 90.0
"""Seconds until the server is ready, or the page shows something."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve an agent; the address, and the file of events."""
    (folder / "agent.toml").write_text(CONFIG)
    (folder / "token").write_text(TOKEN)
    events = folder / "events"
    start = "from lcpo.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, "serve", "agent.toml"]
    with events.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, stderr=file)
    try:
        end = time.monotonic() + PATIENCE
        while not (found := {one["event"]: one for one in _read(events)}).get("ready"):
            assert process.poll() is None, events.read_text()
            assert time.monotonic() < end, events.read_text()
            time.sleep(0.1)
        yield f"http://{found['started']['address']}/", events
    finally:
        process.terminate()
        assert process.wait(60) == 0, events.read_text()


def _read(events: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in events.read_text().splitlines() if line.endswith("}")]


def _post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    asked = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        return json.load(answer)


def _wait(browser: chromium.Chromium, condition: str) -> None:
    end = time.monotonic() + PATIENCE
    while not browser.evaluate(condition):
        assert time.monotonic() < end, f"it did not happen: {condition}"
        time.sleep(0.05)


def test_token_values_and_rollback(tmp_path: Path) -> None:
    with chromium.browse(tmp_path / "profile") as browser, serving(tmp_path) as (url, events):
        for _ in range(20):
            made = _post(url, "v1/act", {"obs": [0.5], "context": [1.5]})
            _post(url, "v1/observe", {"id": made["id"], "reward": -2.0})
        browser.open(url, 1280)
        _wait(browser, "!document.querySelector('#access').hidden")
        assert browser.evaluate("document.querySelector('#content').hidden") is True
        # The browser reports the answer 401 itself; nothing else may be wrong.
        assert all("401" in text for text in browser.complaints())
        browser.events.clear()
        _submit(browser, "token", TOKEN)
        _wait(browser, "document.querySelectorAll('#versions tbody tr').length > 1")
        words = browser.evaluate("document.body.innerText")
        for shown in ("No comparison outside switchback mode.", "Channel 0: 1.5", "live", "ready"):
            assert shown in words
        # The first decision is answered before the policy has learned, by the fallback.
        total = "Array.from(document.querySelectorAll('#sources tbody tr'), (row) => row.cells[1]"
        assert browser.evaluate(f"{total}.textContent).map(Number).reduce((a, b) => a + b)") == 20
        browser.evaluate(
            "document.querySelector('[aria-label=\"Roll back to version 0\"]').click()"
        )
        _submit(browser, "why", "a test of the page")
        _wait(browser, "!document.querySelector('#ask').open")
        assert "Version 0 is in use again" in browser.evaluate(
            "document.querySelector('#said').textContent"
        )
        assert browser.complaints() == []
    (found,) = [one for one in _read(events) if one["event"] == "rollback"]
    assert (found["to"], found["why"]) == (0, "a test of the page")


def _submit(browser: chromium.Chromium, field: str, text: str) -> None:
    browser.evaluate(f"document.querySelector('#{field}').focus()")
    browser.send("Input.insertText", text=text)
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13,
                     text="\r")  # fmt: skip

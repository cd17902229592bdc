"""`lcpo serve` as a process: signals, systemd, sockets, kills and misuse."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import serve_kills
import serve_misuse
from commands import run
from served import Process, connect, free_port, running, write

from lcpo.serve.client import Client
from lcpo.serve.config import Address
from lcpo.serve.events import Events, notify
from lcpo.serve.server import listening

pytestmark = pytest.mark.learn
OBS = {"obs": [1.0, 2.0], "context": [3.0]}


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as found:
        yield found


def until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for something that is true."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return value


def names(server: Process) -> list[str]:
    return [event["event"] for event in server.events]


def is_ready(server: Process, times: int) -> bool:
    return names(server).count("ready") == times


def test_signals_and_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: contextlib.ExitStack
) -> None:
    notes = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    notes.bind(str(tmp_path / "notify"))
    notes.settimeout(120.0)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with running(tmp_path, serve="drain_seconds = 2") as server:
        assert notes.recv(100) == b"READY=1"
        first = server.post("/v1/act", OBS)
        path, text = server.config, server.config.read_text()
        path.write_text(text.replace("seed", "") + "[guard]\nlow = 3\n")
        server.signal(signal.SIGHUP)
        reload = until(lambda: [e for e in server.events if e["event"] == "reload"])[-1]
        assert (reload["changed"], "refused" in reload) == (["guard"], False)
        assert [notes.recv(100), notes.recv(100)] == [b"RELOADING=1", b"READY=1"]
        for number in range(5):  # the guard holds at once
            made = server.post("/v1/act", {**OBS, "stream": f"s{number}"})
            assert made["action"] == [3]
        path.write_text(path.read_text().replace('folder = "agent"', 'folder = "other"'))
        server.signal(signal.SIGHUP)
        until(lambda: names(server).count("reload") == 2)
        assert server.events[-1]["refused"] == ["folder"]
        assert server.events[-1]["hint"] == "restart the server"
        path.write_text(text.replace('mode = "live"', 'mode = "shadow"'))
        server.signal(signal.SIGHUP)
        until(lambda: names(server).count("reload") == 3)
        assert server.events[-1]["refused"] == ["agent.mode"]
        assert "POST /v1/mode" in server.events[-1]["hint"]
        path.write_text("folder = [")
        server.signal(signal.SIGHUP)
        until(lambda: names(server).count("reload") == 4)
        assert "is not a TOML file" in server.events[-1]["error"]
        assert server.post("/v1/observe", {"id": first["id"], "reward": 1.0})["result"] == "ok"
        server.signal(signal.SIGTERM)
        until(lambda: "draining" in names(server))
        with pytest.raises(urllib.error.HTTPError, match="503"):
            server.get("/readyz")
        assert server.get("/livez") == b"ok\n"
        server.post("/v1/act", {**OBS, "stream": "last"})  # it still answers
        assert server.process.wait(60.0) == 0
        assert names(server)[-2:] == ["saved", "stopped"]
        saved = server.events[-2]["sequence"]
        assert list((tmp_path / "agent" / "checkpoints").glob(f"*{saved}.json"))
    seen = [notes.recv(100) for _ in range(7)]
    assert seen == [b"RELOADING=1", b"READY=1"] * 3 + [b"STOPPING=1"]


def test_notes_without_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    assert not notify("READY=1")


def test_a_unix_socket_is_for_its_owner(tmp_path: Path) -> None:
    path = write(tmp_path, "unix:agent.sock")
    for number in (1, 2):  # the second removes the socket that the first has left
        server = Process(path, 0, wait=False)
        try:
            until(functools.partial(is_ready, server, number), 200.0)
            assert os.stat(tmp_path / "agent.sock").st_mode & 0o077 == 0
            with Client(f"unix:{tmp_path / 'agent.sock'}", timeout=60.0) as client:
                assert client.act(OBS["obs"], OBS["context"]).source == "policy"
                assert client.status()["mode"] == "live"
        finally:
            server.kill()


def test_the_socket_of_the_next_server_stays(tmp_path: Path) -> None:
    """It may be there before the old server has saved its checkpoint and exits."""
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as other:
        with listening(Address("", 0, path)) as own:
            own.close()  # as when it drains
            path.unlink()
            other.bind(str(path))
            other.listen()
        assert path.exists()
    with listening(Address("", 0, path)):
        assert path.exists()
    assert not path.exists()


def test_what_cannot_start_says_why(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run("serve", str(write(tmp_path, f"127.0.0.1:{port}"))) == 2
        assert "cannot be used: Address already in use" in capsys.readouterr().err
    (tmp_path / "agent").write_text("not a folder")
    server = Process(write(tmp_path, f"127.0.0.1:{free_port()}"), 0, wait=False)
    assert server.process.wait(120.0) == 2
    assert "is a file: give a folder" in server.log.read_text()


def test_slow_and_idle_connections_are_closed(tmp_path: Path) -> None:
    with running(tmp_path, serve="request_seconds = 2\nmax_connections = 20") as server:
        head = b"POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for part in (b"", b"POST /v1", head + b"Content-Length: 50\r\n\r\n{"):
            with connect(server.port, 30.0) as wire:
                wire.sendall(part)
                answer = wire.recv(1000)
                assert answer.startswith(b"HTTP/1.1 408 ")
                assert b"did not come within 2 s" in answer
                assert wire.recv(1000) == b""
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(connect(server.port)) for _ in range(30)]
            assert server.post("/v1/act", OBS)["id"] == 0
            assert "too many connections" in server.log.read_text()
            assert len(wires) == 30


def test_malformed_requests_harm_nobody(tmp_path: Path) -> None:
    with serve_misuse.serving(tmp_path) as server:
        found = serve_misuse.play(server, requests=150, idle=100)
        allowed = {"400", "401", "404", "405", "408", "409", "413", "415", "421", "closed", "gone"}
        assert set(found.answers) <= allowed, found.answers
        assert found.answers["401"] > 0
        assert serve_misuse.TOKEN not in server.log.read_text()
        assert len(found.busy) > 0
        assert not [event for event in server.events if event["event"] == "bug"]
        assert server.stop() == 0


def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = serve_kills.play(tmp_path, requests=300, kills=2)
    assert found.kills == 2
    assert found.local > 0
    assert "none lost, none doubled" in serve_kills.check(tmp_path, found)


def test_floods_of_refusals_are_counted(capsys: pytest.CaptureFixture) -> None:
    events = Events(sys.stderr)
    threads = [threading.Thread(target=events.refused, kwargs={"status": 400}) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events._second -= 1
    events.refused(status=400)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert sum(line.get("left_out", 0) for line in lines) >= 10
    assert len(lines) < 40

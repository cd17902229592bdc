"""The client against a server of the test's own, which answers, waits, or is not there."""

from __future__ import annotations

import ast
import collections
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import free_port

from lcpo.serve import client as clients
from lcpo.serve.client import Client, Refused, Unavailable

MADE = {"id": 7, "action": [2], "probability": 0.5, "policy_version": 3, "source": "policy"}


class Script:
    """A server that does what a function says: (path, body) -> (status, answer), or None: it says
    nothing until `freed`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answer: Callable[[str, Any], tuple[int, Any] | None] = lambda path, body: (200, MADE)
        self.freed = threading.Event()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                script.calls.append((self.path, body))
                script.token = self.headers["Authorization"]
                found = script.answer(self.path, body)
                if found is None:
                    script.freed.wait(30.0)
                    self.close_connection = True
                    return
                data = json.dumps(found[1]).encode()
                self.send_response(found[0])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.token: str | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]


@pytest.fixture
def script() -> Iterator[Script]:
    found = Script()
    yield found
    found.freed.set()
    found.server.shutdown()
    found.server.server_close()


def test_it_needs_only_the_standard_library() -> None:
    tree = ast.parse(Path(clients.__file__).read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    assert names <= sys.stdlib_module_names


def test_answers_and_arguments(script: Script) -> None:
    with Client(script.url, "secret", timeout=20.0) as client:
        assert client.act([1, 2.5], 3, stream="s", taken=2) == (7, [2], 0.5, 3, "policy")
        body = script.calls[0][1]
        assert len(body.pop("key")) == 32
        assert body == {"obs": [1.0, 2.5], "context": 3, "stream": "s", "taken": 2}
        assert script.token == "Bearer secret"
        script.answer = lambda path, body: (200, {"result": "ok"})
        assert client.observe(7, 1.5, terminated=True, next_obs=[1.0, 2.0])
        assert client.flush(20.0)
        outcome = {"id": 7, "reward": 1.5, "terminated": True, "next_obs": [1.0, 2.0]}
        assert script.calls[-1] == ("/v1/observe", outcome)
        with pytest.raises(ValueError, match="JSON"):
            client.observe(7, float("nan"))
    for wrong in ("127.0.0.1:80", "ftp://x", "http://x/path", "http://x:8o80", "http://x:99999"):
        with pytest.raises(ValueError, match="needs http://HOST:PORT or unix:PATH"):
            Client(wrong)


def test_the_fallback_answers_where_no_server_is() -> None:
    with Client(f"http://127.0.0.1:{free_port()}", fallback=4) as client:
        assert client.act([1.0]) == (None, 4, None, None, "local")
        assert client.observe(None, 1.0)
        assert client.flush(0.0)
    with Client("unix:/nowhere.sock", fallback=lambda obs, context: [obs[0], context]) as client:
        assert client.act([1.0], 5.0).action == [1.0, 5.0]
    with Client("unix:/nowhere.sock") as client, pytest.raises(Unavailable):
        client.act([1.0])


def test_a_silent_server_is_left_alone_and_its_decision_discarded(script: Script) -> None:
    script.answer = lambda path, body: None
    client = Client(script.url, timeout=0.2, fallback=4, rest=1000.0)
    assert client.act([1.0], stream="s").source == "local"
    assert client.act([2.0], stream="s").source == "local"
    assert script.paths == ["/v1/act"]  # the second was not asked
    key = script.calls[0][1]["key"]
    script.freed.set()
    found = {"/v1/discard": {"discarded": 1}, "/v1/act": MADE}
    script.answer = lambda path, body: (200, found[path])
    client._silent_until, client._timeout = 0.0, 20.0
    assert client.act([3.0], stream="s").id == 7
    assert script.calls[1] == ("/v1/discard", {"stream": "s", "key": key})
    assert script.paths[1:] == ["/v1/discard", "/v1/act"]
    assert client.act([3.0], stream="s").id == 7
    assert script.paths[3:] == ["/v1/act"]
    client.close()


@pytest.mark.parametrize("then", [(503, {"error": "not ready"}), None])
def test_a_decision_of_a_server_that_died_is_discarded(script: Script, then: Any) -> None:
    """The request went out on a kept connection, and the second attempt did not reach a server."""
    script.freed.set()  # an answer of None closes the connection
    with Client(script.url, timeout=20.0, fallback=4) as client:
        client.act([1.0])
        make = client._acting._make
        script.answer = lambda path, body: None if len(script.calls) == 2 else then
        if then is None:  # nobody listens any more
            client._acting._make = _refused
        assert client.act([2.0]).source == "local"
        client._acting._make = make
        found = {"/v1/discard": {"discarded": 1}, "/v1/act": MADE}
        script.answer = lambda path, body: (200, found[path])
        before = len(script.calls)
        assert client.act([3.0]).id == 7
    assert [path for path, _ in script.calls[before:]] == ["/v1/discard", "/v1/act"]
    assert script.calls[before][1]["key"] == script.calls[1][1]["key"]


def test_a_server_that_is_back_before_its_outcomes_is_asked_again(script: Script) -> None:
    """Without `late=` it refuses to act until it has them."""
    back = threading.Event()

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/observe":
            return (200, {"result": "ok"}) if back.is_set() else (503, {"error": "not ready"})
        return (200, MADE) if back.is_set() else (409, {"error": "it waits for its reward"})

    script.answer = answer
    with Client(script.url, timeout=20.0, fallback=4) as client:
        assert client.observe(1, 2.0)
        assert client.act([1.0]).source == "local"
        client._fallback = None
        with pytest.raises(Unavailable, match="outcomes wait to be sent"):
            client.act([1.0])
        back.set()
        assert client.flush(20.0)
        assert client.act([1.0]).id == 7
        assert client._uncertain == {}
        script.answer = lambda path, body: (409, {"error": "it waits for its reward"})
        with pytest.raises(Refused, match="409"):  # nothing is under way: the call is wrong
            client.act([1.0])


def _refused(seconds: float) -> Any:
    raise ConnectionRefusedError("nobody listens")


def test_outcomes_are_repeated_until_they_are_acknowledged(script: Script) -> None:
    answers = [(503, {"error": "not ready"})] * 3 + [(200, {"result": "duplicate"})]
    script.answer = lambda path, body: answers.pop(0) if answers else (409, {"error": "another"})
    client = Client(script.url)
    assert client.observe(1, 2.0)
    assert client.flush(20.0)
    assert script.calls == [("/v1/observe", {"id": 1, "reward": 2.0})] * 4
    assert client.lost == []
    assert client.observe(2, 2.0)
    assert client.flush(20.0)
    assert "409: another" in client.lost[0]  # repeating it would not help
    assert len(script.calls) == 5
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.observe(3, 1.0)


def test_a_stream_leaves_after_its_outcomes(script: Script) -> None:
    free = threading.Event()
    found = {"/v1/observe": {"result": "ok"}, "/v1/end": {"discarded": 1}}
    script.answer = lambda path, body: (
        (200, found[path]) if free.is_set() else (503, {"error": "not ready"})
    )
    with Client(script.url, timeout=20.0) as client:
        client._uncertain["s"] = ["key"]
        assert client.observe(1, 2.0)
        with pytest.raises(Unavailable, match="outcomes wait to be sent"):
            client.end("s", timeout=0.1)
        assert "/v1/end" not in script.paths
        free.set()
        assert client.end("s", timeout=20.0) == 1
        assert script.calls[-2:] == [
            ("/v1/observe", {"id": 1, "reward": 2.0}), ("/v1/end", {"stream": "s"})
        ]  # fmt: skip
        assert client._uncertain == {}
        script.answer = lambda path, body: (404, {"error": "there is no stream 's'"})
        with pytest.raises(Refused, match="404"):
            client.end("s", timeout=20.0)


def test_the_queue_is_bounded() -> None:
    client = Client(f"http://127.0.0.1:{free_port()}", queue=2)
    assert [client.observe(number, 1.0) for number in range(4)] == [True, True, False, False]
    assert not client.flush(0.0)
    assert not client.close(0.1)


def test_a_wrong_call_raises(script: Script) -> None:
    script.answer = lambda path, body: (400, {"error": "obs has shape [1]"})
    with Client(script.url, timeout=20.0, fallback=4) as client:
        with pytest.raises(Refused, match=r"400: obs has shape \[1\]"):
            client.act([1.0])
        with pytest.raises(Refused) as error:
            client.step([{"act": {"obs": [1.0]}}], timeout=20.0)
        assert error.value.status == 400


def test_a_kept_connection_that_was_closed_is_opened_again(script: Script) -> None:
    with Client(script.url, timeout=20.0) as client:
        client.act([1.0])
        client._acting._open.sock.shutdown(socket.SHUT_RDWR)
        assert client.act([1.0]).id == 7
        keys = [body["key"] for _, body in script.calls]
        assert len(set(keys)) == 2


def test_numbers_of_numpy_are_sent_as_they_were(script: Script) -> None:
    gone = threading.Event()
    script.answer = lambda path, body: (200, MADE) if gone.wait(20.0) else None
    seen: Any = np.array([1.0, 2.0], np.float32)
    number: Any = np.float32
    wrong: Any = object()
    with Client(script.url, timeout=20.0) as client:
        assert client.observe(7, number(1.5), next_obs=seen, terminated=np.bool_(True))
        seen[:] = 9.0  # the caller uses its array again, before the outcome is sent
        with pytest.raises(TypeError, match="cannot be sent: give numbers, lists or arrays"):
            client.observe(7, wrong)
        gone.set()
        client.act(seen, number(3.0), taken=np.int64(2))
        client.act(seen, seen[:1])
        client.act(seen, collections.deque([9]))
    outcome = {"id": 7, "reward": 1.5, "next_obs": [1.0, 2.0], "terminated": True}
    assert script.calls[0] == ("/v1/observe", outcome)
    found = [(body["context"], body.get("taken")) for _, body in script.calls[1:]]
    assert found == [(3.0, 2), ([9.0], None), ([9], None)]


def test_a_proxy_whose_server_is_away_is_asked_again(script: Script) -> None:
    away = [(502, "<html>"), (504, {"error": "late"}), (429, ["slowly"]), (200, {"result": "ok"})]
    script.answer = lambda path, body: away.pop(0)
    with Client(script.url, timeout=20.0, fallback=4) as client:
        assert client.observe(1, 2.0)
        assert client.flush(20.0)
        assert (len(script.calls), client.lost) == (4, [])
        for status in (504, 500, 503):
            script.answer = lambda path, body, status=status: (status, {"error": "not now"})
            assert client.act([1.0], stream=f"s{status}").source == "local"
        # What may have been decided is discarded later.
        assert sorted(client._uncertain) == ["s500", "s504"]
        client._fallback = None
        with pytest.raises(Unavailable, match="503: not now"):
            client.act([1.0])


def test_act_is_in_time_while_another_thread_waits(script: Script) -> None:
    script.answer = lambda path, body: (200, MADE) if path == "/v1/act" else None
    with Client(script.url, timeout=0.3, fallback=4) as client:

        def step() -> None:
            with pytest.raises(Unavailable):
                client.step([], timeout=30.0)

        waiting = threading.Thread(target=step)
        waiting.start()
        while "/v1/step" not in script.paths:
            time.sleep(0.01)
        client._timeout = 20.0
        assert client.act([1.0]).id == 7  # on a connection of its own
        client._timeout = 0.3
        with client._acting._lock:  # as another thread, whose call gets no answer
            began = time.monotonic()
            assert client.act([1.0]).source == "local"
            assert time.monotonic() - began < 10.0
        script.freed.set()
        waiting.join(60.0)


def test_act_waits_for_earlier_outcomes_only(script: Script) -> None:
    def answer(path: str, body: Any) -> tuple[int, Any] | None:
        if body.get("id") == 1:  # another thread reports more before this one is acknowledged
            client.observe(2, 1.0)
        return None if body.get("id") == 2 else (200, MADE)

    script.answer = answer
    client = Client(script.url, timeout=40.0)
    client.observe(1, 1.0)
    began = time.monotonic()
    assert client.act([1.0]).id == 7
    assert time.monotonic() - began < 10.0
    script.freed.set()
    client.close(0.0)


def test_threads_settle_a_decision_once(script: Script) -> None:
    both = threading.Barrier(2, timeout=20.0)
    client = Client(script.url, timeout=20.0, fallback=4)
    client._uncertain["s"] = ["a", "b"]
    discarded: list[str] = []

    def call(method: str, path: str, data: str, until: float) -> Any:
        if path == "/v1/discard":
            discarded.append(json.loads(data)["key"])
            if len(discarded) <= 2:
                both.wait()
        return MADE

    client._acting.call = call  # pyright: ignore
    failed: list[BaseException] = []

    def act() -> None:
        try:
            client.act([1.0], stream="s")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=act) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert failed == []
    assert set(discarded) == {"a", "b"}
    assert client._uncertain == {}

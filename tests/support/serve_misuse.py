"""Malformed requests for a server, and somebody who notices how long others have to wait.

    python tests/support/serve_misuse.py [--requests 2000] [--idle 1000]

Starts a server of its own. Every malformed request must get a 4xx status, or a closed connection.
Meanwhile a well-behaved client acts and measures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from served import Process, connect, running

GOOD = {"obs": [1.0, 2.0], "context": [3.0], "stream": "s"}
TOKEN = "only-for-this-test-0123456789"
HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nAuthorization: {token}\r\n"


def bodies(rng: random.Random) -> bytes:
    """A body that is wrong."""
    wrong = [
        {"obs": [1.0]}, {"obs": []}, {"obs": [[1.0, 2.0]]}, {"obs": "x"}, {"obs": None},
        {**GOOD, "context": [1.0, 2.0]}, {**GOOD, "stream": ""}, {**GOOD, "stream": 7},
        {**GOOD, "taken": 2}, {**GOOD, "deterministic": 1}, {**GOOD, "key": ""},
        {**GOOD, "key": "k" * 200}, {**GOOD, "extra": 1}, {}, [], 7, "x", None,
        {"obs": [1e300, 2.0], "context": [3.0]}, {"obs": [True, 2.0], "context": [3.0]},
        {"obs": [10**400, 2.0], "context": [3.0]}, {"obs": list(range(5000))},
    ]  # fmt: skip
    raw = [
        b"", b"{", b"\xff\xfe", b'{"obs": [NaN, 1.0], "context": [1.0]}', b"[" * 30000,
        b'{"obs": [Infinity, 1.0]}', b'{"obs": [1e999, 1.0]}', b'{"obs": [1, 2], "obs": "x"}',
        b'{"__reduce__": ["os.system", "id"]}', b"\x80\x04\x95", bytes(rng.randbytes(200)),
        b'{"folder": "/etc/passwd", "obs": [1, 2]}', b"x" * 70000,
    ]  # fmt: skip
    return rng.choice([*(json.dumps(each).encode() for each in wrong), *raw])


def request(rng: random.Random) -> bytes:
    """A request that is wrong."""
    body = bodies(rng)
    kind, host, path, token = "application/json", "127.0.0.1", "/v1/act", f"Bearer {TOKEN}"
    match rng.randrange(11):
        case 0:
            kind = rng.choice(["text/plain", "application/x-www-form-urlencoded", ""])
        case 1:
            host = rng.choice(["evil.example", "127.0.0.1.evil.example", "", "x:1:2"])
        case 2:
            path = rng.choice(["/v1/../etc/passwd", "/page/..%2f..%2fx", "/v1/exec", "/%00", "*"])
        case 3:
            path = rng.choice(["/v1/observe", "/v1/mode", "/v1/rollback", "/v1/end", "/v1/discard"])
        case 4:
            return rng.choice(
                [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n"]
            )
        case 5:
            return b"DELETE /v1/act HTTP/1.1\r\nHost: localhost\r\n\r\n"
        case 6:
            return f"GET / HTTP/1.1\r\nHost: localhost\r\nX: {'y' * 40000}\r\n\r\n".encode()
        case 7:
            head = HEAD.format(path=path, host=host, kind=kind, token=token)
            return f"{head}Content-Length: {rng.choice(['-1', 'x', '9' * 30])}\r\n\r\n".encode()
        case 8:
            body = json.dumps(GOOD).encode()
            token = rng.choice(["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN[:-1]])
    head = HEAD.format(path=path, host=host, kind=kind, token=token)
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask(port: int, content: bytes, rng: random.Random) -> str:
    """Send something; the status, or "closed"."""
    with connect(port, 5.0) as wire:
        try:
            match rng.randrange(12):
                case 0:  # the client goes away in the middle
                    wire.sendall(content[: len(content) // 2])
                    return "gone"
                case 1:  # half-closed
                    wire.sendall(content)
                    wire.shutdown(socket.SHUT_WR)
                case 2:  # slowly
                    for start in range(0, len(content), max(1, len(content) // 5)):
                        wire.sendall(content[start : start + max(1, len(content) // 5)])
                        time.sleep(0.01)
                case _:
                    wire.sendall(content)
            found = wire.recv(65536)
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "silent"
    return found[9:12].decode() if found.startswith(b"HTTP/1.1 ") else "closed"


class Found(NamedTuple):
    """What came of it."""

    answers: Counter[str]
    quiet: np.ndarray
    """Latencies of the well-behaved client before, in seconds."""
    busy: np.ndarray
    """And meanwhile."""


BEHAVE = """
import http.client, json, sys, time
wire, times, good = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1])), [], sys.argv[2]
about = {"Content-Type": "application/json", "Authorization": f"Bearer {sys.argv[3]}"}
print("begins", flush=True)
import threading
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
while not stop.wait(0.005):
    began = time.perf_counter()
    wire.request("POST", "/v1/act", good, about)
    answer = wire.getresponse()
    answer.read()
    times.append(time.perf_counter() - began)
    assert answer.status == 200
print(json.dumps(times))
"""
"""A client that acts until its standard input ends; in a process of its own."""


def measured(port: int, work: Callable[[], object]) -> np.ndarray:
    """Latencies of a well-behaved client while something else happens."""
    command = [sys.executable, "-c", BEHAVE, str(port), json.dumps(GOOD), TOKEN]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        work()
        text, _ = process.communicate()
    return np.array(json.loads(text))


def serving(folder: Path) -> contextlib.AbstractContextManager[Process]:
    """A server that needs the token."""
    (folder / "token").write_text(TOKEN)
    return running(folder, serve='token_file = "token"')


def play(server: Process, requests: int, idle: int, seed: int = 0) -> Found:
    """So many malformed requests, beside idle connections."""
    rng, answers = random.Random(seed), Counter()

    def misbehave() -> None:
        waiting = [connect(server.port) for _ in range(idle)]
        for number in range(requests):
            if number % 100 == 0:  # one that never ends its headers, one that never ends its body
                for part in (b"POST /v1/act HTTP/1.1\r\nHost: lo", b"POST /v1/act HTTP/1.1\r\n"
                             b"Host: localhost\r\nContent-Type: application/json\r\n"
                             b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
                             b"Content-Length: 50\r\n\r\n{"):  # fmt: skip
                    waiting.append(connect(server.port))
                    waiting[-1].sendall(part)
            answers[ask(server.port, request(rng), rng)] += 1
        for wire in waiting:
            wire.close()

    quiet = measured(server.port, lambda: time.sleep(2.0))
    return Found(answers, quiet, measured(server.port, misbehave))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--idle", type=int, default=1000)
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        found = play(server, given.requests, given.idle)
        print(dict(found.answers))
        for name, times in (("before", found.quiet), ("meanwhile", found.busy)):
            p50, p99, most = 1e3 * np.percentile(times, [50, 99, 100])
            print(f"{name}: {len(times)} acts, p50 {p50:.2f} ms, p99 {p99:.2f} ms, {most:.1f} ms")
        bugs = [event for event in server.events if event["event"] == "bug"]
        print("bugs:", bugs[:2], "exit:", server.stop())


if __name__ == "__main__":
    main()

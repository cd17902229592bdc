"""What does `lcpo serve` cost? Latency and throughput next to a bare endpoint, and hours of load.

    python benchmarks/serve.py latency [--seconds 10] [--pause 2]
    python benchmarks/serve.py throughput [--seconds 5]
    python benchmarks/serve.py load [--minutes 60] [--rate 200]

Servers and the load are processes of their own, on the loopback. The agent has the sizes of the
windy Pendulum and learns in the background. The bare endpoint is Starlette, on the same uvicorn,
uvloop and httptools: it reads the JSON and answers with a constant. Both are measured alternately.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import uvloop

CONFIG = """
folder = "agent"
[agent]
name = "lcpo"
steps = 1000000
mode = "live"
[spec]
obs_size = 9
num_actions = [15]
context = {{start = 3, channels = 2, lags = 3}}
[live]
late = 100
fallback = 7
[serve]
address = "127.0.0.1:{port}"
"""
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def act(request):
    await request.json()
    return JSONResponse({"id": 0, "action": [7], "probability": 0.1, "policy_version": 0})
app = Starlette(routes=[Route("/v1/act", act, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", loop="uvloop", http="httptools")
"""


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """`lcpo serve` in a process: its port and its id."""
    port = free_port()
    (folder / "config.toml").write_text(CONFIG.format(port=port))
    command = [sys.executable, "-m", "lcpo.cli", "serve", str(folder / "config.toml")]
    with open(folder / "log.jsonl", "w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            wait(port, "/readyz")
            yield port, process.pid
        finally:
            process.terminate()


@contextlib.contextmanager
def bare() -> Iterator[int]:
    """The bare endpoint in a process: its port."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", BARE, str(port)]) as process:
        try:
            wait(port, "/v1/act")
            yield port
        finally:
            process.terminate()


def wait(port: int, path: str) -> None:
    """Until a server answers."""
    until = time.monotonic() + 600.0
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5.0)
            return
        except urllib.error.HTTPError as error:
            if error.code == 405:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError(f"port {port} is not ready")


class Wire(asyncio.Protocol):
    """One kept-alive connection that sends a request and waits for its answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.read, self.answer = transport, b"", None

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, found, body = self.read.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= length and self.answer is not None:
            self.read, answer, self.answer = b"", self.answer, None
            if not answer.done():  # nobody waits for it any more
                answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError("closed"))

    async def post(self, path: str, body: dict) -> tuple[int, dict]:
        """Status and answer."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)  # pyright: ignore
        status, found = await self.answer
        return status, json.loads(found)


async def connect(port: int) -> Wire:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Wire, "127.0.0.1", port))[1]


def question(rng: np.random.Generator, stream: int) -> dict:
    row = rng.normal(size=5).round(6).tolist()
    return {"obs": row[:3], "context": row[3:], "stream": str(stream)}


async def converse(
    port: int, seconds: float, pause: float, stream: int, times: list[float], observe: bool
) -> None:
    """One client: it acts, observes if asked, and waits."""
    wire, rng = await connect(port), np.random.default_rng(stream)
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        status, made = await wire.post("/v1/act", question(rng, stream))
        times.append(time.perf_counter() - began)
        assert status == 200, made
        if observe:
            status, made = await wire.post("/v1/observe", {"id": made["id"], "reward": 1.0})
            assert status == 200, made
        if pause:
            await asyncio.sleep(1e-3 * pause)
    wire.transport.close()  # pyright: ignore


def measure(port: int, clients: int, seconds: float, pause: float, observe: bool) -> np.ndarray:
    """Latencies of `act` in microseconds."""
    times: list[float] = []

    async def everyone() -> None:
        each = [converse(port, seconds, pause, i, times, observe) for i in range(clients)]
        await asyncio.gather(*each)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(everyone())
    return 1e6 * np.array(times)


def leave(port: int, clients: int) -> None:
    """End the clients' streams: later calls would settle decisions that got no outcome."""
    for stream in range(clients):
        body, kind = json.dumps({"stream": str(stream)}), {"Content-Type": "application/json"}
        place = f"http://127.0.0.1:{port}/v1/end"
        urllib.request.urlopen(urllib.request.Request(place, body.encode(), kind)).read()


def updates(port: int) -> int:
    found = urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status").read()
    return json.loads(found)["stats"]["updates"]


def latency(given: argparse.Namespace) -> None:
    """One client, while the agent learns; the bare endpoint before and after."""
    with (
        tempfile.TemporaryDirectory() as folder,
        bare() as other,
        server(Path(folder)) as (port, _),
    ):
        for _ in range(given.rounds):
            for name, where, observe in (("bare", other, False), ("lcpo serve", port, True)):
                before = updates(port)
                found = measure(where, 1, given.seconds, given.pause, observe)
                p50, p99, most = np.percentile(found, [50, 99, 100])
                print(
                    f"{name:10}: {len(found):,} acts, p50 {p50:.0f} us, p99 {p99:.0f} us, "
                    f"longest {most / 1000:.1f} ms, {updates(port) - before} updates",
                    flush=True,
                )


def throughput(given: argparse.Namespace) -> None:
    """1, 8 and 64 clients that do not pause; with rewards, half of the requests are acts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        bare() as other,
        server(Path(folder)) as (port, _),
    ):
        for clients in (1, 8, 64):
            for name, where, observe in (
                ("bare", other, False), ("act", port, False), ("act and observe", port, True)
            ):  # fmt: skip
                found = measure(where, clients, given.seconds, 0.0, observe)
                if where == port and not observe:
                    leave(port, clients)
                rate = (1 + observe) * len(found) / given.seconds
                p50, p99 = np.percentile(found, [50, 99])
                print(
                    f"{clients:2} clients, {name:15}: {rate:,.0f} requests/s, act p50 "
                    f"{p50:.0f} us, p99 {p99:.0f} us",
                    flush=True,
                )


async def pace(port: int, pid: int, minutes: float, rate: float) -> None:
    """A steady rate over 8 connections, half acts and half observations; one line per minute."""
    wires = [await connect(port) for _ in range(8)]
    rng, pairs = np.random.default_rng(0), asyncio.Queue()
    failed, times, delays = 0, [], []

    async def work(number: int) -> None:
        nonlocal failed
        while True:
            due = await pairs.get()
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                began = time.perf_counter()
                delays.append(began - due)  # all connections were waiting, or the timer was late
                status, made = await wires[number].post("/v1/act", question(rng, number))
                times.append(time.perf_counter() - began)
                failed += status != 200
                status, made = await wires[number].post(
                    "/v1/observe", {"id": made["id"], "reward": float(rng.normal())}
                )
                failed += status != 200 or made["result"] != "ok"
            except (ConnectionError, KeyError) as error:
                failed += 1
                print(f"failed: {error!r}", flush=True)
                wires[number] = await connect(port)

    tasks = [asyncio.create_task(work(i)) for i in range(8)]
    began = time.perf_counter()
    print(f"begins at {memory(pid):.1f} MiB", flush=True)
    for minute in range(round(minutes)):
        times.clear()
        delays.clear()
        for i in range(round(60 * rate / 2)):
            due = began + 60 * minute + i * 2 / rate
            pairs.put_nowait(due)
        await asyncio.sleep(max(0.0, began + 60 * (minute + 1) - time.perf_counter()))
        p50, p99, most = np.percentile(np.array(times), [50, 99, 100]) * 1e6
        print(
            f"minute {minute + 1}: {2 * len(times) / 60:.0f} requests/s, act p50 {p50:.0f} us, "
            f"p99 {p99:.0f} us, longest {most / 1000:.1f} ms, "
            f"sent up to {1000 * max(delays):.1f} ms late, {failed} failed, "
            f"{memory(pid):.1f} MiB, {updates(port)} updates",
            flush=True,
        )
    for task in tasks:
        task.cancel()


def memory(pid: int) -> float:
    """Resident memory of a process in MiB (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def load(given: argparse.Namespace) -> None:
    """A steady rate for a long time."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (port, pid):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(pace(port, pid, given.minutes, given.rate))
        lines = (Path(folder) / "log.jsonl").read_text().splitlines()
        print("events:", sorted({json.loads(line)["event"] for line in lines}))


def main() -> None:
    parser = argparse.ArgumentParser(description="What does `lcpo serve` cost?")
    parser.add_argument("what", choices=("latency", "throughput", "load"))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=2.0, help="milliseconds after a pair")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    {"latency": latency, "throughput": throughput, "load": load}[given.what](given)


if __name__ == "__main__":
    main()

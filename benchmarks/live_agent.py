"""What does a live agent cost? Events per second, latency of calls, memory and disk.

    python benchmarks/live_agent.py [--events 1000000] [--agent lcpo] [--learn background]
    python benchmarks/live_agent.py --pause 2 --events 60000

The agent has the sizes of the windy Pendulum: 3 features, 2 context channels with 3 values each, 15
actions, an MLP of 64-64. Threads share one agent, each with a stream of its own. Without a pause
they compete for the interpreter with the thread that learns: that measures throughput. With a pause
of some milliseconds between decisions, latencies are those of a service.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import lcpo.live
from lcpo import ContextSlice, Spec

SPEC = Spec(9, ContextSlice(start=3, channels=2, lags=3), num_actions=(15,))


def serve(
    agent: lcpo.live.LiveAgent, stream: str, decisions: int, times: list[float], pause: float
) -> None:
    rng = np.random.default_rng(len(stream))
    rows = rng.normal(size=(1000, 5)).astype(np.float32)
    for step in range(decisions):
        row = rows[step % 1000]
        began = time.perf_counter()
        decision = agent.act(row[:3], row[3:], stream=stream)
        times.append(time.perf_counter() - began)
        agent.observe(float(row[0]), id=decision.id)
        if pause:
            time.sleep(1e-3 * pause)


def timed_updates(agent: lcpo.live.LiveAgent) -> list[float]:
    """The durations of updates from now on, in seconds."""
    core, durations = agent._core, list[float]()

    def timed() -> None:
        began = time.perf_counter()
        type(core)._update(core)
        durations.append(time.perf_counter() - began)

    core._update = timed  # pyright: ignore[reportAttributeAccessIssue]
    return durations


def measure(folder: Path, given: argparse.Namespace, threads: int, decisions: int) -> None:
    options = {"learn": given.learn, "keep_log": not given.drop, "durability": given.durability}
    agent = lcpo.live.open(
        folder, given.agent, SPEC, steps=given.events, mode="live", late=5, **options
    )
    agent.warm_up()
    times: list[list[float]] = [[] for _ in range(threads)]
    each = decisions // threads
    workers = [
        threading.Thread(target=serve, args=(agent, str(i), each, times[i], given.pause))
        for i in range(threads)
    ]
    updates = timed_updates(agent)
    before, began = agent.stats().sequence, time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds, found = time.perf_counter() - began, agent.stats()
    p50, p99, p999, last = np.percentile(np.concatenate(times), [50, 99, 99.9, 100]) * 1e6
    update, slow = np.percentile(updates or [np.nan], [50, 99]) * 1e3
    rate = (found.sequence - before) / seconds
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{threads} threads, {found.sequence:,} events, {found.updates} updates: "
        f"{rate:,.0f} events/s, act p50 {p50:.0f} us, p99 {p99:.0f}, p99.9 {p999:.0f}, "
        f"slowest {last:.0f}, update p50 {update:.1f} ms, p99 {slow:.1f}, "
        f"folder {size / 1e6:.0f} MB, peak memory {peak:.0f} MiB",
        flush=True,
    )
    agent.close()
    began = time.perf_counter()
    lcpo.live.open(folder, learn=given.learn).close()
    print(f"  opened again in {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What does a live agent cost?")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--agent", default="lcpo")
    parser.add_argument("--learn", default="background", choices=("now", "background"))
    parser.add_argument("--durability", default="process", choices=("process", "power"))
    parser.add_argument("--pause", type=float, default=0.0, help="milliseconds after a decision")
    parser.add_argument("--drop", action="store_true", help="drop segments after checkpoints")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 4])
    given = parser.parse_args()
    for threads in given.threads:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "agent", given, threads, given.events // 3)


if __name__ == "__main__":
    main()

"""What a call of `lcpo.Learner` costs, alone and while it learns in the background.

    python benchmarks/learner.py [steps]

Windy Pendulum's sizes: 3 features, 2 channels of 3 lags, 15 actions, MLP 64-64. First, calls in a
loop that does nothing else, except for those that learn: medians, the fastest tenth (what a machine
does that has no other work), and the slowest hundredth. Then `learn="background"`, with 1 and 4
threads that each act every 2 milliseconds. On a CPU: JAX_PLATFORMS=cpu.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np

import lcpo
from lcpo.live.core import Core
from lcpo.types import ContextSlice, Spec

SPEC = Spec(9, ContextSlice(start=3, channels=2, lags=3), (15,))
AGENTS = ("a2c", "lcpo", "lcpo-plus", "ddqn")
PAUSE = 0.002


def play(learner: lcpo.Learner, steps: int, stream: str, pause: float) -> list[tuple[float, ...]]:
    """Seconds of `act` and `observe`, and whether `act` learned, step by step."""
    rng, taken = np.random.default_rng(0), []
    features, contexts = rng.normal(size=(steps, 3)), rng.normal(size=(steps, 2))
    for t in range(steps):
        before, began = learner.updates, time.perf_counter()
        learner.act(features[t], contexts[t], stream)
        acted, learned = time.perf_counter(), learner.updates > before
        learner.observe(1.0, stream=stream)
        taken.append((acted - began, time.perf_counter() - acted, learned))
        if pause:
            time.sleep(pause)
    return taken


def measure(agent: str, steps: int) -> str:
    """A row of the first table."""
    learner = lcpo.Learner(agent, SPEC, steps=steps)
    learner.warm_up()
    acts, observes, learned = np.array(play(learner, steps, "0", 0.0)).T
    quick, slow = acts[learned == 0.0][100:], acts[learned == 1.0]
    fast, usual, late = 1e6 * np.percentile(quick, [10, 50, 99])
    observe, update = 1e6 * np.median(observes), 1e3 * np.median(slow)
    return f"{agent:10} {usual:8.0f} {fast:8.0f} {late:8.0f} {observe:9.0f} {update:10.1f}"


def measure_background(agent: str, steps: int, threads: int) -> str:
    """A row of the second table."""
    updates: list[float] = []
    update = Core._update

    def timed(core: Core) -> None:
        began = time.perf_counter()
        update(core)
        updates.append(time.perf_counter() - began)

    Core._update = timed  # pyright: ignore
    learner = lcpo.Learner(agent, SPEC, steps=steps * threads, learn="background")
    taken: list[tuple[float, ...]] = []
    workers = [
        threading.Thread(target=lambda i=i: taken.extend(play(learner, steps, f"s{i}", PAUSE)))
        for i in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    learner.wait()
    learner.close()
    Core._update = update
    usual, late, last = 1e6 * np.percentile([x[0] for x in taken], [50, 99, 100])
    duration = 1e3 * np.median(updates)
    return f"{agent:10} {threads:7} {usual:8.0f} {late:8.0f} {last:8.0f} {duration:10.1f}"


def main() -> None:
    """Print both tables."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("agent        act us  fastest      p99   observe  update ms")
    for agent in AGENTS:
        print(measure(agent, steps), flush=True)
    print("\nagent      threads   act us      p99  slowest  update ms")
    for agent in AGENTS:
        for threads in (1, 4):
            print(measure_background(agent, steps // 4, threads), flush=True)


if __name__ == "__main__":
    main()

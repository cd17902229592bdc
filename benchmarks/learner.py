"""What a call of `lcpo.Learner` costs, in a loop that does nothing else.

    python benchmarks/learner.py [steps]

Windy Pendulum's sizes: 3 features, 2 channels of 3 lags, 15 actions, MLP 64-64. Of all calls but
those that learn: medians, the fastest tenth (what a machine does that has no other work), and the
slowest hundredth. On a CPU: JAX_PLATFORMS=cpu.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import lcpo
from lcpo.types import ContextSlice, Spec

SPEC = Spec(9, ContextSlice(start=3, channels=2, lags=3), (15,))


def measure(agent: str, steps: int) -> str:
    """A row of the table."""
    learner = lcpo.Learner(agent, SPEC, steps=steps)
    rng = np.random.default_rng(0)
    features, contexts = rng.normal(size=(steps, 3)), rng.normal(size=(steps, 2))
    acts, observes, updates = [], [], []
    for t in range(steps):
        before, began = learner.updates, time.perf_counter()
        learner.act(features[t], contexts[t])
        seconds = time.perf_counter() - began
        (acts if learner.updates == before else updates).append(seconds)
        began = time.perf_counter()
        learner.observe(1.0)
        observes.append(time.perf_counter() - began)
    fast, usual, late = 1e6 * np.percentile(acts[100:], [10, 50, 99])
    observe, update = 1e6 * np.median(observes), 1e3 * np.median(updates[1:])
    return f"{agent:6} {usual:8.0f} {fast:8.0f} {late:8.0f} {observe:9.0f} {update:9.1f}"


def main() -> None:
    """Print the table."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("agent    act us  fastest      p99   observe    update ms")
    for agent in ("a2c", "lcpo", "ddqn"):
        print(measure(agent, steps), flush=True)


if __name__ == "__main__":
    main()

"""What a call of `lcpo.Learner` costs, in a loop that does nothing else.

    python benchmarks/learner.py [steps]

Windy Pendulum's sizes: 3 features, 2 channels of 3 lags, 15 actions, MLP 64-64. Medians over all
calls but those that learn; "CPU" is the time of the process, which other work on the machine does
not lengthen as it does the clock's. On a CPU: JAX_PLATFORMS=cpu.
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
    acts, observes, updates = np.zeros((steps, 2)), np.zeros(steps), []
    for t in range(steps):
        now, busy, before = time.perf_counter(), time.process_time(), learner.updates
        learner.act(features[t], contexts[t])
        acts[t] = time.perf_counter() - now, time.process_time() - busy
        learned = learner.updates > before
        now = time.perf_counter()
        learner.observe(1.0)
        observes[t] = time.perf_counter() - now
        if learned:
            updates.append(acts[t, 0])
            acts[t] = np.nan
    wall, busy = 1e6 * np.nanmedian(acts, axis=0)
    late = 1e6 * np.nanpercentile(acts[:, 0], 99)
    return (
        f"{agent:6} {wall:7.0f} {late:9.0f} {busy:9.0f} {1e6 * np.median(observes):9.0f} "
        f"{1e3 * np.median(updates[1:]):10.1f}"
    )


def main() -> None:
    """Print the table."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("agent   act us    p99 us    CPU us  observe us   update ms")
    for agent in ("a2c", "lcpo", "ddqn"):
        print(measure(agent, steps), flush=True)


if __name__ == "__main__":
    main()

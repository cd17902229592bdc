"""How long does a step of the straggler simulator take, on one core?

    python benchmarks/straggler.py [worlds ...]

Microseconds of CPU time per step and world, everything included that the driver calls, under
random actions and without hedging. The best of several rounds: the machine may be shared.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from lcpo.straggler.task import NEVER, Straggler

RATES = (7.0, 20.0, 60.0)
"""Requests per second: 3.5, 10 and 30 per window."""
WORK, ROUNDS = 40_000, 5
"""Steps of all worlds together per round."""


def main() -> None:
    counts = [int(n) for n in sys.argv[1:]] or [1, 10, 45]
    print(f"{'us per step':24}" + "".join(f"{rate / 2:>10g} per window" for rate in RATES))
    for count in counts:
        for hedges in (True, False):
            cells = "".join(f"{measure(count, rate, hedges):21.2f}" for rate in RATES)
            print(f"{count:4} worlds, {'random' if hedges else 'never':12}{cells}", flush=True)


def measure(num_worlds: int, rate: float, hedges: bool) -> float:
    size = 0.3 * 10 * 1000.0 / (1.9 * rate)  # a load of 0.3
    env = Straggler(rate=rate, size=size)
    worlds, rng = env.open(num_worlds, range(num_worlds), threads=1), np.random.default_rng(0)
    worlds.reset(np.ones(num_worlds, bool))
    steps, context, best = max(1, WORK // num_worlds), np.zeros((num_worlds, 0)), np.inf
    actions = rng.integers(0, NEVER + 1, (steps, num_worlds, 1)) if hedges else None
    never = np.full((num_worlds, 1), NEVER)
    for _ in range(ROUNDS):
        start = time.process_time()
        for t in range(steps):
            worlds.step(never if actions is None else actions[t], context)
        best = min(best, (time.process_time() - start) / (steps * num_worlds))
    worlds.close()
    return 1e6 * best


if __name__ == "__main__":
    main()

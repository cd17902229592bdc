"""GPU speed against the number of runs, full float32: `python benchmarks/gpu.py [--runs N]`."""

from __future__ import annotations

import argparse
import json
import sys

import jax

from lcpo.bench import Stopwatch

GENTLE = 0.2
"""Wind that the robots withstand; the Pendulum's is 2."""
ROBOTS = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
CASES = [
    *(("pendulum", 2.0, agent, 96, 100) for agent in ("lcpo", "lcpo-plus", "a2c")),
    *(("pendulum", 2.0, agent, 1000, 40) for agent in ("lcpo", "lcpo-plus", "a2c")),
    *((env, GENTLE, "lcpo", 100, 50) for env in ROBOTS),
]
"""Environment, wind, agent, runs, updates per chunk."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, help="in place of 96 to 1000 (to try it on a CPU)")
    few = parser.parse_args().runs
    for env, wind, agent, runs, updates in CASES:
        watch = Stopwatch(agent, few or runs, updates, env, wind)
        best, *_ = times = sorted(watch.seconds() for _ in range(5))
        rate = watch.interactions / times[2] / 1e6
        row = {
            "env": env, "agent": agent, "runs": few or runs, "million_per_s": round(rate, 2),
            "best": round(watch.interactions / best / 1e6, 2),
            "ms_per_update": round(times[2] / updates * 1e3, 3),
            "compile_s": round(watch.compile_seconds, 1),
        }  # fmt: skip
        print(json.dumps(row), flush=True)
    print(jax.devices()[0].device_kind, "jax", jax.__version__, file=sys.stderr)


if __name__ == "__main__":
    main()

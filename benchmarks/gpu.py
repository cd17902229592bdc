"""GPU speed against the number of runs, full float32: `python benchmarks/gpu.py`."""

from __future__ import annotations

import json
import sys

import jax

from lcpo.bench import Stopwatch


def main() -> None:
    rows = []
    for agent, runs, updates in [
        ("lcpo", 96, 100), ("a2c", 96, 100), ("lcpo", 1000, 40), ("a2c", 1000, 40),
    ]:  # fmt: skip
        watch = Stopwatch(agent, runs, updates)
        best, *_ = times = sorted(watch.seconds() for _ in range(5))
        rate = watch.interactions / times[2] / 1e6
        rows.append(
            {"agent": agent, "runs": runs, "million_per_s": round(rate, 2),
             "best": round(watch.interactions / best / 1e6, 2),
             "ms_per_update": round(times[2] / updates * 1e3, 3),
             "compile_s": round(watch.compile_seconds, 1)}
        )  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    print(jax.devices()[0].device_kind, "jax", jax.__version__, file=sys.stderr)


if __name__ == "__main__":
    main()

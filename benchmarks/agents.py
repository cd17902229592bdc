"""Agents side by side on one core: `python benchmarks/agents.py a2c clear bfdqn pt-dqn`.

Chunks of 250 updates take turns, and the time is that which the process was running, so that
whatever else the machine does falls on all agents alike, or on none. Prints the median microseconds
per interaction, and its ratio to the first agent's.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from lcpo.bench import Stopwatch
from lcpo.run.worker import cores, pin
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    pin(cores()[0])
    watches = {name: Stopwatch(name) for name in options.agents}
    times: dict[str, list[float]] = {name: [] for name in watches}
    for _ in range(options.rounds):
        for name, watch in watches.items():
            began = time.process_time()
            watch.run()
            times[name].append(1e6 * (time.process_time() - began) / watch.interactions)
    median = {name: float(np.median(found)) for name, found in times.items()}
    first = median[options.agents[0]]
    rows = [[name, f"{us:.1f}", f"{us / first:.2f}"] for name, us in median.items()]
    header = ["agent", "microseconds per interaction", f"over {options.agents[0]}"]
    print(Table(columns(header, "lrr"), rows).to_markdown(), end="")


if __name__ == "__main__":
    main()

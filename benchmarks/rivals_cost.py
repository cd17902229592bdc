"""What the agents of `lcpo reproduce rivals` cost: `python benchmarks/rivals_cost.py`.

Microseconds of one core per interaction, on the windy Pendulum. Chunks of updates take turns, and
the time is that which the process was running: what else the machine does falls on all alike, or on
none. The median of the rounds goes to lcpo/study/data/rivals-cost.csv, for the study, and to
results/speed/rivals-cost.md, for readers. Replays are those of the 8M-step traces, after the phase
of random actions.

`--add` measures only the settings that the file lacks, next to the paper's LCPO. What it adds is
the ratio to LCPO in this run times LCPO's cost in the file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.bench import Stopwatch
from lcpo.run.worker import cores, pin
from lcpo.study.controls.rivals import CASES, PAPER, POINTS, costs, describe
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table

ROOT = Path(__file__).parents[1]
UPDATES = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--add", action="store_true")
    options = parser.parse_args()
    pin(cores()[0])
    watches: dict[tuple[str, str], Stopwatch] = {}
    old = costs() if options.add else {}
    for case in CASES:
        explores: dict[str, Any] = {"random_steps": 0} if case.agent in ("sac", "ddqn") else {}
        for setting, point in case.points().items():
            if (case.agent, setting) in old and (case.agent, setting) != PAPER:
                continue
            values = {**case.values, **point, **explores}
            watches[case.agent, setting] = Stopwatch(case.agent, updates=UPDATES, **values)
            print(case.agent, setting, flush=True)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in watches}
    for _ in range(options.rounds):
        for key, watch in watches.items():
            began = time.process_time()
            watch.run()
            times[key].append(1e6 * (time.process_time() - began) / watch.interactions)
    medians = {key: float(np.median(mine)) for key, mine in times.items()}
    scale = old[PAPER] / medians[PAPER] if old else 1.0
    measured = {key: scale * median for key, median in medians.items()} | old
    found = {key: f"{measured[key]:.1f}" for key in POINTS}
    rows = [[*key, us] for key, us in found.items()]
    data = Table(["agent", "setting", Column("microseconds")], rows)
    (ROOT / "lcpo/study/data/rivals-cost.csv").write_text(data.to_csv(), encoding="utf-8")
    header = ["one core", "setting", Column("microseconds per interaction")]
    page = Table(header, [[*describe(key)[:2], us] for key, us in found.items()])
    (ROOT / "results/speed/rivals-cost.md").write_text(page.to_markdown(), encoding="utf-8")
    print(page.to_markdown(), end="")


if __name__ == "__main__":
    main()

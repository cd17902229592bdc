"""Does a long run stay fast and small? LCPO on a 20M-step trace whose constraint is always active.

    python benchmarks/long_run.py [million steps]

Prints CPU time per interaction for every million steps, and the peak of resident memory. CPU time,
not wall time: it does not count what other processes took.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from lcpo.run.worker import pin

MILLION = 1_000_000


def main() -> None:
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    pin(0)
    from lcpo.run.drive import execute
    from lcpo.run.events import Event, Progress
    from lcpo.run.plan.plan import plan

    jobs = plan(
        "lcpo", "pendulum", trace="revisit", steps=millions * MILLION, seeds=[0],
        overrides={"buffer_size": 200_000},
    )  # fmt: skip
    marks: list[tuple[int, float]] = []

    def report(event: Event) -> None:
        if isinstance(event, Progress) and event.step >= MILLION * (len(marks) + 1):
            marks.append((event.step, time.process_time()))
            if len(marks) > 1:
                (before, since), (now, until) = marks[-2:]
                us = (until - since) / (now - before) * 1e6
                print(f"{before / MILLION:5.2f}M - {now / MILLION:5.2f}M: {us:.2f} us", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        execute.run_jobs(jobs, Path(folder), report, 1e9)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak resident memory: {peak:.2f} GiB")


if __name__ == "__main__":
    main()

"""Is a resumed group of runs equal to an undisturbed one on this device? In fresh processes.

    python benchmarks/resume.py [runs]

Runs a group of LCPO runs, each part in a process of its own: undisturbed, undisturbed again, and
stopped half way and then resumed from the checkpoint. Prints for the last two whether all results
equal those of the first, bit for bit, or by how much they differ. `XLA_FLAGS` applies as always.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PART = """
import sys
from pathlib import Path
from lcpo.run.drive import execute
from lcpo.run.events import Progress
from lcpo.run.plan.plan import plan

out, runs, stop = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "stop"
jobs = plan("lcpo", "pendulum", trace="revisit", steps=400_000, seeds=range(runs))

def report(event):
    if stop and isinstance(event, Progress) and event.step > 200_000:
        raise SystemExit

execute.run_jobs(jobs, out, report, 0.0 if stop else 1e9)
"""


def compare(first: Path, second: Path) -> str:
    """How many arrays of two folders of runs differ, and the difference of returns."""
    worst: dict[str, float] = {}
    for path in sorted(first.rglob("*.npz")):
        with np.load(path) as a, np.load(second / path.relative_to(first)) as b:
            for name in a.files:
                gap = float(np.max(np.abs(a[name].astype(float) - b[name].astype(float))))
                worst[name] = max(worst.get(name, 0.0), gap)
    different = sum(gap > 0.0 for gap in worst.values())
    return f"{different} of {len(worst)} arrays differ; epoch_return by {worst['epoch_return']:g}"


def main() -> None:
    runs = sys.argv[1] if len(sys.argv) > 1 else "8"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for out, how in (("whole", "go"), ("again", "go"), ("cut", "stop"), ("cut", "go")):
            command = [sys.executable, "-c", PART, str(folder / out), runs, how]
            subprocess.run(command, check=True)
        print(f"{runs} runs, undisturbed again: {compare(folder / 'whole', folder / 'again')}")
        print(f"{runs} runs, stopped and resumed: {compare(folder / 'whole', folder / 'cut')}")


if __name__ == "__main__":
    main()

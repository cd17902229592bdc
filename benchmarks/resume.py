"""Is a resumed group of runs equal to an undisturbed one on this device? In fresh processes.

    python benchmarks/resume.py [runs]

Runs a group of LCPO runs three times, each in a process of its own: undisturbed, stopped half way,
and resumed from the checkpoint. Prints whether all results are the same, bit for bit, or by how
much they differ.
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
from lcpo.run import execute
from lcpo.run.job import plan

out, runs, stop = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "stop"
jobs = plan("lcpo", "pendulum", trace="revisit", steps=400_000, seeds=range(runs))

def report(event):
    if stop and event["event"] == "progress" and event["step"] > 200_000:
        raise SystemExit

execute.run_jobs(jobs, out, report, 0.0 if stop else 1e9)
"""


def main() -> None:
    runs = sys.argv[1] if len(sys.argv) > 1 else "8"
    with tempfile.TemporaryDirectory() as folder:
        for out, how in (("whole", "go"), ("cut", "stop"), ("cut", "go")):
            command = [sys.executable, "-c", PART, str(Path(folder) / out), runs, how]
            subprocess.run(command, check=True)
        worst: dict[str, float] = {}
        for path in sorted((Path(folder) / "whole").rglob("*.npz")):
            other = Path(folder) / "cut" / path.relative_to(Path(folder) / "whole")
            with np.load(path) as a, np.load(other) as b:
                for name in a.files:
                    gap = float(np.max(np.abs(a[name].astype(float) - b[name].astype(float))))
                    worst[name] = max(worst.get(name, 0.0), gap)
    different = {name: gap for name, gap in worst.items() if gap > 0.0}
    print(f"{runs} runs: {len(worst)} arrays, {len(different)} differ", different or "")


if __name__ == "__main__":
    main()

"""The engine of a Slurm cluster: it runs nothing, and writes a script that does.

The script is an array of tasks; each runs the worker on its part of the plan, on a folder that all
machines share. Submitted again, it goes on with what has not ended.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from lcpo.run.events import Note, Report
from lcpo.run.plan.job import Job
from lcpo.run.store.files import save_bytes
from lcpo.run.store.layout import plan_file
from lcpo.run.store.lock import cannot_write

MOST_TASKS = 1000
"""Of an array, where nobody says: what Slurm allows unless its administrator does otherwise."""


class SlurmEngine:
    """Writes an array script (`lcpo.run.engines.base.Engine`)."""

    def __init__(self, workers: int | None = None, checkpoint_seconds: float = 60.0) -> None:
        """`workers`: tasks of the array; None: one for each job."""
        self.workers, self.checkpoint_seconds = workers, checkpoint_seconds

    def check(self, jobs: list[Job]) -> None:
        """Anything can be planned."""

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Write the script, show it, and say what to do with it. No job is begun."""
        parts = min(len(jobs), self.workers or MOST_TASKS)
        file, text = out / "slurm.sh", script(out, parts, self.checkpoint_seconds)
        try:
            (out / "logs").mkdir(exist_ok=True)  # Slurm makes no folders
            save_bytes(file, text.encode())
        except OSError as error:
            raise cannot_write(file, error) from error
        print(text)
        report(
            Note(
                f"{len(jobs)} runs are to be run: sbatch {shlex.quote(str(file))}; when they have "
                "ended, this command with --resume reports them"
            )
        )


def script(out: Path, parts: int, checkpoint_seconds: float) -> str:
    """An array of `parts` tasks, which run the plan of a folder."""
    out = out.absolute()
    log = shlex.quote(str(out / "logs").replace("%", "%%") + "/slurm-%a.txt")
    command = shlex.join([sys.executable, "-m", "lcpo.run.worker", str(plan_file(out))])
    return f"""\
#!/bin/bash
#SBATCH --job-name=lcpo
#SBATCH --array=1-{parts}
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --output={log}
#SBATCH --open-mode=append
# Add what your cluster wants: --time, --mem, --partition, --account. On GPUs: --gpus-per-task=1,
# and leave out --one-core below. Every task runs its part of the plan; what has ended is not run
# again, what was stopped goes on: submit this file again after a time limit.
cd {shlex.quote(os.getcwd())} || exit
export PYTHONPATH={shlex.quote(os.environ.get("PYTHONPATH", ""))}
exec {command} --part "$SLURM_ARRAY_TASK_ID/{parts}" \\
    --one-core --trust --checkpoint-seconds {checkpoint_seconds} > /dev/null
"""

"""The engine of a Slurm cluster: it runs nothing, but writes a script that does.

The script is an array of tasks; each runs the worker on its part of the plan, in a folder that all
machines share. Submitted again, it resumes what has not ended.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from lcpo.errors import printable
from lcpo.run.drive.execute import has_ended
from lcpo.run.events import Note, Report
from lcpo.run.plan.job import Job, check_trust, outside
from lcpo.run.store.files import save_bytes
from lcpo.run.store.layout import plan_file
from lcpo.run.store.lock import cannot_write
from lcpo.run.store.plans import numbered, planned_jobs
from lcpo.values import current_folder, has_control, refuse

MOST_TASKS = 1000
"""Default size of an array: the most that Slurm allows unless its administrator changed it."""


class SlurmEngine:
    """Writes an array script (`lcpo.run.engines.engine.Engine`)."""

    def __init__(self, workers: int | None = None, checkpoint_seconds: float = 60.0) -> None:
        """`workers`: tasks of the array; None: one for each job."""
        self.workers, self.checkpoint_seconds = workers, checkpoint_seconds

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if tasks could not change to the current folder."""
        _check_line(current_folder())

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Write the script, print it, and say how to submit it. No job is begun."""
        # The script runs all of the plan: jobs that this command does not name may not bring
        # other code.
        named, code = {job.name for job in jobs}, {name for job in jobs for name in outside(job)}
        others = [job for job in planned_jobs(out) if job.name not in named]
        brought = [job for job in others if not outside(job).keys() <= code]
        check_trust([job for job in brought if not has_ended(out, job)], False, str(plan_file(out)))
        parts = min(len(jobs), self.workers or MOST_TASKS)
        digest = numbered([jobs], out).digest
        file, text = out / "slurm.sh", script(out, digest, parts, self.checkpoint_seconds)
        try:
            (out / "logs").mkdir(exist_ok=True)  # Slurm makes no folders
            save_bytes(file, os.fsencode(text))
        except OSError as error:
            raise cannot_write(file, error) from error
        print(printable(text))
        report(
            Note(
                f"{len(jobs)} runs are to be run: sbatch {shlex.quote(str(file))}; when they have "
                "ended, this command with --resume reports them"
            )
        )


def _check_line(path: Path) -> None:
    """Raise InputError for a path that would not stay in its line of the script."""
    if has_control(str(path)):
        refuse("path", str(path), "no control characters, where Slurm is to read it")


def script(out: Path, digest: str, parts: int, checkpoint_seconds: float) -> str:
    """An array of `parts` tasks that run the plan of a folder, if it has this digest."""
    out, here = out.absolute(), current_folder()
    _check_line(out)
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
# Add what your cluster needs: --time, --mem, --partition, --account. On GPUs: --gpus-per-task=1,
# and remove --one-core below. Every task runs its part of the plan. Submit this file again after a
# time limit: runs that have ended are skipped, and runs that were stopped are resumed.
cd {shlex.quote(str(here))} || exit
export PYTHONPATH={shlex.quote(os.environ.get("PYTHONPATH", ""))}
exec {command} --part "$SLURM_ARRAY_TASK_ID/{parts}" \\
    --plan-digest {digest} --one-core --checkpoint-seconds {checkpoint_seconds} > /dev/null
"""

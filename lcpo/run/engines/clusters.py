"""The engines of clusters, whose machines share the output folder: Ray and Slurm.

A Ray engine submits a task for each share of the jobs. Ray finds a machine with a free core, or
GPU, and reports if it is lost. A task runs the same worker process as on one machine
(`process.serve`), and streams back its events in small messages. The share of a lost machine is
retried elsewhere, from its checkpoints.

A Slurm engine runs nothing, but writes a script that does: an array of tasks, each of which runs
the worker on its part of the plan. Submitted again, it resumes what has not ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcpo.errors import InputError, MissingPackage, message, printable
from lcpo.run.drive.execute import has_ended
from lcpo.run.engines.local import make_shares
from lcpo.run.engines.process import DIED, Share, Shares, serve
from lcpo.run.events import Crashed, Note, Report, from_json
from lcpo.run.plan.job import Job, check_trust, outside
from lcpo.run.store.files import save_bytes
from lcpo.run.store.layout import plan_file
from lcpo.run.store.lock import cannot_write
from lcpo.run.store.plans import numbered, planned_jobs
from lcpo.values import current_folder, has_control, refuse

HEALTH_SECONDS = 20.0
"""How long a cluster may take to answer; Ray itself would wait for minutes."""
MOST_TASKS = 1000
"""Default limit: of Ray's tasks that run or wait for a core, and of a Slurm array, as in Slurm."""


class RayEngine:
    """Runs jobs on a cluster (`lcpo.run.engines.engine.Engine`)."""

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        """`address`: HOST:PORT of the cluster's head; None: the cluster that this machine is in.

        `workers`: tasks at a time; None: as many as the cluster has room for.
        """
        self.address, self.workers = address, workers
        self.checkpoint_seconds = checkpoint_seconds
        self.joined = False  # whether to disconnect: a user's own connection stays

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if there is no cluster, or it has no core."""
        current_folder()
        ray = self._connect()
        if ray.cluster_resources().get("CPU", 0) < 1:
            raise InputError("the Ray cluster has no core for tasks: add a machine (`ray start`)")

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        ray = self._connect()
        try:
            resources = ray.cluster_resources()
            gpus = 0 if os.environ.get("JAX_PLATFORMS") == "cpu" else int(resources.get("GPU", 0))
            shares = make_shares(jobs, gpus or int(resources["CPU"]), on_gpus=gpus > 0)
            waiting, digest = numbered(shares, out)
            how = {
                "out": out.absolute(),
                "folder": current_folder(),
                "digest": digest,
                "checkpoint_seconds": self.checkpoint_seconds,
                "one_core": gpus == 0,
                "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            }
            task = ray.remote(serve).options(
                num_cpus=1, num_gpus=min(gpus, 1), max_retries=0, num_returns="streaming"
            )
            tasks = _Tasks(ray, lambda share: task.remote(share, **how), report)
            tasks.run(waiting, self.workers or MOST_TASKS)
        finally:
            if self.joined:
                ray.shutdown()

    def _connect(self) -> Any:
        """Ray, connected to the cluster; InputError if there is none."""
        try:
            import ray
        except ImportError as error:
            raise MissingPackage(
                "the engine ray needs Ray, which is not installed: pip install 'lcpo[ray]'"
            ) from error
        if ray.is_initialized():
            return ray
        where = f"at {self.address}" if self.address else "on this machine"
        if not _answers(self.address):
            raise InputError(
                f"no Ray cluster answers {where}: start one (`ray start --head`, and on other "
                "machines `ray start --address HOST:PORT`), give its --address HOST:PORT, or run "
                "on this machine alone (--engine local)"
            )
        try:
            ray.init(self.address or "auto", log_to_driver=False, logging_level=logging.ERROR)
            self.joined = True
        except Exception as error:
            raise InputError(
                f"the Ray cluster {where} cannot be joined ({message(error)}): this machine must "
                "be part of it, with the same versions of Python and Ray"
            ) from error
        return ray


def _answers(address: str | None) -> bool:
    """Whether a cluster answers, asked by a process that can be killed."""
    if address is not None:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), HEALTH_SECONDS).close()
        except (OSError, ValueError, OverflowError):
            return False
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check"]
    command += ["--address", address] if address else []
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, timeout=HEALTH_SECONDS).returncode == 0
    return False


class _Tasks(Shares):
    """Tasks, each of which runs a share. Their streams of messages are the workers."""

    def __init__(self, ray: Any, submit: Callable[[Share], Any], report: Report) -> None:
        super().__init__([], report)
        self.ray, self.submit = ray, submit

    def run(self, shares: list[Share], count: int) -> None:
        self.waiting = shares
        try:
            while self.running or self.waiting:
                while self.waiting and len(self.running) < count:
                    share = self.waiting.pop(0)
                    self.running[self.submit(share)] = share
                streams = list(self.running)
                ready, _ = self.ray.wait(
                    streams, num_returns=len(streams), timeout=0.2, fetch_local=False
                )
                for stream in ready:
                    self._hear(stream)
        finally:
            for stream in self.running:
                self.ray.cancel(stream, force=True)

    def _hear(self, stream: Any) -> None:
        try:
            said = self.ray.get(next(stream))
        except StopIteration:
            self.running.pop(stream)
            return
        except self.ray.exceptions.RayTaskError as error:  # raised by `serve`, or before it
            hint = "is the same version of lcpo installed on every machine?"
            for name in self.running.pop(stream):
                self.report(Crashed(name, f"its task could not be run: {message(error)} ({hint})"))
            return
        except self.ray.exceptions.RayError as error:
            said = {DIED: f"its task was lost: {message(error).split('. ')[0]}"}
        if DIED not in said:
            self.heard(stream, from_json(said))
        elif share := self.running.pop(stream):
            self.retry(share, said[DIED])


class SlurmEngine:
    """Writes an array script (`lcpo.run.engines.engine.Engine`)."""

    def __init__(self, workers: int | None = None, checkpoint_seconds: float = 60.0) -> None:
        """`workers`: tasks of the array; None: one for each job."""
        self.workers, self.checkpoint_seconds = workers, checkpoint_seconds

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if tasks could not change to the current folder."""
        _check_line(current_folder())

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Write the script, print it, and report how to submit it. No job is started."""
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
                f"submit {len(jobs)} runs: sbatch {shlex.quote(str(file))}; when they have ended, "
                "run this command with --resume for the report"
            )
        )


def _check_line(path: Path) -> None:
    """Raise InputError for a path that would not stay on its line of the script."""
    if has_control(str(path)):
        refuse("path", str(path), "a path without control characters, which Slurm cannot read")


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

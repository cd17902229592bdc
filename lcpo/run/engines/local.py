"""The engine of this machine: one process per core, or on a GPU one program after the other.

On a CPU vmap over seeds gains nothing, so each core gets its own pinned worker, which runs one
share of the jobs after another: a single job, or its part of the runs of a host environment, which
step together. A seed gives the same result alone and in a group. Output of workers goes to logs. A
worker that dies is replaced, and its share retried.

On a GPU the runs of a program are one share, and by default this process runs all of them. A
program of some fifty runs leaves most of a large GPU idle: with `--workers`, several programs run
side by side, each in a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import queue
from collections.abc import Hashable
from pathlib import Path

import jax

from lcpo.errors import InputError, RunError
from lcpo.run import stop
from lcpo.run.drive import execute
from lcpo.run.engines.process import Log, Said, Shares, WorkerProcess
from lcpo.run.events import Crashed, Event, Progress, Report
from lcpo.run.plan.budget import check_memory, largest_share
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store.layout import log_file
from lcpo.run.store.plans import numbered
from lcpo.run.worker import cores

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""Environment variable: whether a process takes most of a GPU's memory at once."""


class LocalEngine:
    """Runs jobs on this machine (`lcpo.run.engines.engine.Engine`)."""

    def __init__(self, workers: int | None = None, checkpoint_seconds: float = 60.0) -> None:
        """`workers`: processes at a time; 0: in this process. None: one per core, on a GPU 0."""
        self.workers, self.checkpoint_seconds = workers, checkpoint_seconds

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError if memory is short, or taken by this process."""
        shares, count = self._shares(jobs)
        if count > 0 and jax.default_backend() != "cpu" and os.environ.get(PREALLOCATE) != "false":
            raise InputError(
                f"--workers {self.workers} on a GPU: this process has taken most of its memory: "
                f"set {PREALLOCATE}=false, and start NVIDIA's MPS (nvidia-cuda-mps-control -d), "
                "without which workers run one at a time; or leave --workers out"
            )
        check_memory(shares, max(count, 1))

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        shares, count = self._shares(jobs)
        if count > 0:
            _Workers(shares, out, report, self.checkpoint_seconds).run(count)
            return

        def here(event: Event) -> None:
            """Report an event; the traceback of a run that breaks goes to a log."""
            if isinstance(event, Crashed) and event.details:
                with contextlib.suppress(InputError):  # a log that cannot be written stops no run
                    log = Log(log_file(out, None))
                    log.begin([event.job])
                    log.write(event.details)
                    log.close()
                    event = dataclasses.replace(event, reason=log.named(event.reason))
            report(event)

        with stop.on_signals():
            for share in shares:
                execute.run_jobs(share, out, here, self.checkpoint_seconds)

    def _shares(self, jobs: list[Job]) -> tuple[list[list[Job]], int]:
        """What runs together, and in how many processes; 0: in this one."""
        if jax.default_backend() != "cpu":
            count = self.workers or 0
            shares = make_shares(jobs, 1, on_gpus=True) if count else [jobs]
        else:
            count = len(cores()) if self.workers is None else self.workers
            shares = make_shares(jobs, max(count, 1))
        return shares, min(count, len(shares))


def make_shares(jobs: list[Job], processes: int, on_gpus: bool = False) -> list[list[Job]]:
    """What runs together on a CPU: a job alone, or host runs in as many parts as processes.

    `on_gpus`: each process has a GPU: all runs that share a program, in as many parts.
    """
    groups: dict[Hashable, list[Setup]] = {}
    for setup in map(Setup, jobs):
        groups.setdefault(setup.statics(), []).append(setup)
    alone, together = [], []
    for group in groups.values():
        (together if on_gpus or group[0].is_host else alone).append([s.job for s in group])
    # One of each program in turn: processes that start together compile different programs, and
    # find each other's in the cache.
    turns = itertools.zip_longest(*alone)
    shares = [[job] for turn in turns for job in turn if job is not None]
    for group in together:
        size = -(-len(group) // processes)
        if not on_gpus:
            size = min(size, largest_share(group[0], processes))
        parts = -(-len(group) // size)
        shares += [group[i::parts] for i in range(parts)]  # of equal size, or one less
    return shares


class _Workers(Shares):
    """Worker processes, each of which runs one share of the jobs after another."""

    def __init__(
        self, shares: list[list[Job]], out: Path, report: Report, checkpoint_seconds: float
    ) -> None:
        waiting, self.digest = numbered(shares, out)
        super().__init__(waiting, report)
        self.out, self.checkpoint_seconds = out, checkpoint_seconds
        # Not Queue: a signal handler that puts into one may find it locked by its own thread.
        self.queue: queue.SimpleQueue[tuple[WorkerProcess, Said] | None] = queue.SimpleQueue()
        # Runs to be saved on a stop: a host run can stop within its first chunk, others after it.
        self.stoppable = {job.name for share in shares for job in share if Setup(job).is_host}
        self.is_stopping, self.unfinished = False, False
        self.processes: dict[int | str, WorkerProcess] = {}

    def run(self, count: int) -> None:
        try:
            with stop.on_signals(lambda: self.queue.put(None)):
                for number in range(count):
                    self._start(number)
                while self.running:
                    said = self.queue.get()
                    if said is None:
                        self._stop()
                    else:
                        self._hear(*said)
            if self.unfinished:
                raise stop.Asked
        finally:
            for process in self.processes.values():
                process.kill()
            for process in self.processes.values():
                process.close()
        if self.waiting:
            lost = ", ".join(name for share in self.waiting for name in share)
            raise RunError(f"not started, because no worker is left: {lost}; --resume starts them")

    def _start(self, number: int | str) -> None:
        """Start a worker, or replace it, and feed it."""
        if number in self.processes:
            self.processes[number].close()
        process = WorkerProcess(
            self.out, self.digest, number, lambda *said: self.queue.put(said),
            self.checkpoint_seconds, one_core=jax.default_backend() == "cpu",
        )  # fmt: skip
        self.processes[number] = process
        self._feed(process)

    def _feed(self, process: WorkerProcess) -> None:
        self.running.pop(process, None)
        if self.waiting:
            self.running[process] = self.waiting.pop(0)
            process.feed(self.running[process])

    def _stop(self) -> None:
        """Let every worker save its runs and exit; a worker that is still compiling is killed."""
        self.is_stopping, self.unfinished, self.waiting = True, bool(self.waiting), []
        for process, share in self.running.items():
            if self.stoppable.isdisjoint(share):
                process.kill()
            else:
                process.stop()

    def _hear(self, process: WorkerProcess, said: Said) -> None:
        if said is None:
            self._feed(process)
        elif isinstance(said, str):
            self._died(process, said)
        else:
            if isinstance(said, Progress):
                self.stoppable.add(said.job)
            self.heard(process, said)

    def _died(self, process: WorkerProcess, how: str) -> None:
        """Let another worker retry the runs that this one has not ended, up to a limit.

        A worker that exited before it reported anything is replaced for a retry only.
        """
        share = self.running.pop(process, {})
        if share and self.is_stopping:
            self.unfinished = True
        elif share:
            again = self.retry(share, process.log_end(share, how))
            if again or (process.spoke and self.waiting):
                self._start(process.number)

"""The engine of this machine: one process per core, or on a GPU everything in this one.

On a CPU vmap over seeds gains nothing, so each core gets a worker of its own, pinned to it, that is
fed one share of the jobs after another: a single job, or its part of the runs of a host
environment, which step together. A worker behaves the same whether it is alone or one of many, so
a seed gives the same result alone and in a group.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

import jax

from lcpo.errors import RunError
from lcpo.run import events
from lcpo.run.drive import execute
from lcpo.run.events import Crashed, Event, Progress, Report
from lcpo.run.plan.budget import check_memory, largest_share
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store.layout import plan_file
from lcpo.run.store.plans import planned_jobs
from lcpo.run.worker import IDLE, cores


class LocalEngine:
    """Runs jobs on this machine (`lcpo.run.engines.base.Engine`)."""

    def __init__(self, workers: int | None = None, checkpoint_seconds: float = 60.0) -> None:
        """`workers`: processes at a time. None: one per core; 0: in this process."""
        self.workers, self.checkpoint_seconds = workers, checkpoint_seconds

    def check(self, jobs: list[Job]) -> None:
        """Raise InputError where memory is short."""
        shares, count = self._shares(jobs)
        check_memory(shares, max(count, 1))

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        """Run the jobs; `check` has been called."""
        shares, count = self._shares(jobs)
        if count > 0:
            _Workers(shares, out, report, count, self.checkpoint_seconds).run()
            return
        for share in shares:
            execute.run_jobs(share, out, report, self.checkpoint_seconds)

    def _shares(self, jobs: list[Job]) -> tuple[list[list[Job]], int]:
        """What is run together, and in how many processes; 0: in this one."""
        if jax.default_backend() != "cpu":
            return [jobs], 0
        count = len(cores()) if self.workers is None else self.workers
        shares = make_shares(jobs, max(count, 1))
        return shares, min(count, len(shares))


def make_shares(jobs: list[Job], processes: int) -> list[list[Job]]:
    """What is run together on a CPU: a job alone, or host runs in as many parts as processes."""
    shares, groups = [], []
    for setup in map(Setup, jobs):
        if not setup.is_host:
            shares.append([setup.job])
            continue
        found = next((g for g in groups if g[0].statics() == setup.statics()), None)
        if found is None:
            groups.append([setup])
        else:
            found.append(setup)
    for group in groups:
        members = [setup.job for setup in group]
        size = min(-(-len(members) // processes), largest_share(members[0], processes))
        parts = -(-len(members) // size)
        shares += [members[i::parts] for i in range(parts)]  # of equal size, or one less
    return shares


_WAITS, _ENDED = "waits", "ended"
"""Of a worker: it has run its share; its output has ended."""


class _Workers:
    """Worker processes, each fed one share of the jobs after another."""

    def __init__(
        self,
        shares: list[list[Job]],
        out: Path,
        report: Report,
        count: int,
        checkpoint_seconds: float,
    ) -> None:
        self.report = report
        self.heard: queue.Queue[tuple[int, Event | str]] = queue.Queue()
        numbers = {job.name: i for i, job in enumerate(planned_jobs(out))}
        self.waiting = [{job.name: numbers[job.name] for job in share} for share in shares]
        self.current: dict[int, dict[str, int]] = {}  # what each worker has not ended yet
        self.logs: list[IO[str]] = []
        self.processes: list[subprocess.Popen[str]] = []
        command = [sys.executable, "-m", "lcpo.run.worker", str(plan_file(out)), "--feed"]
        command += ["--trust"]  # the user's own words: `prepare` has compared jobs and plan
        command += ["--checkpoint-seconds", str(checkpoint_seconds)]
        available = cores()
        for i in range(count):
            log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the worker has died
            core = ["--core", str(available[i % len(available)])]
            process = subprocess.Popen(
                command + core,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            self.logs.append(log)
            self.processes.append(process)
            threading.Thread(target=self._read, args=(i,), daemon=True).start()

    def run(self) -> None:
        crashed: list[str] = []
        try:
            for i in range(len(self.processes)):
                self._feed(i)
            while self.current:
                worker, event = self.heard.get()
                if event == _WAITS:
                    self._feed(worker)
                elif event == _ENDED:
                    if worker in self.current:
                        crashed.append(self._crash(worker))
                elif not isinstance(event, str):
                    if not isinstance(event, Progress):
                        self.current[worker].pop(event.job, None)
                    self.report(event)
        finally:
            self._close()
        if crashed or self.waiting:
            lost = ", ".join(name for share in self.waiting for name in share)
            more = f"; not started: {lost}" if lost else ""
            raise RunError("; ".join(crashed) + more)

    def _close(self) -> None:
        for process, log in zip(self.processes, self.logs, strict=True):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, log):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()  # pyright: ignore[reportOptionalMemberAccess]

    def _read(self, worker: int) -> None:
        """Pass on what a worker says; runs in a thread of its own."""
        stdout = self.processes[worker].stdout
        assert stdout is not None
        with contextlib.suppress(ValueError):  # closed: the plan has come to its end
            for line in stdout:
                values = json.loads(line)
                self.heard.put((worker, _WAITS if values == IDLE else events.from_json(values)))
        self.heard.put((worker, _ENDED))

    def _feed(self, worker: int) -> None:
        self.current.pop(worker, None)
        if not self.waiting:
            return
        share = self.waiting.pop(0)
        self.current[worker] = share
        stdin = self.processes[worker].stdin
        assert stdin is not None
        # A broken pipe: the worker died; its output has ended, and `run` hears of it.
        with contextlib.suppress(BrokenPipeError):
            print(*share.values(), file=stdin, flush=True)

    def _crash(self, worker: int) -> str:
        names, code = list(self.current.pop(worker)), self.processes[worker].wait()
        self.logs[worker].seek(0)
        lines = self.logs[worker].read().strip().splitlines()
        reason = lines[-1] if lines else f"exit code {code}"
        for name in names:
            self.report(Crashed(name, reason))
        return f"{', '.join(names)} stopped: {reason}"

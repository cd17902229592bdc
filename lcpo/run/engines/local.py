"""The engine of this machine: one process per core, or on a GPU everything in this one.

On a CPU vmap over seeds gains nothing, so each core gets a worker of its own, pinned to it, that is
fed one share of the jobs after another: a single job, or its part of the runs of a host
environment, which step together. A worker behaves the same whether it is alone or one of many, so
a seed gives the same result alone and in a group. What workers print is kept in logs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax

from lcpo.errors import InputError, RunError
from lcpo.run.channel import Garbled, read_events
from lcpo.run.drive import execute
from lcpo.run.engines.log import Log
from lcpo.run.events import Crashed, Event, Note, Progress, Report
from lcpo.run.plan.budget import check_memory, largest_share
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store.layout import log_file, plan_file
from lcpo.run.store.lock import descriptor_of
from lcpo.run.store.plans import planned_jobs
from lcpo.run.worker import cores


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
            _Workers(shares, out, report).run(count, self.checkpoint_seconds)
            return
        here = functools.partial(_report_and_log, report, out)
        for share in shares:
            execute.run_jobs(share, out, here, self.checkpoint_seconds)

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


def _report_and_log(report: Report, out: Path, event: Event) -> None:
    """Report an event of this process; the traceback of a run that breaks goes to a log."""
    if isinstance(event, Crashed) and event.details:
        with contextlib.suppress(InputError):  # a log that cannot be written stops no run
            log = Log(log_file(out, None))
            log.begin([event.job])
            log.write(event.details)
            log.close()
            event = dataclasses.replace(event, reason=log.named(event.reason))
    report(event)


_IDLE, _ENDED = "idle", "ended"
"""Of a worker: it has run its share; its process has ended."""

_LAST_WORDS_SECONDS = 5.0
"""How long the pipe of a worker that has ended may stay open: child processes may hold it."""


class _Workers:
    """Worker processes, each fed one share of the jobs after another."""

    def __init__(self, shares: list[list[Job]], out: Path, report: Report) -> None:
        self.report, self.out = report, out
        self.heard: queue.Queue[tuple[int, Event | str | Exception]] = queue.Queue()
        numbers = {job.name: i for i, job in enumerate(planned_jobs(out))}
        self.waiting = [{job.name: numbers[job.name] for job in share} for share in shares]
        self.current: dict[int, dict[str, int]] = {}  # what each worker has not ended yet
        self.logs: list[Log] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.watches: list[threading.Thread] = []

    def run(self, count: int, checkpoint_seconds: float) -> None:
        try:
            for core in itertools.islice(itertools.cycle(cores()), count):
                self._start(core, checkpoint_seconds)
            for worker in range(count):
                self._feed(worker)
            while self.current:
                self._hear(*self.heard.get())
        finally:
            self._close()
        if self.waiting:
            lost = ", ".join(name for share in self.waiting for name in share)
            raise RunError(f"not begun, since no worker is left: {lost}; --resume begins them")

    def _start(self, core: int, checkpoint_seconds: float) -> None:
        worker, lock = len(self.processes), descriptor_of(self.out)
        command = [sys.executable, "-m", "lcpo.run.worker", str(plan_file(self.out)), "--feed"]
        command += ["--checkpoint-seconds", str(checkpoint_seconds), "--core", str(core)]
        command += ["--trust"]  # the user's own words: `prepare` has compared jobs and plan
        if lock is not None:
            command += ["--lock", str(lock)]
        log = Log(log_file(self.out, worker))
        self.logs.append(log)
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.descriptor,
                bufsize=0, pass_fds=() if lock is None else (lock,),
            )  # fmt: skip
        except OSError as error:
            raise InputError(
                f"worker process {worker + 1} cannot be started ({error.strerror}): run fewer at a "
                "time (--workers)"
            ) from error
        self.processes.append(process)
        watch = threading.Thread(target=self._watch, args=(worker,), daemon=True)
        self.watches.append(watch)
        watch.start()

    def _watch(self, worker: int) -> None:
        """Wait for a worker's end, which is told after all that it said; in a thread of its own."""
        reader = threading.Thread(target=self._read, args=(worker,), daemon=True)
        reader.start()
        self.processes[worker].wait()
        reader.join(_LAST_WORDS_SECONDS)
        self.heard.put((worker, _ENDED))

    def _read(self, worker: int) -> None:
        """Pass on what a worker says; in a thread of its own."""
        stdout = self.processes[worker].stdout
        assert stdout is not None
        with stdout:
            try:
                for event in read_events(stdout.fileno()):
                    self.heard.put((worker, _IDLE if event is None else event))
            except Exception as error:  # whatever it is, the driver must not wait for more
                self.heard.put((worker, error))

    def _hear(self, worker: int, event: Event | str | Exception) -> None:
        if isinstance(event, Exception):
            self.processes[worker].kill()
            what = "said something that is no event" if isinstance(event, Garbled) else "is silent"
            self._crash(worker, f"its worker {what}: {event}")
        elif event == _IDLE:
            self._feed(worker)
        elif event == _ENDED:
            self._crash(worker, f"its worker {_how_it_ended(self.processes[worker].wait())}")
        elif not isinstance(event, str):
            if isinstance(event, Crashed) and event.details:  # the worker has logged them
                event = dataclasses.replace(event, reason=self.logs[worker].named(event.reason))
            if not isinstance(event, Progress | Note):
                self.current.get(worker, {}).pop(event.job, None)
            self.report(event)

    def _feed(self, worker: int) -> None:
        self.current.pop(worker, None)
        if not self.waiting:
            return
        share = self.waiting.pop(0)
        self.current[worker] = share
        self.logs[worker].begin(share)
        stdin = self.processes[worker].stdin
        assert stdin is not None
        # A broken pipe: the worker died; `_watch` tells.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"{' '.join(map(str, share.values()))}\n".encode())

    def _crash(self, worker: int, reason: str) -> None:
        """Report what a worker has not ended, unless that has been done."""
        names = self.current.pop(worker, {})
        if names:
            self.logs[worker].write(f"{', '.join(names)} stopped: {reason}\n")
        for name in names:
            self.report(Crashed(name, self.logs[worker].named(reason)))

    def _close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        for watch in self.watches:
            watch.join()
        for log in self.logs:
            log.close()


def _how_it_ended(code: int) -> str:
    """In words, from the return code of a process."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
        memory = ", as the system does where memory is short" if name == "SIGKILL" else ""
        return f"was ended by {name}{memory}"
    return f"was ended by signal {-code}"

"""Run a plan on this machine: one process per core, or on a GPU everything in this one.

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
from typing import Any

import jax

from lcpo.bench import cores
from lcpo.errors import InputError
from lcpo.run.drive import execute
from lcpo.run.drive.execute import Report
from lcpo.run.plan.budget import check_memory, largest_share
from lcpo.run.plan.job import SCHEMA, Job, Setup
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import record as records

PLAN = "plan.json"


def run_plan(
    jobs: list[Job],
    out: Path,
    report: Report,
    *,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
) -> None:
    """Run what has not ended yet. `workers`: processes at a time (None: one per core; 0: here).

    Raises ValueError before any work where the folder holds something else, or memory is short.
    """
    on_cpu = jax.default_backend() == "cpu"
    waiting = prepare(jobs, out, resume)
    if not waiting:
        return
    count = (len(cores()) if workers is None else workers) if on_cpu else 0
    shares = make_shares(waiting, max(count, 1)) if on_cpu else [waiting]
    count = min(count, len(shares))
    check_memory(shares, max(count, 1))
    write_plan(jobs, out)
    if count == 0:
        for share in shares:
            execute.run_jobs(share, out, report, checkpoint_seconds)
    else:
        _Workers(shares, out, report, count, checkpoint_seconds).run()


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


def prepare(jobs: list[Job], out: Path, resume: bool) -> list[Job]:
    """The jobs that have not ended yet, after a look at what the folder holds."""
    plan = out / PLAN
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: give a folder")
    if out.exists() and any(out.iterdir()) and not plan.exists():
        raise InputError(f"{out} is not empty and holds no runs of ours: give another folder")
    if plan.exists():
        if not resume:
            raise InputError(
                f"{out} holds runs already: go on with them (--resume) or give another folder"
            )
        known = {job["name"]: Job(**job) for job in records.load_json(plan)["jobs"]}
        for job in jobs:
            if job.name in known:
                checkpoints.same_job(known[job.name], job, f"{job.name} in {out}")
    return [job for job in jobs if execute.manifest(out, job) is None]


def write_plan(jobs: list[Job], out: Path) -> None:
    """Write the plan: the jobs planned before, then the new ones."""
    path = out / PLAN
    known = records.load_json(path)["jobs"] if path.exists() else []
    names = {job["name"] for job in known}
    new = [job.to_json() for job in jobs if job.name not in names]
    records.save_json(path, {"schema": SCHEMA, "out": ".", "jobs": [*known, *new]})


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
        self.events: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        numbers = {job["name"]: i for i, job in enumerate(records.load_json(out / PLAN)["jobs"])}
        self.waiting = [{job.name: numbers[job.name] for job in share} for share in shares]
        self.current: dict[int, dict[str, int]] = {}  # what each worker has not ended yet
        self.logs: list[Any] = []
        self.processes: list[subprocess.Popen[str]] = []
        command = [sys.executable, "-m", "lcpo.run.worker", str(out / PLAN), "--feed"]
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
                worker, event = self.events.get()
                if event is None:  # its output has ended
                    if worker in self.current:
                        crashed.append(self._crash(worker))
                elif event["event"] == "idle":
                    self._feed(worker)
                else:
                    if event["event"] != "progress":
                        self.current[worker].pop(event["job"], None)
                    self.report(event)
        finally:
            for process, log in zip(self.processes, self.logs, strict=True):
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout, log):
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()  # pyright: ignore[reportOptionalMemberAccess]
        if crashed or self.waiting:
            lost = ", ".join(name for share in self.waiting for name in share)
            more = f"; not started: {lost}" if lost else ""
            raise RuntimeError("; ".join(crashed) + more)

    def _read(self, worker: int) -> None:
        stdout = self.processes[worker].stdout
        assert stdout is not None
        with contextlib.suppress(ValueError):  # closed: the plan has come to its end
            for line in stdout:
                self.events.put((worker, json.loads(line)))
        self.events.put((worker, None))

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
            self.report({"job": name, "event": "crashed", "reason": reason})
        return f"{', '.join(names)} stopped: {reason}"

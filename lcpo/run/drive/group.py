"""Runs that advance together: phase by phase, chunk by chunk, with records and checkpoints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lcpo.core import health
from lcpo.run import events, stop
from lcpo.run.drive.base import ChunkMetrics, Driver
from lcpo.run.drive.choose import make_driver, state_shapes
from lcpo.run.plan import budget
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase, phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import record as records
from lcpo.run.store.checkpoint import Checkpoint, Saved
from lcpo.run.store.files import save_arrays
from lcpo.run.store.layout import run_files
from lcpo.run.store.plans import keeps_state
from lcpo.run.store.policy_file import save_policy
from lcpo.run.store.results import provenance, save_outcome

CHUNK_UPDATES, CHUNK_STEPS = 250, 50_000
"""Limits of a chunk: about a second of work, and of silence, on one core."""
GPU_CHUNKS = 4
"""A program on a GPU has so many times as long ones: between two of them it waits for the host."""

Rows = list[list[records.Record]]
"""Of each run, the parts of its record in this phase."""


class Group:
    """One run, or several that share a program (`Setup.statics`)."""

    def __init__(
        self, setups: list[Setup], out: Path, report: events.Report, checkpoint_seconds: float
    ) -> None:
        self.setups, self.report = setups, report
        self.checkpoint_seconds, self.keep_state = checkpoint_seconds, keeps_state(out)
        self.many = len(setups) > 1
        named = {(s.job.trace, s.job.scale): s for s in setups}
        loaded = {name: setup.trace() for name, setup in named.items()}
        self.traces = [loaded[s.job.trace, s.job.scale] for s in setups]
        self.identities = [setup.identity() for setup in setups]
        self.files = [run_files(out, setup.job.name) for setup in setups]
        self.failed: dict[int, events.Failed] = {}
        self.written: list[dict[str, str]] = [{} for _ in setups]  # digests by file

    def run(self, found: Sequence[Checkpoint | None]) -> None:
        """Run to the end from the checkpoints given, all at the same update, or from the start.

        Raises `StoppedRuns` where worlds cannot go on; their checkpoints stay. Raises `stop.Asked`
        where it is asked to stop, after all runs were saved.
        """
        stop.check()
        first = found[0]
        start, self.seconds = (first.update, first.seconds) if first else (0, 0.0)
        self.began = self.last_saved = time.monotonic()
        self.saved = [Saved(f, c) for f, c in zip(self.files, found, strict=True) if c]
        self.written = [dict(c.written) if c else {} for c in found]
        rows: Rows = [[c.record] if c and c.record else [] for c in found]
        phases = self.setups[0].phases
        self.resumed_at = phase_at(phases, start).step_at(start)
        state = None
        for phase in phases:
            if start >= phase.end:
                continue
            begin = max(start - phase.mode.first_update, 0)
            driver, state = self._run_phase(phase, begin, state, rows)
            self._save_records(phase, rows)
            if len(self.failed) == len(self.setups) or phase is phases[-1]:
                self._finish(driver, state)
                driver.close(state)
                return
            rows = [[] for _ in self.setups]

    def _run_phase(
        self, phase: Phase, begin: int, before: Any, rows: Rows
    ) -> tuple[Driver[Any], Any]:
        """From update `begin` of the phase, or from the state at the end of the phase before."""
        block = records.block_size(phase.num_updates)
        size = self._chunk_size(phase, block)
        driver = make_driver(self.setups, phase, size, self.traces)
        if begin == 0:
            state = driver.start(before)
        else:
            shapes = state_shapes(self.setups[0], phase.mode.first_update + begin)
            state = driver.resume(self.saved, shapes)
            self.saved = []
        try:
            is_last = phase is self.setups[0].phases[-1]
            keep_at = _last_row(phase, block) if self.keep_state and is_last else 0
            for first, count in _chunks(begin, phase.num_updates, size, keep_at):
                state, metrics = driver.chunk(state, first, count)
                count = min(count, len(metrics["episodes"].T))  # fewer: it was asked to stop
                if first == begin:
                    budget.settle()
                self._collect(phase, block, metrics, range(first, first + count), rows)
                if len(self.failed) == len(self.setups):
                    break
                update = phase.mode.first_update + first + count
                self._progress(phase, update, rows)
                if update < phase.end:
                    self._save_if_due(driver, state, update, rows, first + count == keep_at)
        except BaseException:
            with contextlib.suppress(Exception):  # what broke first is what is told
                driver.close(state)
            raise
        return driver, state

    def _chunk_size(self, phase: Phase, block: int) -> int:
        """Updates at a time: whole rows of the record, and no more than the phase has."""
        is_host = self.setups[0].is_host
        turns = len(self.setups) if is_host else 1  # runs of a host environment take their turns
        longer = 1 if is_host or jax.default_backend() == "cpu" else GPU_CHUNKS
        short = max(1, longer * CHUNK_STEPS // (phase.steps_per_update * turns))
        return -(-min(longer * CHUNK_UPDATES, short, phase.num_updates) // block) * block

    def _collect(
        self, phase: Phase, block: int, metrics: ChunkMetrics, updates: range, rows: Rows
    ) -> None:
        """Thin the metrics of a chunk; a run that cannot learn any more has failed."""
        arrays = {k: np.asarray(v) for k, v in metrics.items()}
        for i, setup in enumerate(self.setups):
            if i in self.failed:
                continue
            mine = {k: (v[i] if self.many else v)[: len(updates)] for k, v in arrays.items()}
            problem = health.find(mine)
            if problem:
                quantity, row = problem
                self.failed[i] = events.Failed(
                    setup.job.name,
                    quantity,
                    str(float(mine[quantity][row])),
                    (updates[row] + 1) * phase.steps_per_update,
                    phase.name,
                )
                mine = {k: v[: row // block * block] for k, v in mine.items()}
            mine = health.without_signs(mine)
            if len(mine["episodes"]):
                rows[i].append(records.thin(mine, updates[0], block, phase.steps_per_update))

    def _progress(self, phase: Phase, update: int, rows: Rows) -> None:
        for i, setup in enumerate(self.setups):
            if i not in self.failed:
                newest = records.lifelong_return(rows[i][-1])
                step = phase.step_at(update)
                self.report(
                    events.Progress(
                        setup.job.name, phase.name, step, self.resumed_at, newest,
                        records.means(rows[i][-1]),
                    )
                )  # fmt: skip

    def _seconds_so_far(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _save_if_due(
        self, driver: Driver[Any], state: Any, update: int, rows: Rows, is_kept: bool
    ) -> None:
        """Write a checkpoint now and then, and where one will be kept; or because it is the end."""
        late = time.monotonic() - self.last_saved > self.checkpoint_seconds
        asked = stop.is_asked()
        if late or asked or is_kept:
            self._checkpoint(driver, state, update, rows)
            self.last_saved = time.monotonic()
        if asked:
            raise stop.Asked

    def _checkpoint(self, driver: Driver[Any], state: Any, update: int, rows: Rows) -> None:
        for i, (part, index) in enumerate(driver.members(state)):
            if i not in self.failed:
                rows[i] = [records.join(rows[i])]
                checkpoint = Checkpoint(
                    update, part, rows[i][0], self._seconds_so_far(), written=self.written[i]
                )
                checkpoints.save(self.files[i], self.identities[i], checkpoint, index)

    def _save_records(self, phase: Phase, rows: Rows) -> None:
        members = zip(self.setups, self.files, rows, self.written, strict=True)
        for setup, files, mine, written in members:
            if mine:
                record = records.join(mine)
                record = record if setup.is_timed else records.shorten(record)
                written[phase.file] = save_arrays(files.record_of(phase.file), record)

    def _finish(self, driver: Driver[Any], state: Any) -> None:
        """Policy and manifest of each run, the manifest last; then drop checkpoints."""
        for i, agent in enumerate(driver.agents(state)):
            setup, files, failed = self.setups[i], self.files[i], self.failed.get(i)
            if failed is None:
                arrays = checkpoints.flatten(agent)
                self.written[i][files.policy.name] = save_policy(files.policy, setup, arrays)
            outcome = {
                "status": "failed" if failed else "finished",
                **({"failure": _failure(failed)} if failed else {}),
                "job": setup.job.to_json(),
                "seconds": round(self._seconds_so_far(), 3),
                "runs_together": len(self.setups),
                "exact_resume": driver.exact_resume,
                **({"notes": notes} if (notes := list(setup.notes)) else {}),
                "environment": {
                    "advance": setup.env.advance,
                    "num_worlds": setup.spec.num_worlds,
                },
                "trace_digest": self.identities[i]["trace_digest"],
                "provenance": provenance(),
            }
            if self.keep_state and failed is None:
                checkpoints.keep(files)  # before the manifest: a kill in between loses nothing
            save_outcome(files, outcome, self.written[i])
            checkpoints.drop(files)
            self.report(failed or events.Finished(setup.job.name))


def _failure(event: events.Failed) -> dict[str, Any]:
    """As the manifest has it."""
    fields = ("quantity", "value", "step", "phase")
    return {name: getattr(event, name) for name in fields}


def _last_row(phase: Phase, block: int) -> int:
    """Where the last row of the record begins: the state of then is kept, and not the last one.

    The last observation of a run shows the row after its last one, which a trace of the length of
    the run does not have. A longer run has it: so the last row is run again.
    """
    return (phase.num_updates - 1) // block * block


def _chunks(begin: int, end: int, size: int, cut: int) -> Iterator[tuple[int, int]]:
    """First updates and counts of chunks, none of which goes beyond `cut`."""
    first = begin
    while first < end:
        count = min(size, end - first)
        if first < cut < first + count:
            count = cut - first
        yield first, count
        first += count

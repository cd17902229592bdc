"""Runs that advance together: phase by phase, chunk by chunk, with records and checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lcpo.core import health
from lcpo.run import events, stop
from lcpo.run.drive.base import ChunkMetrics, Driver, state_shapes
from lcpo.run.drive.compiled import CompiledDriver
from lcpo.run.drive.host import HostDriver
from lcpo.run.plan import budget
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase, phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import record as records
from lcpo.run.store.files import save_arrays
from lcpo.run.store.layout import RunFiles, run_files
from lcpo.run.store.plans import keeps_state
from lcpo.run.store.policy_file import save_policy
from lcpo.run.store.results import provenance, save_outcome
from lcpo.types import Tree

CHUNK_UPDATES, CHUNK_STEPS = 250, 50_000
"""Limits of a chunk: about a second of work, without a report, on one core."""
GPU_CHUNKS = 4
"""Factor on the length of chunks on a GPU, which waits for the host between two of them."""


def make_driver(
    setups: Sequence[Setup], phase: Phase, chunk: int, traces: Sequence[np.ndarray]
) -> Driver[Any]:
    """The driver of a phase; `chunk`: most updates at a time; `traces`: of each run."""
    kind = HostDriver if setups[0].is_host else CompiledDriver
    return kind(setups, phase, chunk, traces)


@dataclasses.dataclass
class Member:
    """A run of a group, while it advances."""

    setup: Setup
    files: RunFiles
    identity: dict[str, Any]
    written: dict[str, str] = dataclasses.field(default_factory=dict)  # digests by file
    rows: list[records.Record] = dataclasses.field(default_factory=list)  # of this phase
    failed: events.Failed | None = None


class Group:
    """One run, or several that share a program (`Setup.statics`)."""

    def __init__(
        self, setups: list[Setup], out: Path, report: events.Report, checkpoint_seconds: float
    ) -> None:
        self.setups, self.report = setups, report
        self.phases = setups[0].phases
        self.checkpoint_seconds, self.keep_state = checkpoint_seconds, keeps_state(out)
        self.traces = [setup.trace() for setup in setups]  # runs share what is loaded
        self.members = [Member(s, run_files(out, s.job.name), s.identity()) for s in setups]

    def run(self, found: Sequence[checkpoints.Checkpoint | None]) -> None:
        """Run to the end from the checkpoints given, all at the same update, or from the start.

        Raises `StoppedRuns` if worlds cannot continue; their checkpoints stay. Raises `stop.Asked`
        if it is asked to stop, after all runs are saved.
        """
        stop.check()
        first = found[0]
        start, seconds = (first.update, first.seconds) if first else (0, 0.0)
        self.last_saved = time.monotonic()
        self.began = self.last_saved - seconds
        self.saved: list[checkpoints.Saved] = []
        for member, checkpoint in zip(self.members, found, strict=True):
            if checkpoint:
                self.saved.append(checkpoints.Saved(member.files, checkpoint))
                member.written = dict(checkpoint.written)
                member.rows = [checkpoint.record] if checkpoint.record else []
        self.resumed_at = phase_at(self.phases, start).step_at(start)
        agents = None
        for phase in self.phases:
            if start < phase.end and not self._all_failed():
                begin = max(start - phase.mode.first_update, 0)
                agents = self._run_phase(phase, begin, agents)

    def _all_failed(self) -> bool:
        return all(member.failed for member in self.members)

    def _run_phase(self, phase: Phase, begin: int, agents: list[Tree] | None) -> list[Tree]:
        """From update `begin` of the phase, or with the agents of the phase before; its agents."""
        block, is_last = records.block_size(phase.num_updates), phase is self.phases[-1]
        size = self._chunk_size(phase, block)
        driver = make_driver(self.setups, phase, size, self.traces)
        if begin == 0:
            state = driver.start(agents)
        else:
            shapes = state_shapes(self.setups[0], phase.mode.first_update + begin)
            state = driver.resume(self.saved, shapes)
            self.saved = []
        # The state before the last row of the record is kept, not the last one. The last
        # observation of a run shows the row after its last one, which a trace of the length of the
        # run does not have. A longer run has it: so the last row is run again.
        kept_at = (phase.num_updates - 1) // block * block if self.keep_state and is_last else 0
        first = begin
        try:
            while first < phase.num_updates and not self._all_failed():
                count = min(size, phase.num_updates - first)
                if first < kept_at < first + count:
                    count = kept_at - first
                state, metrics = driver.chunk(state, first, count)
                count = min(count, len(metrics["episodes"].T))  # fewer: it was asked to stop
                if first == begin:
                    budget.settle()
                self._collect(phase, block, metrics, range(first, first + count))
                first += count
                update = phase.mode.first_update + first
                self._progress(phase, update)
                if update < phase.end and not self._all_failed():
                    self._save_if_due(driver, state, update, is_kept=first == kept_at)
            self._save_records(phase)
            agents = driver.agents(state)
            if is_last or self._all_failed():
                self._finish(agents, driver.exact_resume)
        except BaseException:
            with contextlib.suppress(Exception):  # the first exception is the one to report
                driver.close(state)
            raise
        driver.close(state)
        return agents

    def _chunk_size(self, phase: Phase, block: int) -> int:
        """Updates at a time: whole rows of the record, and no more than the phase has."""
        is_host = self.setups[0].is_host
        turns = len(self.setups) if is_host else 1  # runs of a host environment take turns
        longer = 1 if is_host or jax.default_backend() == "cpu" else GPU_CHUNKS
        short = max(1, longer * CHUNK_STEPS // (phase.steps_per_update * turns))
        return -(-min(longer * CHUNK_UPDATES, short, phase.num_updates) // block) * block

    def _collect(self, phase: Phase, block: int, metrics: ChunkMetrics, updates: range) -> None:
        """Thin the metrics of a chunk; a run that can no longer learn has failed."""
        arrays = {k: np.asarray(v) for k, v in metrics.items()}
        for i, member in enumerate(self.members):
            if member.failed:
                continue
            mine = {k: np.atleast_2d(v)[i, : len(updates)] for k, v in arrays.items()}
            if problem := health.find(mine):
                quantity, row = problem
                value = str(float(mine[quantity][row]))
                step = (updates[row] + 1) * phase.steps_per_update
                member.failed = events.Failed(
                    member.setup.job.name, quantity, value, step, phase.name
                )
                mine = {k: v[: row // block * block] for k, v in mine.items()}
            mine = health.without_signs(mine)
            if len(mine["episodes"]):
                member.rows.append(records.thin(mine, updates[0], block, phase.steps_per_update))

    def _progress(self, phase: Phase, update: int) -> None:
        for member in self.members:
            if not member.failed:
                newest = member.rows[-1]
                self.report(
                    events.Progress(
                        member.setup.job.name, phase.name, phase.step_at(update), self.resumed_at,
                        records.lifelong_return(newest), records.means(newest),
                    )
                )  # fmt: skip

    def _save_if_due(self, driver: Driver[Any], state: Any, update: int, is_kept: bool) -> None:
        """Save a checkpoint from time to time, if one will be kept, and before stopping."""
        now, asked = time.monotonic(), stop.asked.is_set()
        late = now - self.last_saved > self.checkpoint_seconds
        if late or asked or is_kept:
            for member, (part, index) in zip(self.members, driver.members(state), strict=True):
                if not member.failed:
                    member.rows = [records.join(member.rows)]
                    checkpoint = checkpoints.Checkpoint(
                        update, part, member.rows[0], now - self.began, written=member.written
                    )
                    checkpoints.save(member.files, member.identity, checkpoint, index)
            self.last_saved = time.monotonic()
        if asked:
            raise stop.Asked

    def _save_records(self, phase: Phase) -> None:
        for member in self.members:
            if member.rows:
                record = records.join(member.rows)
                record = record if member.setup.is_timed else records.shorten(record)
                path = member.files.record_of(phase.file)
                member.written[phase.file], member.rows = save_arrays(path, record), []

    def _finish(self, agents: list[Tree], exact_resume: bool) -> None:
        """Policy and manifest of each run, the manifest last; then drop checkpoints."""
        for member, agent in zip(self.members, agents, strict=True):
            setup, files, failed = member.setup, member.files, member.failed
            if failed is None:
                arrays = checkpoints.flatten(agent)
                member.written[files.policy.name] = save_policy(files.policy, setup, arrays)
            outcome: dict[str, Any] = {"status": "failed" if failed else "finished"}
            if failed:
                fields = dataclasses.asdict(failed)
                outcome["failure"] = {k: v for k, v in fields.items() if k != "job"}
            outcome |= {
                "job": setup.job.to_json(),
                "seconds": round(time.monotonic() - self.began, 3),
                "runs_together": len(self.members),
                "exact_resume": exact_resume,
                **({"notes": notes} if (notes := list(setup.notes)) else {}),
                "environment": {"advance": setup.env.advance, "num_worlds": setup.spec.num_worlds},
                "trace_digest": member.identity["trace_digest"],
                "provenance": provenance(),
            }
            if self.keep_state and failed is None:
                checkpoints.keep(files)  # before the manifest: a kill in between loses nothing
            save_outcome(files, outcome, member.written)
            checkpoints.drop(files)
            self.report(failed or events.Finished(setup.job.name))

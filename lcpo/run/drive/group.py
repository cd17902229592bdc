"""Runs that advance together: phase by phase, chunk by chunk, with records and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.run.drive.driver import make_program, state_shapes
from lcpo.run.plan import budget as memory
from lcpo.run.plan.job import Job, Setup, job_trace
from lcpo.run.plan.phases import Phase, phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import record as records

CHUNK_UPDATES, CHUNK_STEPS = 250, 50_000
"""Limits of a chunk: about a second of work, and of silence, on one core."""

Report = Callable[[dict[str, Any]], None]
"""Called with {"job": name, "event": "progress" | "finished" | "failed" | "crashed", ...}.

A run that crashed, because its environment did, can be resumed; one that failed cannot.
The `step` of a progress event counts all phases of the run; that of a failure only its own.
"""


def run_folder(out: Path, job: Job) -> Path:
    """Where a run keeps its files."""
    return out / "runs" / job.name


class Group:
    """One run, or several that differ in seeds and traced config values only."""

    def __init__(
        self, setups: list[Setup], out: Path, report: Report, checkpoint_seconds: float
    ) -> None:
        self.setups, self.out, self.report = setups, out, report
        self.checkpoint_seconds = checkpoint_seconds
        self.many = len(setups) > 1
        self.trace = job_trace(setups[0].job)
        self.failed: dict[int, dict[str, Any]] = {}

    def run(self, saved: list[checkpoints.Checkpoint | None]) -> None:
        """Run to the end from the checkpoints given, all at the same update, or from the start.

        Raises `lcpo.run.drive.host.StoppedRuns` where worlds cannot go on; their checkpoints stay.
        """
        first = saved[0]
        start, self.seconds = (first.update, first.seconds) if first else (0, 0.0)
        self.began = self.last_saved = time.monotonic()
        self.saved = self._found(saved)
        rows = [[c.record] if c and c.record else [] for c in saved]
        phases = self.setups[0].phases
        self.resumed_at = phase_at(phases, start).step_at(start)
        state = None
        for phase in phases:
            if start >= phase.end:
                continue
            begin = max(start - phase.mode.first_update, 0)
            program, state = self._run_phase(phase, begin, state, rows)
            self._save_records(phase, rows)
            if len(self.failed) == len(self.setups) or phase is phases[-1]:
                self._finish(program, state)
                program.close(state)
                return
            rows = [[] for _ in self.setups]

    def _run_phase(
        self, phase: Phase, begin: int, before: Any, rows: list[list]
    ) -> tuple[Any, Any]:
        """From update `begin` of the phase, or from the state at the end of the phase before."""
        block = records.block_size(phase.num_updates)
        # The runs of a host environment take their turns.
        turns = len(self.setups) if self.setups[0].is_host else 1
        size = _chunk_size(phase, block, turns)
        program: Any = make_program(self.setups, phase, size, self.trace)
        if begin == 0:
            state = program.start(before)
        else:
            shapes = state_shapes(self.setups[0], phase.mode.first_update + begin)
            state = program.resumed(self.saved, shapes)
            self.saved = []
        try:
            for first in range(begin, phase.num_updates, size):
                count = min(size, phase.num_updates - first)
                state, metrics = program.chunk(state, first, count)
                if first == begin:
                    memory.trim()
                self._collect(phase, block, metrics, first, count, rows)
                if len(self.failed) == len(self.setups):
                    break
                update = phase.mode.first_update + first + count
                self._progress(phase, update, rows)
                late = time.monotonic() - self.last_saved > self.checkpoint_seconds
                if update < phase.end and late:
                    self._checkpoint(update, program.members(state), rows)
                    self.last_saved = time.monotonic()
        except BaseException:
            program.close(state)
            raise
        return program, state

    def _found(
        self, saved: list[checkpoints.Checkpoint | None]
    ) -> list[tuple[Path, checkpoints.Checkpoint]]:
        folders = [run_folder(self.out, setup.job) for setup in self.setups]
        return [(f, c) for f, c in zip(folders, saved, strict=True) if c]

    def _collect(
        self, phase: Phase, block: int, metrics: Any, first: int, count: int, rows: list[list]
    ) -> None:
        """Thin the metrics of a chunk; a run whose metrics are not finite has failed."""
        host = {k: np.asarray(v) for k, v in metrics.items()}
        for i in range(len(self.setups)):
            if i in self.failed:
                continue
            mine = {k: (v[i] if self.many else v)[:count] for k, v in host.items()}
            bad = {k: int(np.argmin(np.isfinite(v))) for k, v in mine.items() if not _finite(v)}
            if bad:
                quantity = min(bad, key=lambda k: bad[k])
                update = first + bad[quantity]
                self.failed[i] = {
                    "quantity": quantity,
                    "value": str(float(mine[quantity][bad[quantity]])),
                    "step": (update + 1) * phase.steps_per_update,
                    "phase": phase.name,
                }
                whole = (update - first) // block * block
                mine = {k: v[:whole] for k, v in mine.items()}
            if len(mine["episodes"]):
                rows[i].append(records.thin(mine, first, block, phase.steps_per_update))

    def _progress(self, phase: Phase, update: int, rows: list[list]) -> None:
        for i, setup in enumerate(self.setups):
            if i not in self.failed:
                self.report(
                    {
                        "job": setup.job.name,
                        "event": "progress",
                        "phase": phase.name,
                        "step": phase.step_at(update),
                        "resumed_at": self.resumed_at,
                        "return": records.lifelong_return(rows[i][-1]),
                    }
                )

    def _spent(self) -> float:
        return self.seconds + time.monotonic() - self.began

    def _checkpoint(self, update: int, members: list[Any], rows: list[list]) -> None:
        for i, (setup, (part, index)) in enumerate(zip(self.setups, members, strict=True)):
            if i not in self.failed:
                rows[i] = [records.join(rows[i])]
                saved = checkpoints.Checkpoint(update, part, rows[i][0], self._spent())
                folder = run_folder(self.out, setup.job)
                checkpoints.save(folder, setup.job, saved, index)

    def _save_records(self, phase: Phase, rows: list[list]) -> None:
        for setup, mine in zip(self.setups, rows, strict=True):
            if mine:
                path = run_folder(self.out, setup.job) / phase.file
                records.save_arrays(path, records.join(mine))

    def _finish(self, program: Any, state: Any) -> None:
        """Policy and manifest of each run, the manifest last; then drop checkpoints."""
        for i, (setup, agent) in enumerate(zip(self.setups, program.agents(state), strict=True)):
            folder = run_folder(self.out, setup.job)
            failure = self.failed.get(i)
            if failure is None:
                records.save_arrays(folder / "policy.npz", checkpoints.flatten(agent))
            outcome = {
                "status": "failed" if failure else "finished",
                **({"failure": failure} if failure else {}),
                "job": setup.job.to_json(),
                "seconds": round(self._spent(), 3),
                "runs_together": len(self.setups),
                "exact_resume": program.exact_resume,
                **({"notes": notes} if (notes := list(setup.notes)) else {}),
                "trace_digest": records.digest(self.trace),
                "provenance": records.provenance(),
            }
            records.save_json(folder / "manifest.json", outcome)
            checkpoints.drop(folder)
            self.report({"job": setup.job.name, "event": outcome["status"], **(failure or {})})


def _chunk_size(phase: Phase, block: int, turns: int = 1) -> int:
    """Updates at a time: whole rows of the record, and no more than the phase has."""
    short = max(1, CHUNK_STEPS // (phase.steps_per_update * turns))
    return -(-min(CHUNK_UPDATES, short, phase.num_updates) // block) * block


def _finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())

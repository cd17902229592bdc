"""Run jobs in this process: init or resume, chunk by chunk, record, checkpoint, finish.

One job alone, or a group that differs only in seeds and traced config values as one vmapped
program. Vmap pays on a GPU; on a CPU give each core a process of its own (`lcpo.run.local`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.run import checkpoint as checkpoints
from lcpo.run import compiled
from lcpo.run import record as records
from lcpo.run.job import Job, Setup, job_trace
from lcpo.types import Agent, Spec

CHUNK_UPDATES = 250
"""About a second of work, and of silence, on one core."""

Report = Callable[[dict[str, Any]], None]
"""Called with {"job": name, "event": "progress" | "finished" | "failed", ...}."""


def run_folder(out: Path, job: Job) -> Path:
    """Where a run keeps its files."""
    return out / "runs" / job.name


def manifest(out: Path, job: Job) -> dict[str, Any] | None:
    """The manifest of a run that has ended, or None."""
    path = run_folder(out, job) / "manifest.json"
    return records.load_json(path) if path.exists() else None


def run_jobs(jobs: list[Job], out: Path, report: Report, checkpoint_seconds: float) -> None:
    """Run all jobs that have not ended yet: on a GPU in groups, on a CPU one by one."""
    waiting = [Setup(job) for job in jobs if manifest(out, job) is None]
    while waiting:
        first = waiting[0]
        group = [first]
        if jax.default_backend() != "cpu":
            group = [s for s in waiting if s.statics() == first.statics()]
        waiting = [s for s in waiting if s not in group]
        _run_group(group, out, report, checkpoint_seconds)


def _run_group(group: list[Setup], out: Path, report: Report, checkpoint_seconds: float) -> None:
    """Runs of a group that were stopped at different updates go on separately."""
    saved = {s.job.name: _resumed(s, out) for s in group}
    starts = sorted({c.update if c else 0 for c in saved.values()})
    for start in starts:
        part = [s for s in group if (c := saved[s.job.name], c.update if c else 0)[1] == start]
        Group(part, out, report, checkpoint_seconds).run([saved[s.job.name] for s in part])


def _resumed(setup: Setup, out: Path) -> checkpoints.Checkpoint | None:
    folder = run_folder(out, setup.job)
    return checkpoints.load(folder, setup.job, state_shapes(setup))


def state_shapes(setup: Setup) -> compiled.RunState:
    """Shapes and dtypes of a run's state, without computing it."""
    lags, channels = setup.spec.context.lags, setup.spec.context.channels
    rows = jnp.zeros((lags, channels))
    init = functools.partial(
        compiled.init_run, setup.agent, setup.config, setup.env, setup.spec, jnp.int32(0)
    )
    return jax.eval_shape(init, compiled.Contexts(rows, jnp.int32(0)))


@functools.cache
def _compiled_chunk(agent_id: int, spec: Spec, chunk: int, many: bool) -> Callable:
    return compiled.make_chunk(_agents[agent_id], spec, chunk, many)


_agents: dict[int, Agent] = {}


class Group:
    """Runs that advance together."""

    def __init__(
        self, setups: list[Setup], out: Path, report: Report, checkpoint_seconds: float
    ) -> None:
        first = setups[0]
        self.setups, self.out, self.report = setups, out, report
        self.checkpoint_seconds = checkpoint_seconds
        self.agent, self.env, self.spec = first.agent, first.env, first.spec
        self.num_updates = first.num_updates
        self.steps_per_update = first.config.rollout_length * self.spec.num_worlds
        self.block = records.block_size(self.num_updates)
        self.chunk = min(-(-CHUNK_UPDATES // self.block), -(-self.num_updates // self.block))
        self.chunk *= self.block
        self.many = len(setups) > 1
        self.trace = job_trace(first.job)
        self.failed: dict[int, dict[str, Any]] = {}

    def run(self, saved: list[checkpoints.Checkpoint | None]) -> None:
        """Run to the end from the checkpoints given, all at the same update, or from the start."""
        args = self._arguments()
        start = saved[0].update if saved[0] else 0
        state = self._state(args, saved)
        rows = [[c.record] if c and c.record else [] for c in saved]
        seconds = saved[0].seconds if saved[0] else 0.0
        _agents[id(self.agent)] = self.agent
        chunk = _compiled_chunk(id(self.agent), self.spec, self.chunk, self.many)
        began = last_saved = time.monotonic()
        for first in range(start, self.num_updates, self.chunk):
            count = min(self.chunk, self.num_updates - first)
            contexts = self._contexts(first, count)
            state, metrics = chunk(*args, state, contexts, jnp.int32(first), jnp.int32(count))
            self._collect(metrics, first, count, rows)
            if len(self.failed) == len(self.setups):
                break
            now = time.monotonic()
            self._progress(first + count, rows, start)
            if first + count < self.num_updates and now - last_saved > self.checkpoint_seconds:
                self._checkpoint(first + count, state, rows, seconds + now - began)
                last_saved = now
        self._finish(state, rows, seconds + time.monotonic() - began)

    def _arguments(self) -> tuple:
        if not self.many:
            setup = self.setups[0]
            config, env = jax.tree.map(jnp.float32, (setup.config, setup.env))
            return config, env, jnp.int32(setup.job.seed)
        return (
            configs.stack([s.config for s in self.setups]),
            configs.stack([s.env for s in self.setups]),
            jnp.array([s.job.seed for s in self.setups], jnp.int32),
        )

    def _state(self, args: tuple, saved: list[checkpoints.Checkpoint | None]) -> Any:
        if saved[0] is None:
            init = compiled.make_init(self.agent, self.spec, self.many)
            return init(*args, self._contexts(0, 1))
        folders = [run_folder(self.out, s.job) for s in self.setups]
        members = [(f, c) for f, c in zip(folders, saved, strict=True) if c]
        return checkpoints.assemble(members, state_shapes(self.setups[0]), self.many)

    def _contexts(self, first: int, count: int) -> compiled.Contexts:
        """The rows that updates first .. first + count - 1 will see; padded to a whole chunk."""
        lags = self.spec.context.lags
        if self.env.advance == "step":
            rows = self.chunk * self.steps_per_update + 1
            return compiled.load_contexts(self.trace, first * self.steps_per_update, rows, lags)
        return compiled.load_contexts(self.trace, 0, len(self.trace), lags)

    def _collect(self, metrics: Any, first: int, count: int, rows: list[list]) -> None:
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
                value = float(mine[quantity][bad[quantity]])
                step = (update + 1) * self.steps_per_update
                self.failed[i] = {"quantity": quantity, "value": str(value), "step": step}
                whole = (update - first) // self.block * self.block
                mine = {k: v[:whole] for k, v in mine.items()}
            if len(mine["episodes"]):
                rows[i].append(records.thin(mine, first, self.block, self.steps_per_update))

    def _progress(self, update: int, rows: list[list], start: int) -> None:
        for i, setup in enumerate(self.setups):
            if i not in self.failed:
                value = records.lifelong_return(rows[i][-1])
                self.report(
                    {
                        "job": setup.job.name,
                        "event": "progress",
                        "step": update * self.steps_per_update,
                        "resumed_at": start * self.steps_per_update,
                        "return": value,
                    }
                )

    def _checkpoint(self, update: int, state: Any, rows: list[list], seconds: float) -> None:
        for i, setup in enumerate(self.setups):
            if i not in self.failed:
                rows[i] = [records.join(rows[i])]
                saved = checkpoints.Checkpoint(update, state, rows[i][0], seconds)
                folder = run_folder(self.out, setup.job)
                checkpoints.save(folder, setup.job, saved, i if self.many else None)

    def _finish(self, state: Any, rows: list[list], seconds: float) -> None:
        """Record, policy and manifest of each run, the manifest last; then drop checkpoints."""
        agent = checkpoints.without_memory(state.agent)
        for i, setup in enumerate(self.setups):
            folder = run_folder(self.out, setup.job)
            if rows[i]:
                records.save_arrays(folder / "record.npz", records.join(rows[i]))
            failure = self.failed.get(i)
            if failure is None:
                mine = checkpoints.member_of(agent, i if self.many else None)
                records.save_arrays(folder / "policy.npz", checkpoints.flatten(mine))
            outcome = {
                "status": "failed" if failure else "finished",
                **({"failure": failure} if failure else {}),
                "job": setup.job.to_json(),
                "seconds": round(seconds, 3),
                "runs_together": len(self.setups),
                "trace_digest": records.digest(self.trace),
                "provenance": records.provenance(),
            }
            records.save_json(folder / "manifest.json", outcome)
            checkpoints.drop(folder)
            self.report({"job": setup.job.name, "event": outcome["status"], **(failure or {})})


def _finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())

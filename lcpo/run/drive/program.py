"""One phase of a group of runs, compiled: what `lcpo.run.drive.group` needs of a driver.

Where a group has more than one run, each leaf of a state and of the metrics has a leading axis of
runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.run.drive import base as epoch
from lcpo.run.drive import compiled
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Mode, Phase
from lcpo.run.store import checkpoint as checkpoints
from lcpo.types import Agent, Metrics, Spec


class Program:
    """A phase of runs that differ in seeds and traced config values."""

    exact_resume = True

    def __init__(self, setups: list[Setup], phase: Phase, chunk: int, trace: np.ndarray) -> None:
        """`chunk`: most updates at a time; `trace`: all rows that the phase may see."""
        first = setups[0]
        self.agent, self.env, self.spec = first.agent, first.env, first.spec
        self.phase, self.num_runs, self.many = phase, len(setups), len(setups) > 1
        steps = first.job.steps // self.spec.num_worlds
        self.trace = epoch.rows_of(trace, self.env.advance, phase.mode, steps)
        self.max_updates = chunk
        self.arguments = _arguments(setups, phase)
        _agents[id(self.agent)] = self.agent
        self.compiled = _compiled_chunk(id(self.agent), self.spec, chunk, self.many, phase.mode)
        # Rows are loaded as they come, or, where it is not known when they come, all at once.
        at_once = phase.mode.random_starts or self.env.advance != "step"
        self.whole = jax.device_put(self._rows(0, len(self.trace))) if at_once else None

    def start(self, before: compiled.RunState | None = None) -> compiled.RunState:
        """The state before the first update; `before`: at the end of the phase before."""
        contexts = self._contexts(0)
        if before is None:
            init = _compiled_init(id(self.agent), self.spec, self.many, self.phase.mode)
            return init(*self.arguments, contexts)
        restart = compiled.make_restart(self.spec, self.many, self.phase.mode)
        agent_state = checkpoints.without_memory(before.agent)
        return restart(*self.arguments[1:], contexts, agent_state)

    def resumed(
        self, saved: list[tuple[Path, checkpoints.Checkpoint]], shapes: Any
    ) -> compiled.RunState:
        """The state of runs that were saved (folder, checkpoint); `shapes`: of one of them."""
        return checkpoints.assemble(saved, shapes, self.many)

    def members(self, state: compiled.RunState) -> list[tuple[compiled.RunState, int | None]]:
        """For each run the state to be saved, and its place there; None where it stands alone."""
        return [(state, i if self.many else None) for i in range(self.num_runs)]

    def agents(self, state: compiled.RunState) -> list[Any]:
        """The agents of the runs, as far as acting needs them."""
        slim = checkpoints.without_memory(state.agent)
        return [checkpoints.member_of(slim, i) for _, i in self.members(state)]

    def close(self, state: compiled.RunState) -> None:
        """Nothing is open."""

    def chunk(self, state: Any, first: int, count: int) -> tuple[compiled.RunState, Metrics]:
        """Updates first .. first + count - 1 of the phase; `state` is donated.

        Metrics are [max_updates], of which the first `count` count.
        """
        where = jnp.int32(first), jnp.int32(count)
        return self.compiled(*self.arguments, state, self._contexts(first), *where)

    def _contexts(self, first: int) -> compiled.Contexts:
        """The rows that a chunk from update `first` on will see."""
        if self.whole is not None:
            return self.whole
        length = self.phase.rollout_length
        return self._rows(first * length, self.max_updates * length + 1)

    def _rows(self, first: int, count: int) -> compiled.Contexts:
        return compiled.load_contexts(self.trace, first, count, self.spec.context.lags)


def _arguments(setups: list[Setup], phase: Phase) -> tuple:
    """(configs, environments, seeds), stacked if there are many."""
    length = {"rollout_length": phase.rollout_length}
    values = [dataclasses.replace(s.config, **length) for s in setups]
    if len(setups) == 1:
        config, env = jax.tree.map(jnp.float32, (values[0], setups[0].env))
        return config, env, jnp.int32(setups[0].job.seed)
    seeds = jnp.array([s.job.seed for s in setups], jnp.int32)
    return configs.stack(values), configs.stack([s.env for s in setups]), seeds


@functools.cache
def _compiled_init(agent_id: int, spec: Spec, many: bool, mode: Mode) -> Callable:
    return compiled.make_init(_agents[agent_id], spec, many, mode)


@functools.cache
def _compiled_chunk(agent_id: int, spec: Spec, chunk: int, many: bool, mode: Mode) -> Callable:
    return compiled.make_chunk(_agents[agent_id], spec, chunk, many, mode)


_agents: dict[int, Agent] = {}

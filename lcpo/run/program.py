"""One phase of a group of runs, compiled: what `lcpo.run.group` needs of a driver.

A driver is a class with `start` and `chunk` as here, and a function like `state_shapes`. Where a
group has more than one run, each leaf of a state and of the metrics has a leading axis of runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.run import checkpoint as checkpoints
from lcpo.run import compiled
from lcpo.run.job import Setup
from lcpo.run.phases import Mode, Phase, phase_at
from lcpo.types import Agent, Metrics, Spec


class Program:
    """A phase of runs that differ in seeds and traced config values."""

    def __init__(self, setups: list[Setup], phase: Phase, chunk: int, trace: np.ndarray) -> None:
        """`chunk`: most updates at a time; `trace`: all rows that the phase may see."""
        first = setups[0]
        self.agent, self.env, self.spec = first.agent, first.env, first.spec
        self.phase, self.many = phase, len(setups) > 1
        by_step, jumps = self.env.advance == "step", phase.mode.random_starts
        # Random starts are on the rows that the evaluation will see, be the trace longer or not.
        seen = first.job.steps // self.spec.num_worlds if by_step and jumps else len(trace)
        self.trace = trace[:seen]
        self.max_updates = chunk
        self.arguments = _arguments(setups, phase)
        _agents[id(self.agent)] = self.agent
        self.compiled = _compiled_chunk(id(self.agent), self.spec, chunk, self.many, phase.mode)
        # Rows are loaded as they come, or, where it is not known when they come, all at once.
        at_once = jumps or not by_step
        self.whole = jax.device_put(self._rows(0, len(self.trace))) if at_once else None

    def start(self, agent_state: Any = None) -> compiled.RunState:
        """The state before the first update; a later phase is given the agent's state so far."""
        contexts = self._contexts(0)
        if agent_state is None:
            init = compiled.make_init(self.agent, self.spec, self.many, self.phase.mode)
            return init(*self.arguments, contexts)
        restart = compiled.make_restart(self.spec, self.many, self.phase.mode)
        return restart(*self.arguments[1:], contexts, agent_state)

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


def state_shapes(setup: Setup, update: int = 0) -> compiled.RunState:
    """Shapes and dtypes of a run's state after `update` updates, without computing it."""
    lags, channels = setup.spec.context.lags, setup.spec.context.channels
    contexts = compiled.Contexts(jnp.zeros((lags, channels)), jnp.int32(0))
    init = functools.partial(
        compiled.init_run, setup.agent, setup.config, setup.env, setup.spec, jnp.int32(0)
    )
    state = jax.eval_shape(init, contexts)
    if phase_at(setup.phases, update).mode.learns:
        return state
    return state._replace(agent=checkpoints.without_memory(state.agent))


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
def _compiled_chunk(agent_id: int, spec: Spec, chunk: int, many: bool, mode: Mode) -> Callable:
    return compiled.make_chunk(_agents[agent_id], spec, chunk, many, mode)


_agents: dict[int, Agent] = {}

"""Which driver serves a run, and the shapes of what it saves."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.run.drive import host, rollout
from lcpo.run.drive.base import Driver, Program, Run, RunState
from lcpo.run.drive.compiled import CompiledDriver
from lcpo.run.drive.host import HostDriver
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase, phase_at
from lcpo.run.store import checkpoint as checkpoints
from lcpo.types import Tree


def make_driver(
    setups: list[Setup], phase: Phase, chunk: int, traces: list[np.ndarray]
) -> Driver[Any]:
    """The driver of a phase; `chunk`: most updates at a time; `traces`: of each run."""
    if setups[0].is_host:
        return HostDriver(setups, phase, chunk, traces[0])
    return CompiledDriver(setups, phase, chunk, traces)


def agent_shapes(setup: Setup) -> Tree:
    """Shapes and dtypes of an agent's state, without computing it."""
    init = functools.partial(setup.agent.init, setup.config, setup.spec)
    return jax.eval_shape(init, jax.random.key(0))


def state_shapes(setup: Setup, update: int = 0) -> RunState:
    """Shapes and dtypes of a run's state after `update` updates."""
    agent = agent_shapes(setup)
    if not phase_at(setup.phases, update).mode.learns:
        agent = checkpoints.without_memory(agent)
    if setup.is_host:
        return host.state_shapes(setup, agent)
    lags, channels = setup.spec.context.lags, setup.spec.context.channels
    contexts = rollout.Contexts(jnp.zeros((lags, channels)), jnp.int32(0))
    program = Program(setup.agent, setup.spec)
    run = Run(setup.config, setup.env, jnp.int32(0))
    init = functools.partial(rollout.init_run, program, run)
    return jax.eval_shape(init, contexts)._replace(agent=agent)

"""Which driver serves a run, and the shapes of what it saves.

A driver is a class like `lcpo.run.drive.program.Program` (compiled environments) and
`lcpo.run.drive.host.HostProgram` (host environments): one phase of a group of runs.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.run.drive import compiled, host
from lcpo.run.drive.base import RunState
from lcpo.run.drive.host import HostProgram
from lcpo.run.drive.program import Program
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Phase, phase_at
from lcpo.run.store import checkpoint as checkpoints


def make_program(
    setups: list[Setup], phase: Phase, chunk: int, trace: np.ndarray
) -> Program | HostProgram:
    """The program of a phase; `chunk`: most updates at a time."""
    kind = HostProgram if setups[0].is_host else Program
    return kind(setups, phase, chunk, trace)


def agent_shapes(setup: Setup) -> Any:
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
    contexts = compiled.Contexts(jnp.zeros((lags, channels)), jnp.int32(0))
    init = functools.partial(
        compiled.init_run, setup.agent, setup.config, setup.env, setup.spec, jnp.int32(0)
    )
    return jax.eval_shape(init, contexts)._replace(agent=agent)

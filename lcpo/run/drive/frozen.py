"""Policies of finished runs that only act: on other seeds, another trace, for as long as one likes.

An evaluation of this kind is what the last phase of a prescient run is: epochs in which nothing is
learnt, with the actions drawn as at the end of learning. Its keys are those that would come after
the run's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.contexts import paper
from lcpo.errors import InputError, RunError
from lcpo.run.drive.base import StoppedRuns
from lcpo.run.drive.choose import agent_shapes, make_driver
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import Mode, Phase
from lcpo.run.plan.plan import find_context
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store import layout
from lcpo.run.store import record as records
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.types import Tree

EPOCH = 200
"""Steps of each world between two rows of metrics."""
CHUNK = 50_000
"""Steps at a time: between two reports."""


def load_agent(result: Result) -> tuple[Setup, Tree]:
    """The objects that a finished run names, and its agent as far as acting needs it."""
    setup, (_, arrays) = Setup(result.job), result.policy()
    template = checkpoints.without_memory(agent_shapes(setup))
    return setup, jax.tree.map(jnp.asarray, checkpoints.unflatten(template, arrays))


def elsewhere(
    setup: Setup, trace: Any = None, scale: float | None = None, steps: int | None = None
) -> Setup:
    """A run's setup on another trace, or for another number of steps; None: as it was.

    The scale that a user gave goes with the policy; one that the paper has goes with its traces.
    """
    job = setup.job
    if trace is None and job.trace is not None:
        trace, scale = job.trace, job.scale if scale is None else scale
    elif scale is None and job.trace is not None:
        is_default = job.scale == paper.default_scale(job.env, job.trace)
        scale = None if is_default else job.scale
    steps = job.steps if steps is None else steps
    found = find_context(setup.env, job.env, trace, scale, steps, Fraction(1))
    rows = steps if setup.env.advance == "step" else None
    digest = found.trace and found.trace.file_digest(rows, found.scale)
    return Setup(
        dataclasses.replace(
            job, trace=found.trace, scale=found.scale, steps=steps, trace_digest=digest
        )
    )


def act_only(
    setup: Setup, agent: Tree, seeds: Sequence[int], first_update: int, report: Callable[[int], Any]
) -> list[Record]:
    """The records of runs along the trace of `setup` in which nothing is learnt, one per seed.

    `first_update`: the number of updates of the run that the agent is from. `report` is called
    again and again, with the number of steps since the last time.
    """
    job, num_worlds = setup.job, setup.spec.num_worlds
    num_updates = job.steps // (EPOCH * num_worlds)
    if num_updates < 1:
        raise InputError(f"steps = {job.steps:,}: needs at least {EPOCH * num_worlds:,}, an epoch")
    mode = Mode(learns=False, first_update=first_update)
    phase = Phase("evaluation", layout.RECORD, num_updates, EPOCH, num_worlds, 0, mode)
    setups = [Setup(dataclasses.replace(job, seed=seed)) for seed in seeds]
    size = min(num_updates, max(1, CHUNK // (phase.steps_per_update * len(seeds))))
    driver = make_driver(setups, phase, size, [setup.trace()] * len(seeds))
    parts: list[dict[str, np.ndarray]] = []
    try:
        # Copies: a driver may give away the arrays of a state.
        state = driver.start_with([jax.tree.map(jnp.array, agent) for _ in seeds])
        for first in range(0, num_updates, size):
            count = min(size, num_updates - first)
            state, metrics = driver.chunk(state, first, count)
            part = {k: np.atleast_2d(np.asarray(v))[:, :count] for k, v in metrics.items()}
            parts.append(part)
            report(count * phase.steps_per_update * len(seeds))
        driver.close(state)
    except StoppedRuns as stop:
        raise RunError(f"{job.name}: {stop}") from stop
    whole = {k: np.concatenate([part[k] for part in parts], axis=1) for k in parts[0]}
    block, length = records.block_size(num_updates), phase.steps_per_update
    return [
        records.thin({k: v[i] for k, v in whole.items()}, 0, block, length)
        for i in range(len(seeds))
    ]

"""Frozen policies of finished runs: on other seeds, on another trace, for any number of steps.

This is an evaluation as in the last phase of a prescient run: epochs in which nothing is learned,
with actions drawn as at the end of learning. Its keys are those that would follow the run's own.
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
from lcpo.run.drive.base import StoppedRuns, agent_shapes
from lcpo.run.drive.group import make_driver
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
"""Steps between two reports."""


def load_agent(result: Result) -> tuple[Setup, Tree]:
    """The setup of a finished run, and its agent's state without what only learning needs."""
    setup, (_, arrays) = Setup(result.job), result.policy()
    template = checkpoints.without_memory(agent_shapes(setup))
    return setup, jax.tree.map(jnp.asarray, checkpoints.unflatten(template, arrays))


def elsewhere(
    setup: Setup, trace: Any = None, scale: float | None = None, steps: int | None = None
) -> Setup:
    """A run's setup on another trace, or for another number of steps; None: as it was.

    A scale that the user chose belongs to the policy; a default of the paper to its traces.
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
    context = {"trace": found.trace, "scale": found.scale, "trace_digest": digest}
    return Setup(dataclasses.replace(job, steps=steps, **context))


def act_only(
    setup: Setup, agent: Tree, seeds: Sequence[int], first_update: int, report: Callable[[int], Any]
) -> list[Record]:
    """The records of a frozen agent along the trace of `setup`, one per seed.

    `first_update`: the number of updates that trained the agent. `report` is called repeatedly,
    with the number of steps since its last call.
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
        state = driver.start([agent] * len(seeds))
        for first in range(0, num_updates, size):
            count = min(size, num_updates - first)
            state, metrics = driver.chunk(state, first, count)
            parts.append({k: np.atleast_2d(np.asarray(v))[:, :count] for k, v in metrics.items()})
            report(count * phase.steps_per_update * len(seeds))
        driver.close(state)
    except StoppedRuns as stop:
        raise RunError(f"{job.name}: {stop}") from stop
    whole = {k: np.concatenate([part[k] for part in parts], axis=1) for k in parts[0]}
    block, length = records.block_size(num_updates), phase.steps_per_update
    each = ({k: v[i] for k, v in whole.items()} for i in range(len(seeds)))
    return [records.thin(mine, 0, block, length) for mine in each]

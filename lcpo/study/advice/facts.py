"""What can be known about a task before any training, from a short play with random actions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lcpo.core import scales
from lcpo.envs.base import AnyEnv, is_host
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup
from lcpo.study.advice.trial import Broken, Play, play

PLAYED = 1000
"""Steps that are played."""


class Facts(NamedTuple):
    """What the rules of `lcpo.study.advice.suggest` depend on."""

    steps: int
    """Of the run."""
    num_actions: tuple[int, ...]
    """In each dimension."""
    obs_size: int
    channels: int
    """Of the context; 0: there is none."""
    advance: str
    """What moves the context: step, episode, or own (the environment)."""
    episode_length: float | None
    """Mean number of steps, with random actions; None: no episode ended."""
    out_of_scale: tuple[int, ...]
    """Entries of the environment's observations that networks learn poorly from."""
    microseconds: float | None
    """Processor time of a step outside the compiler; None: the environment is compiled."""


def look(job: Job) -> Facts:
    """Play the environment of a run. InputError if it cannot be played."""
    setup = Setup(job)
    env = setup.env
    _ = env.spec.discrete  # raises if actions are not discrete
    try:
        found = play(env, (0,), PLAYED, _rows(setup, job.steps))
    except Broken as broken:
        raise InputError(f"{job.env}: {broken}; find out why: lcpo check-env {job.env}") from broken
    return facts_of(env, job.steps, found)


def facts_of(env: AnyEnv, steps: int, found: Play) -> Facts:
    """The facts that a play shows."""
    spec, ended = env.spec, found.steps.terminated | found.steps.truncated
    count = int(ended.sum())
    return Facts(
        steps,
        tuple(spec.num_actions),
        spec.obs_size,
        spec.context.channels,
        env.advance,
        ended.size / count if count else None,
        tuple(scales.out_of_scale(found.steps.obs)),
        1e6 * found.seconds / ended.size if is_host(env) else None,
    )


def _rows(setup: Setup, steps: int) -> np.ndarray | None:
    """The first contexts of a trace, [PLAYED, channels]; it begins again at its end."""
    if setup.env.advance == "own":
        return None
    rows = setup.trace()[:steps]
    return rows[np.arange(PLAYED) % len(rows)]

"""The contexts that a run's detector sees: rows of its trace, or the environment's own.

No action changes a context, so an environment with a context of its own is played with random
actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.agents.normalise import RUNNING, read_rule
from lcpo.contexts import TraceRef
from lcpo.envs.base import AnyEnv, WorldError
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup, find_env
from lcpo.run.plan.plan import plan
from lcpo.study.advice.calibrate import Calibration
from lcpo.study.advice.lookback import Lookback

OWN_ROWS = 20_000
"""Steps that are played for a calibration where none are given."""


def plan_for(
    env: str,
    trace: TraceRef | None,
    rows: int | None,
    scale: float | None,
    env_overrides: Mapping[str, Any],
    normalise: str | None,
    lookback: Mapping[str, int],
) -> Job:
    """A run of LCPO on an environment, to calibrate sigma for it."""
    the_env: AnyEnv = configs.make(find_env(env), dict(env_overrides))
    if the_env.advance == "episode":
        raise InputError(
            f"the context of {env} advances by episode: calibrate needs one that advances by step"
        )
    if "lags" in lookback:
        raise InputError(f"{env} has {the_env.spec.context.lags} lags: leave --lags out")
    if the_env.advance == "own" and rows is None:
        rows = OWN_ROWS
    return plan(
        "lcpo", env, trace=trace, steps=rows, scale=scale, seeds=1, env_overrides=env_overrides,
        normalise=normalise, overrides=dict(lookback),
    )[0]  # fmt: skip


def describe(found: Calibration, job: Job) -> Calibration:
    """A calibration of `rows_of(job)`, with what is known of its contexts."""
    if job.trace is None:
        name = f"contexts of {job.env} under random actions"
        return found._replace(name=name, is_own=True)
    scale = job.scale * np.atleast_1d(found.scale)
    return found._replace(
        name=f"{job.env}, trace {job.trace}", scale=tuple(scale.tolist()),
        channels=job.trace.describe().names,
    )  # fmt: skip


def rows_of(job: Job, steps: int | None = None) -> np.ndarray:
    """Contexts [steps, channels] as the agent sees them; None: of the whole run."""
    setup, steps = Setup(job), steps or job.steps
    if setup.env.advance != "own":
        return setup.trace()[:steps]
    try:
        rows, rule = play(setup.env, steps), read_rule(job.normalise)
    except WorldError as error:
        raise InputError(f"{job.env}: {error}; find out why: lcpo check-env {job.env}") from error
    if rule == RUNNING:
        std = rows.std(axis=0)
        return rows / np.where(std > 0.0, std, 1.0)
    return rows / np.array(rule[-rows.shape[1] :]) if isinstance(rule, tuple) else rows


def lookback_of(job: Job) -> Lookback:
    """How the agent looks back."""
    size, rounds = job.config.get("buffer_size"), job.config.get("sampling_rounds")
    lags = Setup(job).env.spec.context.lags
    return Lookback(job.config["rollout_length"], lags, size, rounds or Lookback().rounds)


def play(env: AnyEnv, steps: int) -> np.ndarray:
    """The context at each step of the first world, [steps, channels], under random actions."""
    spec, count = env.spec, env.spec.num_worlds
    size = steps, count, spec.action_size
    uniform = jnp.asarray(np.random.default_rng(0).random(size, np.float32))
    actions, no_trace = np.asarray(spec.actions.random(uniform)), np.zeros((count, 0), np.float32)
    rows = np.empty((steps, spec.context.channels))
    worlds = open_worlds(env, range(count), threads=1)
    try:
        obs = worlds.reset(np.ones(count, bool))
        for t, action in enumerate(actions):
            rows[t] = spec.context.newest(obs[0])
            step = worlds.step(action, no_trace)
            ended = np.asarray(step.terminated) | np.asarray(step.truncated)
            obs = worlds.reset(ended) if ended.any() else step.obs
    finally:
        worlds.close()
    return rows

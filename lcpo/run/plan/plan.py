"""From what a user asks for to jobs, all checked before any work."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo import contexts
from lcpo.agents import find_agent, presets
from lcpo.contexts import paper
from lcpo.envs.base import AnyEnv
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan import phases
from lcpo.run.plan.check import check_agent, check_env
from lcpo.run.plan.job import Job, digest_of_trace, find_env, load_trace, trace_shape
from lcpo.run.plan.phases import Phase
from lcpo.types import AnyAgent, Spec, Training


def plan(
    agent: str,
    env: str,
    *,
    trace: str | None,
    steps: int | None = None,
    seeds: Sequence[int],
    scale: float | None = None,
    overrides: Mapping[str, Any] | None = None,
    env_overrides: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    training_steps: int | None = None,
    published: bool = False,
    label: str = "",
) -> list[Job]:
    """The jobs of one call of `train`: every value of the sweep with every seed, checked.

    `published`: with the values and all faults of the published code, below what is overridden.
    `label`: goes into the names of the runs, to tell them from others of the same agent.
    """
    chosen, env_class = find_agent(agent), find_env(env)
    faults = configs.published_faults(env_class) if published else {}
    the_env: AnyEnv = configs.make(env_class, {**faults, **(env_overrides or {})})
    check_env(the_env, f"environment {env!r}")
    training = _training(chosen, the_env, env, training_steps)
    context = _context(the_env, env, trace, scale, steps)
    if len(set(seeds)) != len(seeds) or not seeds or min(seeds) < 0:
        raise InputError(f"seeds = {list(seeds)}: needs at least one, all different, none negative")
    given = presets.settings(chosen, env)
    given |= {**(presets.published(chosen, env) if published else {}), **(overrides or {})}
    where = f"{agent}-{env}-{context.trace or 'none'}{f'-{label}' if label else ''}"
    sweep, jobs = sweep or {}, []
    for values in itertools.product(*sweep.values()):
        point = dict(zip(sweep, values, strict=True))
        resolved = _resolve(chosen, the_env.spec, context.steps, training, {**given, **point})
        at = "".join(f"-{field}={value}" for field, value in point.items())
        jobs += [
            Job(
                name=f"{where}{at}-s{seed}".replace("/", "_").replace(":", "."),
                agent=agent,
                env=env,
                trace=context.trace,
                scale=context.scale,
                seed=seed,
                env_config=configs.to_json(the_env),
                trace_digest=context.digest,
                **resolved,
            )
            for seed in seeds
        ]
    return jobs


class Context(NamedTuple):
    """What drives a run, and for how long."""

    trace: str | None
    scale: float
    steps: int
    digest: str | None = None
    """Of the rows in a file."""


def _resolve(
    agent: AnyAgent, spec: Spec, steps: int, training: Training | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a job that depend on its config values, checked: steps, config, training."""
    spec = spec if training is None else phases.training_spec(spec)
    config = configs.resolve(agent.config(**values), training.steps if training else steps)
    parts = phases.make_phases(steps, training, config.rollout_length, spec.num_worlds)
    _check_length(parts, training, steps)
    if agent.check is not None:
        agent.check(config, spec)
    check_agent(agent, config, spec)
    return {
        "steps": parts[-1].steps,
        "config": configs.to_json(config),
        "training": phases.to_json(training and training._replace(steps=parts[0].steps)),
    }


def plan_agents(
    agents: str, env: str, *, training_steps: int | None = None, **shared: Any
) -> list[Job]:
    """The jobs of several agents, "a,b,c"; `shared` goes to `plan` with each.

    Training steps are for the agents that train before they are judged; where none does, `plan`
    says so.
    """
    chosen = [name.strip() for name in agents.split(",") if name.strip()]
    if not chosen:
        raise InputError("no agents: name some, separated by commas")
    before = [name for name in chosen if find_agent(name).training] or chosen
    return [
        job
        for name in chosen
        for job in plan(
            name, env, training_steps=training_steps if name in before else None, **shared
        )
    ]


def _training(
    agent: AnyAgent, env: AnyEnv, env_name: str, training_steps: int | None
) -> Training | None:
    """The agent's plan with the steps asked for; InputError where it cannot be followed."""
    plan = agent.training
    if plan is None:
        if training_steps is not None:
            raise InputError(
                f"agent {agent.name!r} learns while it is judged: training steps belong to agents "
                "that train before, such as prescient-a2c"
            )
        return None
    if env.advance == "own":
        raise InputError(
            f"environment {env_name!r} makes its own context: {agent.name!r} needs a trace, "
            "to start anywhere on it"
        )
    known = configs.traced_fields(agent.Config)
    for field in plan.halve:
        if field not in known:
            raise InputError(unknown("field to halve", field, known))
    return plan if training_steps is None else plan._replace(steps=training_steps)


def _check_length(parts: Sequence[Phase], training: Training | None, steps: int) -> None:
    given = {"steps": steps, "training steps": training.steps if training else 0}
    for phase in parts:
        if phase.num_updates < 1:
            what = "training steps" if phase.name == "training" else "steps"
            one = "epoch" if phase.name == "evaluation" else "update"
            raise InputError(
                f"{what} = {given[what]:,}: needs at least one {one}, "
                f"{phase.steps_per_update:,} steps"
            )


def _context(
    env: AnyEnv,
    env_name: str,
    trace: str | None,
    scale: float | None,
    steps: int | None,
) -> Context:
    """Check that the trace fits the environment and lasts for the run."""
    if env.advance == "own":
        if trace is not None:
            raise InputError(
                f"environment {env_name!r} takes no trace, got {trace!r}: leave it out"
            )
        if steps is None:
            raise InputError("say how many steps to run")
        return Context(None, 1.0, steps)
    trace = trace or paper.DEFAULT_TRACES.get(env_name)
    if trace is None:
        raise InputError(f"environment {env_name!r} is driven by a trace: name one, e.g. --trace 3")
    scale = paper.default_scale(env_name, trace) if scale is None else scale
    if not np.isfinite(scale):
        raise InputError(f"scale = {scale}: needs a finite number")
    by_step = env.advance == "step"
    rows, columns = trace_shape(trace, scale, steps if by_step else None)
    channels = env.spec.context.channels
    if columns != channels:
        raise InputError(f"trace {trace!r} has {columns} columns, {env_name!r} needs {channels}")
    steps = steps or paper.DEFAULT_STEPS.get(env_name) or (rows if by_step else None)
    if steps is None:
        raise InputError("say how many steps to run")
    digest = None
    if contexts.is_file(trace):
        digest = digest_of_trace(load_trace(trace, scale, steps if by_step else None))
    return Context(trace, scale, steps, digest)

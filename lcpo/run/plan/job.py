"""A run as a value: what to train, on what, for how long. Plain JSON, checked before any work."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lcpo import config as configs
from lcpo import contexts, names
from lcpo.agents import find_agent, presets
from lcpo.contexts import paper
from lcpo.envs import ENVS
from lcpo.errors import InputError
from lcpo.gym import from_gym as gymnasium
from lcpo.names import unknown
from lcpo.run.plan import phases
from lcpo.run.plan.check import check_agent, check_env
from lcpo.run.plan.phases import Phase
from lcpo.types import Agent, Spec, Training

SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Job:
    """One run. `config` and `env_config` hold every field; nothing is left to defaults."""

    name: str
    agent: str
    env: str
    trace: str | None
    scale: float
    steps: int
    seed: int
    config: dict[str, Any]
    env_config: dict[str, Any]
    training: dict[str, Any] | None = None
    """The plan of a prescient run (`lcpo.types.Training`); `steps` are then its evaluation's."""

    @property
    def total_steps(self) -> int:
        """Of all phases."""
        return self.steps + (self.training["steps"] if self.training else 0)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `Job(**job.to_json()) == job`."""
        return dataclasses.asdict(self)


class Setup:
    """The objects that a job names."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.agent: Agent = find_agent(job.agent)
        self.config: Any = configs.make(self.agent.Config, job.config)
        self.env: Any = configs.make(find_env(job.env), job.env_config)
        self.spec: Spec = phases.training_spec(self.env.spec) if job.training else self.env.spec
        self.phases: tuple[Phase, ...] = phases.make_phases(
            job.steps,
            phases.from_json(job.training),
            self.config.rollout_length,
            self.spec.num_worlds,
        )

    @property
    def is_host(self) -> bool:
        """Whether the environment steps outside the compiler."""
        return hasattr(self.env, "open")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the environment."""
        slow = self.is_host and jax.default_backend() != "cpu"
        note = "it steps on the CPU, and waits for the GPU's actions: try JAX_PLATFORMS=cpu"
        return (*getattr(self.env, "notes", ()), *([note] if slow else []))

    def statics(self) -> Any:
        """What two runs must share to run in one compiled program."""
        job = self.job
        shape = jax.tree.structure((self.config, self.env))
        functions = (self.agent.init, self.agent.act, self.agent.update)
        return functions, job.env, job.trace, job.scale, self.phases, shape, self.spec


def find_env(name: str) -> type:
    """An environment class by name, or a user's own as 'package.module:Class'.

    "gym:ID" is an environment of Gymnasium's, and so is a class or function that makes one.
    """
    if name.startswith(gymnasium.ID):
        return gymnasium.gymnasium_class(name)
    found = names.find("environment", name, ENVS)
    if gymnasium.is_maker(found):
        return gymnasium.gymnasium_class(name)
    if not isinstance(found, type):
        raise InputError(
            f"{name} is a {type(found).__name__}: needs a class with @lcpo.config.config, or one "
            "(or a function) that makes a gymnasium.Env"
        )
    return found


def env_name(env: Any) -> str:
    """The name by which `find_env` finds the class of an environment."""
    if isinstance(env, gymnasium.GymnasiumEnv):
        return env.target
    known = {cls: name for name, cls in ENVS.items()}
    return known.get(type(env)) or f"{type(env).__module__}:{type(env).__qualname__}"


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
    the_env: Any = configs.make(env_class, {**faults, **(env_overrides or {})})
    check_env(the_env, f"environment {env!r}")
    training = _training(chosen, the_env, env, training_steps)
    spec = the_env.spec if training is None else phases.training_spec(the_env.spec)
    trace, scale, steps = _context(the_env, env, trace, scale, steps)
    if len(set(seeds)) != len(seeds) or not seeds or min(seeds) < 0:
        raise InputError(f"seeds = {list(seeds)}: needs at least one, all different, none negative")
    sweep, label = sweep or {}, f"-{label}" if label else ""
    base = {
        **presets.settings(chosen, env),
        **(presets.published(chosen, env) if published else {}),
    }
    jobs = []
    for values in itertools.product(*sweep.values()):
        point = dict(zip(sweep, values, strict=True))
        given = {**base, **(overrides or {}), **point}
        config = configs.resolve(chosen.config(**given), training.steps if training else steps)
        parts = phases.make_phases(steps, training, config.rollout_length, spec.num_worlds)
        _check_length(parts, training, steps)
        if chosen.check is not None:
            chosen.check(config, spec)
        check_agent(chosen, config, spec)
        where = label + "".join(f"-{k}={v}" for k, v in point.items())
        for seed in seeds:
            name = f"{agent}-{env}-{trace or 'none'}{where}-s{seed}".replace("/", "_")
            jobs.append(
                Job(
                    name=name.replace(":", "."),
                    agent=agent,
                    env=env,
                    trace=trace,
                    scale=scale,
                    steps=parts[-1].steps,
                    seed=seed,
                    config=configs.to_json(config),
                    env_config=configs.to_json(the_env),
                    training=phases.to_json(training and training._replace(steps=parts[0].steps)),
                )
            )
    return jobs


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


def _training(agent: Agent, env: Any, env_name: str, training_steps: int | None) -> Training | None:
    """The agent's plan with the steps asked for; raises ValueError where it cannot be followed."""
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
    for field in plan.halve:
        if field not in configs.traced_fields(agent.Config):
            raise InputError(unknown("field to halve", field,
                                             configs.traced_fields(agent.Config)))  # fmt: skip
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
    env: Any, env_name: str, trace: str | None, scale: float | None, steps: int | None
) -> tuple[str | None, float, int]:
    """Check that the trace fits the environment and lasts for the run."""
    if env.advance == "own":
        if trace is not None:
            raise InputError(
                f"environment {env_name!r} takes no trace, got {trace!r}: leave it out"
            )
        if steps is None:
            raise InputError("say how many steps to run")
        return None, 1.0, steps
    trace = trace or paper.DEFAULT_TRACES.get(env_name)
    if trace is None:
        raise InputError(f"environment {env_name!r} is driven by a trace: name one, e.g. --trace 3")
    scale = paper.default_scale(env_name, trace) if scale is None else scale
    if not np.isfinite(scale):
        raise InputError(f"scale = {scale}: needs a finite number")
    by_step = env.advance == "step"
    rows = load_trace(trace, scale, steps if by_step else None)
    channels = env.spec.context.channels
    if rows.shape[1] != channels:
        raise InputError(
            f"trace {trace!r} has {rows.shape[1]} columns, {env_name!r} needs {channels}"
        )
    steps = steps or paper.DEFAULT_STEPS.get(env_name) or (len(rows) if by_step else None)
    if steps is None:
        raise InputError("say how many steps to run")
    return trace, scale, steps


def job_trace(job: Job) -> np.ndarray:
    """The rows that a job needs. An environment without a trace gets a row without columns."""
    if job.trace is None:
        return np.zeros((1, 0), np.float32)
    by_step = Setup(job).env.advance == "step"
    return load_trace(job.trace, job.scale, job.steps if by_step else None)


_cached: tuple[Any, np.ndarray] | None = None


def load_trace(name: str, scale: float, rows: int | None) -> np.ndarray:
    """The trace, scaled. The last one is kept: the seeds of a study share it."""
    global _cached
    key = (name, scale, rows)
    if _cached is None or _cached[0] != key:
        values = contexts.get(name, rows)
        _cached = key, values if scale == 1.0 else values * np.float32(scale)
    return _cached[1]

"""A run as a value: what to train, on what, for how long. Plain JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

from lcpo import config as configs
from lcpo import contexts, names
from lcpo.agents import find_agent
from lcpo.envs import ENVS
from lcpo.envs.base import AnyEnv, is_host, notes_of
from lcpo.errors import InputError
from lcpo.gym import from_gym
from lcpo.run.plan import phases
from lcpo.run.plan.phases import Phase
from lcpo.types import AnyAgent, Spec

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
        self.agent: AnyAgent = find_agent(job.agent)
        self.config: Any = configs.make(self.agent.Config, job.config)
        self.env: AnyEnv = configs.make(find_env(job.env), job.env_config)
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
        return is_host(self.env)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the environment."""
        slow = self.is_host and jax.default_backend() != "cpu"
        note = "it steps on the CPU, and waits for the GPU's actions: try JAX_PLATFORMS=cpu"
        return (*notes_of(self.env), *([note] if slow else []))

    @property
    def trace_rows(self) -> int | None:
        """Rows of the trace that the run needs; None: all, it moves by episode."""
        return self.job.steps if self.env.advance == "step" else None

    def trace(self) -> np.ndarray:
        """The context, [rows, channels]. Without a trace it is a row without columns."""
        if self.job.trace is None:
            return np.zeros((1, 0), np.float32)
        return load_trace(self.job.trace, self.job.scale, self.trace_rows)

    def statics(self) -> Hashable:
        """What two runs must share to run in one compiled program."""
        job = self.job
        shape = jax.tree.structure((self.config, self.env))
        functions = (self.agent.init, self.agent.act, self.agent.update)
        return functions, job.env, job.trace, job.scale, self.phases, shape, self.spec


def find_env(name: str) -> type:
    """An environment class by name, or a user's own as 'package.module:Class'.

    "gym:ID" is an environment of Gymnasium's, and so is a class or function that makes one.
    """
    if name.startswith(from_gym.ID):
        return from_gym.gymnasium_class(name)
    found = names.find("environment", name, ENVS)
    if from_gym.is_maker(found):
        return from_gym.gymnasium_class(name)
    if not isinstance(found, type):
        raise InputError(
            f"{name} is a {type(found).__name__}: needs a class with @lcpo.config.config, or one "
            "(or a function) that makes a gymnasium.Env"
        )
    return found


def env_name(env: AnyEnv) -> str:
    """The name by which `find_env` finds the class of an environment."""
    if isinstance(env, from_gym.GymnasiumEnv):
        return env.target
    known = {cls: name for name, cls in ENVS.items()}
    return known.get(type(env)) or f"{type(env).__module__}:{type(env).__qualname__}"


_last_trace: tuple[tuple[str, float, int | None], np.ndarray] | None = None


def load_trace(name: str, scale: float, rows: int | None) -> np.ndarray:
    """The trace, scaled. The last one is kept: the seeds of a study share it."""
    global _last_trace
    key = (name, scale, rows)
    if _last_trace is None or _last_trace[0] != key:
        _last_trace = key, contexts.get(name, rows, scale)
    return _last_trace[1]


def trace_shape(name: str, scale: float, rows: int | None) -> tuple[int, int]:
    """Rows and channels of what `load_trace` would give. A file is read for it, and checked."""
    if contexts.is_file(name):
        loaded = load_trace(name, scale, rows)
        return loaded.shape[0], loaded.shape[1]
    return contexts.shape(name, rows)

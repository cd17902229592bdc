"""A run as a value: what to train, on what, for how long. Plain JSON."""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np

from lcpo import config as configs
from lcpo import contexts, names
from lcpo.agents import find_agent, is_ours
from lcpo.agents.normalise import normalise, read_rule
from lcpo.core.ood import DETECTORS
from lcpo.envs import ENVS
from lcpo.envs.base import AnyEnv, is_host, is_measured, notes_of
from lcpo.errors import InputError
from lcpo.gym import from_gym
from lcpo.run.plan import phases
from lcpo.run.plan.phases import Phase
from lcpo.run.store.files import digest
from lcpo.types import AnyAgent, Spec


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
    trace_digest: str | None = None
    """Of the rows in a trace file when the run was planned; None: the trace is no file."""
    normalise: str | list[float] | None = None
    """How the agent sees observations (`lcpo.agents.normalise`); None: as they are."""
    sized_for: int | None = None
    """Steps from which sizes left open (a reservoir of 1 % of them) were computed, where those
    differ from `steps`: that number is rounded down to whole updates, and grows when the run is
    extended, while the sizes stay."""

    @property
    def total_steps(self) -> int:
        """Of all phases."""
        return self.steps + (self.training["steps"] if self.training else 0)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `Job.from_json(job.to_json(), "") == job`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Any, where: str) -> Job:
        """A job that the file `where` holds; InputError where it is none. Nothing is imported."""
        known = {f.name for f in dataclasses.fields(cls)}
        if not isinstance(values, dict) or not known - _LATER <= values.keys() <= known:
            raise InputError(
                f"{where} holds something that is no job: needs {', '.join(sorted(known))}"
            )
        job = cls(**values)
        for name, kind in _KINDS.items():
            value = getattr(job, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"{where}: {name} = {value!r} of a job is no {_title(kind)}")
        if not math.isfinite(job.scale) or job.steps < 1:
            raise InputError(f"{where}: a job of {job.steps} steps with scale {job.scale}")
        if not is_file_name(job.name):
            raise InputError(f"{where}: a job is called {job.name!r}: that is no name of a folder")
        return job


_LATER = {"normalise", "sized_for"}
"""What jobs of earlier versions lack: they had its default."""
_KINDS: dict[str, Any] = {
    "name": str, "agent": str, "env": str, "trace": str | None, "scale": float | int,
    "steps": int, "seed": int, "config": dict, "env_config": dict, "training": dict | None,
    "trace_digest": str | None, "normalise": str | list | None, "sized_for": int | None,
}  # fmt: skip


def _title(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def is_file_name(text: str) -> bool:
    """Whether a folder of this name is made in the folder where it is put, and nowhere else."""
    fits = 0 < len(text.encode(errors="replace")) <= 255
    return fits and text.isprintable() and not {"/", "\\"} & set(text) and text[0] != "."


def check_trust(jobs: Sequence[Job], trust: bool, where: str) -> None:
    """Refuse jobs of the file `where` that name code outside this library, without trust."""
    for job in () if trust else jobs:
        for name, kind in outside(job).items():
            raise InputError(
                f"{where} names the {kind} {name!r}, which is no part of lcpo: to run it is to "
                "run its author's code; say --trust if you trust both"
            )


def outside(job: Job) -> dict[str, str]:
    """The code outside this library that a job names, and what it is."""
    detector = job.config.get("detector")
    named = [
        (job.agent, "agent", is_ours(job.agent)),
        (job.env, "environment", names.is_ours(job.env, ENVS)),
        (detector, "detector", detector is None or names.is_ours(str(detector), DETECTORS)),
    ]
    return {str(name): kind for name, kind, known in named if not known}


class Setup:
    """The objects that a job names."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.env: AnyEnv = configs.make(find_env(job.env), job.env_config)
        self.agent: AnyAgent = normalise(
            find_agent(job.agent), read_rule(job.normalise), self.env.advance == "own"
        )
        self.config: Any = configs.make(self.agent.Config, job.config)
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
    def is_timed(self) -> bool:
        """Whether reports ask when: how soon after a switch of the context, or in which hour."""
        return is_measured(self.env) or contexts.has_switches(self.job.trace)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the environment and of the trace."""
        slow = self.is_host and jax.default_backend() != "cpu"
        note = "it steps on the CPU, and waits for the GPU's actions: try JAX_PLATFORMS=cpu"
        return (*notes_of(self.env), *([note] if slow else []), *contexts.notes(self.job.trace))

    @property
    def trace_rows(self) -> int | None:
        """Rows of the trace that the run needs; None: all, it moves by episode."""
        return self.job.steps if self.env.advance == "step" else None

    def trace(self) -> np.ndarray:
        """The context, [rows, channels]. Without a trace it is a row without columns."""
        job = self.job
        if job.trace is None:
            return np.zeros((1, 0), np.float32)
        values = load_trace(job.trace, job.scale, self.trace_rows)
        if job.trace_digest not in (None, digest_of_trace(values)):
            raise InputError(
                f"trace file {job.trace} has changed since {job.name} was planned: put the old one "
                "back, or start anew in another folder"
            )
        return values

    def identity(self) -> dict[str, Any]:
        """All that the result depends on, as plain values."""
        return {**self.job.to_json(), "trace_digest": digest_of_trace(self.trace())}

    def statics(self) -> Hashable:
        """What two runs must share to run in one compiled program.

        Not the trace, where its rows come step by step: then each run can have its own.
        """
        job = self.job
        jumps = any(phase.mode.random_starts for phase in self.phases)
        by_step = self.env.advance == "step" and not jumps and not self.is_host
        trace = None if by_step else (job.trace, job.scale)
        shape = jax.tree.structure((self.config, self.env))
        return self.agent.root, job.env, trace, self.phases, shape, self.spec


def find_env(name: str) -> type:
    """An environment class by name, or a user's own as 'package.module:Class'.

    "gym:ID" is an environment of Gymnasium's, and so is a class, or a function that is declared to
    return one. Nothing else is ever called.
    """
    if name.startswith(from_gym.ID):
        return from_gym.gymnasium_class(name)
    found = names.find("environment", name, ENVS)
    if from_gym.is_maker(found):
        return from_gym.gymnasium_class(name)
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        raise InputError(f"{name} is a {type(found).__name__}: {from_gym.NEEDED}")
    return found


def env_name(env: AnyEnv) -> str:
    """The name by which `find_env` finds the class of an environment."""
    if isinstance(env, from_gym.GymnasiumEnv):
        return env.target
    known = {cls: name for name, cls in ENVS.items()}
    return known.get(type(env)) or f"{type(env).__module__}:{type(env).__qualname__}"


_last_trace: np.ndarray | None = None
_in_use: weakref.WeakValueDictionary[Hashable, np.ndarray] = weakref.WeakValueDictionary()


def load_trace(name: str, scale: float, rows: int | None) -> np.ndarray:
    """The trace, scaled. The last one is kept, and all that somebody holds: runs share them."""
    global _last_trace
    key = (name, scale, rows, contexts.stamp(name))
    found = _in_use.get(key)
    if found is None:
        found = _in_use[key] = contexts.get(name, rows, scale)
    _last_trace = found
    return found


_digests: dict[int, tuple[weakref.ref[np.ndarray], str]] = {}
"""By the place of a trace in memory, which another may have after it."""


def digest_of_trace(values: np.ndarray) -> str:
    """Its fingerprint, taken once as long as the trace is in use: all of its runs ask for it."""
    known = _digests.get(id(values))
    if known is None or known[0]() is not values:
        known = _digests[id(values)] = weakref.ref(values), digest(values)
    return known[1]


def file_digest(name: str | None, scale: float, rows: int | None) -> str | None:
    """The fingerprint of a trace that is a file; None where it is none."""
    if name is None or not contexts.is_file(name):
        return None
    return digest_of_trace(load_trace(name, scale, rows))


def trace_shape(name: str, scale: float, rows: int | None) -> tuple[int, int]:
    """Rows and channels of what `load_trace` would give. A file is read for it, and checked."""
    if contexts.is_file(name):
        loaded = load_trace(name, scale, rows)
        return loaded.shape[0], loaded.shape[1]
    return contexts.shape(name, rows)

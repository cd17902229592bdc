"""A run as a value in plain JSON: the agent, the environment, the trace, the number of steps."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lcpo import config as configs
from lcpo import names
from lcpo import values as plain_values
from lcpo.agents import find_agent, is_ours
from lcpo.agents.normalise import normalise, read_rule
from lcpo.archives import digest
from lcpo.contexts import TraceRef
from lcpo.core.ood import DETECTORS
from lcpo.envs import ENVS
from lcpo.envs.base import AnyEnv, is_host, is_measured, notes_of
from lcpo.errors import InputError
from lcpo.gym import from_gym
from lcpo.run.plan import phases
from lcpo.run.plan.phases import Phase
from lcpo.run.store import own_code
from lcpo.types import AnyAgent, Spec


@dataclasses.dataclass(frozen=True)
class Job:
    """One run. `config` and `env_config` hold every field; nothing is left to defaults.

    Agent, environment, trace, variant, setting, point of a sweep and seed identify a run. Its
    name, which is its folder's, is made of them, and is never parsed.
    """

    agent: str
    env: str
    trace: TraceRef | None
    scale: float
    steps: int
    seed: int
    config: dict[str, Any]
    env_config: dict[str, Any]
    variant: str = ""
    """A study's name for runs of an agent with other values, such as "sigma2=0.5"."""
    setting: str = ""
    """"published" in studies that put it into the names of runs; else empty."""
    point: dict[str, str] = dataclasses.field(default_factory=dict)
    """The point of a sweep: its values by field, as in the run's name."""
    training: dict[str, Any] | None = None
    """The plan of a prescient run (`lcpo.types.Training`); `steps` are then its evaluation's."""
    trace_digest: str | None = None
    """Digest of the rows of a trace file when the run was planned; None: the trace is not a
    file."""
    normalise: str | list[float] | None = None
    """How the agent sees observations (`lcpo.agents.normalise`); None: as they are."""
    sized_for: int | None = None
    """Steps from which open sizes (a reservoir of 1 % of them) were computed, if not `steps`: those
    are rounded down to whole updates, and grow when the run is extended, while sizes stay."""

    @property
    def case(self) -> str:
        """What distinguishes it from other runs of its agent on this task, except the seed."""
        at = (f"{field}={value}" for field, value in self.point.items())
        return "-".join(part for part in (self.variant, self.setting, *at) if part)

    @property
    def kind(self) -> str:
        """`case` without the setting."""
        return dataclasses.replace(self, setting="").case

    @property
    def label(self) -> str:
        """The agent and its case, for tables."""
        return f"{self.agent}-{self.case}" if self.case else self.agent

    @property
    def stem(self) -> str:
        """The name without the seed."""
        trace = "none" if self.trace is None else self.trace
        task = plain_values.file_name(f"{self.agent}-{self.env}-{trace}")
        return f"{task}-{self.case}" if self.case else task

    @property
    def name(self) -> str:
        """The name of its folder. Settings that make it too long become a fingerprint."""
        name = f"{self.stem}-s{self.seed}"
        if not self.point or len(name.encode(errors="replace")) <= MAX_NAME_BYTES:
            return name
        settings = hashlib.sha256(repr(self.point).encode(errors="replace")).hexdigest()
        return f"{dataclasses.replace(self, point={}).stem}-{settings[:12]}-s{self.seed}"

    @property
    def trace_name(self) -> str | None:
        """The trace as text, for tables and files."""
        return None if self.trace is None else str(self.trace)

    @property
    def total_steps(self) -> int:
        """Steps of all phases."""
        return self.steps + (self.training["steps"] if self.training else 0)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `Job.from_json(job.to_json(), "") == job`."""
        return {"name": self.name, **vars(self), "trace": self.trace_name}

    @classmethod
    def from_json(cls, values: Any, where: str) -> Job:
        """A job of the file `where`; InputError for anything else. Nothing is imported."""
        known = _KINDS.keys()
        if not isinstance(values, dict) or not known - _LATER <= values.keys() <= known:
            needed = ", ".join(sorted(known))
            raise InputError(f"{where} holds something that is not a job: needs {needed}")
        for name, value in values.items():
            kind = _KINDS[name]
            if not isinstance(value, kind) or isinstance(value, bool):
                wanted = getattr(kind, "__name__", str(kind))
                raise InputError(f"{where}: {name} = {value!r} of a job is not a {wanted}")
        found = dict(values)
        called, text = found.pop("name"), found["trace"]
        scale, steps = found["scale"], found["steps"]
        if not math.isfinite(scale) or steps < 1:
            raise InputError(f"{where}: a job of {steps} steps with scale {scale}")
        if not is_file_name(called):
            raise InputError(f"{where}: the name of a job, {called!r}, is not a valid folder name")
        found["trace"] = None if text is None else TraceRef.parse(text)
        job = cls(**found) if "point" in found else cls(**found)._identified_by(called)
        if job.name != called:
            raise InputError(
                f"{where}: a job is called {called!r}, but its fields make {job.name!r}: the file "
                "was edited; restore the original"
            )
        return job

    def _identified_by(self, name: str) -> Job:
        """With variant, setting and point, which jobs of an earlier version have in their names:
        AGENT-ENV-TRACE[-VARIANT][-published][-FIELD=VALUE ...]-sSEED.
        """
        case = name.removesuffix(f"-s{self.seed}").removeprefix(self.stem)
        fields = "|".join(map(re.escape, self.config))
        first, *points = re.split(rf"-(?=(?:{fields})=)", case) if fields else [case]
        variant, setting = first.removeprefix("-"), ""
        if variant == PUBLISHED or variant.endswith(f"-{PUBLISHED}"):
            variant, setting = variant.removesuffix(PUBLISHED).removesuffix("-"), PUBLISHED
        point = dict(point.split("=", 1) for point in points)
        return dataclasses.replace(self, variant=variant, setting=setting, point=point)


_LATER = {"sized_for", "variant", "setting", "point"}
"""Fields that jobs of earlier versions lack: they had the default, or have it in their names."""
_KINDS: dict[str, Any] = {
    "name": str, "agent": str, "env": str, "trace": str | None, "scale": float | int,
    "steps": int, "seed": int, "config": dict, "env_config": dict, "training": dict | None,
    "trace_digest": str | None, "normalise": str | list | None, "sized_for": int | None,
    "variant": str, "setting": str, "point": dict,
}  # fmt: skip
MAX_NAME_BYTES = 240
"""Longest name of a run, which is also its folder's: file systems allow 255 bytes."""
PUBLISHED = "published"
"""The setting of the published code, in the names of runs."""


def is_file_name(text: str) -> bool:
    """Whether a text is a valid name of a folder, on every system."""
    fits = 0 < len(text.encode(errors="replace")) <= 255
    return fits and text.isprintable() and not {"/", "\\"} & set(text) and text[0] != "."


def check_trust(jobs: Sequence[Job], trust: bool, where: str) -> None:
    """Refuse jobs of the file `where` that name code outside this library, without trust."""
    for job in () if trust else jobs:
        for name, kind in () if is_own(job) else outside(job).items():
            raise InputError(
                f"{where} names the {kind} {name!r}, which is not part of lcpo, and you did not "
                "start this run here: running it runs its author's code; pass --trust (in Python: "
                "trust=True) if you trust both"
            )


def is_own(job: Job) -> bool:
    """Whether this user has planned this very run here, with the same files (`store.own_code`)."""
    return bool(outside(job)) and own_fingerprint(job) in own_code.known()


def own_fingerprint(job: Job) -> str | None:
    """Of a job and the code outside this library that it names; None if that is in no file."""
    parts = [name.removeprefix(from_gym.ID).partition(":") for name in outside(job)]
    modules = [name.partition(".")[0] if colon else "gymnasium" for name, colon, _ in parts]
    return own_code.fingerprint(job.to_json(), modules)


def outside(job: Job) -> dict[str, str]:
    """The code outside this library that a job names, with its kind."""
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
        self.env: AnyEnv = make_env(find_env(job.env), job.env_config)
        self.agent: AnyAgent = normalise(
            find_agent(job.agent), read_rule(job.normalise), self.env.advance == "own"
        )
        self.config: Any = configs.make(self.agent.Config, job.config)
        self.spec: Spec = phases.training_spec(self.env.spec) if job.training else self.env.spec
        training, length = phases.from_json(job.training), self.config.rollout_length
        self.phases: tuple[Phase, ...] = phases.make_phases(
            job.steps, training, length, self.spec.num_worlds
        )

    @property
    def is_host(self) -> bool:
        """Whether the environment steps outside the compiler."""
        return is_host(self.env)

    @property
    def is_timed(self) -> bool:
        """Whether reports need the times of events: after a switch of the context, or by hour."""
        switches = self.job.trace is not None and self.job.trace.has_switches
        return switches or is_measured(self.env)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the environment and the trace."""
        return (*notes_of(self.env), *(self.job.trace.notes() if self.job.trace else ()))

    @property
    def trace_rows(self) -> int | None:
        """Rows of the trace that the run needs; None: all, it moves by episode."""
        return self.job.steps if self.env.advance == "step" else None

    def trace(self) -> np.ndarray:
        """The context, [rows, channels]. Without a trace it is a row without columns."""
        job = self.job
        if job.trace is None:
            return _NO_TRACE
        values = job.trace.load(self.trace_rows, job.scale)
        if job.trace_digest is not None and job.trace_digest != self._digest():
            raise InputError(
                f"trace file {job.trace} has changed since {job.name} was planned: restore it, or "
                "start again in another folder"
            )
        return values

    def identity(self) -> dict[str, Any]:
        """All that the result depends on, as plain values."""
        self.trace()  # raises if its file has changed
        named = {"variant", "setting", "point"}  # the name stands for them, as in older checkpoints
        values = {k: v for k, v in self.job.to_json().items() if k not in named}
        return {**values, "trace_digest": self._digest()}

    def _digest(self) -> str:
        job = self.job
        if job.trace is None:
            return digest(_NO_TRACE)
        return job.trace.digest(self.trace_rows, job.scale)

    def statics(self) -> Hashable:
        """What two runs must share to run in one compiled program."""
        job = self.job
        jumps = any(phase.mode.random_starts for phase in self.phases)
        by_step = self.env.advance == "step" and not jumps and not self.is_host
        trace = None if by_step else (job.trace, job.scale)  # by step, each run can have its own
        shape = jax.tree.structure((self.config, self.env))
        return self.agent.root, job.env, trace, self.phases, shape, self.spec


_NO_TRACE = np.zeros((1, 0), np.float32)


def find_env(name: str) -> type:
    """An environment class by name, or a user's own as 'package.module:Class'.

    "gym:ID" names an environment of Gymnasium, and so may a class, or a function that is declared
    to return one. Nothing else is ever called.
    """
    if name.startswith(from_gym.ID):
        return from_gym.gymnasium_class(name)
    found = names.find("environment", name, ENVS)
    if from_gym.is_maker(found):
        return from_gym.gymnasium_class(name)
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        raise InputError(f"{name} is a {type(found).__name__}: {from_gym.NEEDED}")
    return found


def make_env(cls: type, values: Mapping[str, Any]) -> AnyEnv:
    """The environment with the values of a stored run."""
    return configs.make(cls, {**earlier_values(cls), **values})


def earlier_values(cls: type | None) -> Mapping[str, Any]:
    """Optional member `earlier` of an environment's class: the values of fields that runs of
    earlier versions lack, where these are not the default."""
    return getattr(cls, "earlier", {})


def env_values(job: Job) -> dict[str, Any]:
    """`job.env_config`, with what a run of an earlier version lacks. Nothing is imported."""
    return {**earlier_values(names.imported(job.env, ENVS)), **job.env_config}


def env_name(env: AnyEnv) -> str:
    """The name by which `find_env` finds the class of an environment."""
    if isinstance(env, from_gym.GymnasiumEnv):
        return env.target
    known = {cls: name for name, cls in ENVS.items()}
    return known.get(type(env)) or f"{type(env).__module__}:{type(env).__qualname__}"

"""The folder of a live agent: what is in it, how one begins, and how it is served.

live.json       what the agent was made with; written last, when a folder begins
log/            every event
checkpoints/    the whole agent, now and then
versions/       policies to return to
"""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lcpo import values
from lcpo.errors import InputError
from lcpo.live import outcomes
from lcpo.live.checkpoints import Checkpoints
from lcpo.live.desk import Decider, Desk
from lcpo.live.guard import Function, Guard, Limits
from lcpo.live.learner import Learner
from lcpo.live.learning import Learning
from lcpo.live.log import SEGMENT, Durability
from lcpo.live.segments import START
from lcpo.live.settings import Settings
from lcpo.live.versions import Rule
from lcpo.run.store.files import is_unfinished, load_document, save_document
from lcpo.run.store.layout import lock_file
from lcpo.run.store.lock import locked
from lcpo.types import Spec

SCHEMA = 1
_NEEDED = {"settings": dict, "warm": bool, "began": (int, float)}


_FUNCTIONS = {
    "incumbent": "from an observation to an action",
    "clock": "without arguments, which returns seconds",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """How a folder is served; unlike the learner's settings, they may differ at every opening."""

    guard: Function | Limits | None = None
    fallback: Any = None
    incumbent: Decider | None = None
    rollback: Rule | None = None
    learn: str = "now"
    durability: Durability = "process"
    checkpoint_every: int = 10_000
    version_every: int = 10
    keep_versions: int = 5
    keep_log: bool = True
    max_drops: int = 3
    segment_bytes: int = SEGMENT
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if self.learn not in ("now", "background"):
            values.refuse("learn", self.learn, "'now' or 'background'")
        if self.rollback is not None and not isinstance(self.rollback, Rule):
            values.refuse("rollback", self.rollback, "a rule, such as Rule(margin=0.1)")
        for name in ("incumbent", "clock"):
            given = getattr(self, name)
            if not callable(given) and not (name == "incumbent" and given is None):
                values.refuse(name, given, f"a function {_FUNCTIONS[name]}")
        for name in ("checkpoint_every", "version_every", "keep_versions", "max_drops"):
            values.whole(name, getattr(self, name))
        values.whole("segment_bytes", self.segment_bytes, START + 1)
        if self.durability not in ("process", "power"):
            values.refuse("durability", self.durability, "'process' or 'power'")
        values.flag("keep_log", self.keep_log)


def decider(fallback: Any, spec: Spec) -> Decider | None:
    """A function from observations to actions: the one given, or one with always the same."""
    if fallback is None or callable(fallback):
        return fallback
    always = outcomes.check_action(spec, fallback, "fallback")
    return lambda _: always


def is_begun(folder: Path) -> bool:
    """Whether a folder holds a live agent; InputError if it holds something else."""
    if folder.is_file():
        raise InputError(f"{folder} is a file: give a folder")
    if os.path.lexists(folder / "live.json"):
        return True
    found = list(folder.iterdir()) if folder.is_dir() else []
    known = {lock_file(folder), folder / "checkpoints"}  # of a beginning that was interrupted
    others = sorted(path.name for path in found if path not in known and not is_unfinished(path))
    if others:
        raise InputError(
            f"{folder} is not the folder of a live agent: it has {others[0]} and no live.json; "
            "give an empty or new folder"
        )
    return False


def begin(
    folder: Path, given: Mapping[str, Any], policy: str | Path | None, desk: Desk, trust: bool,
    options: Options,
) -> None:  # fmt: skip
    """Make a folder, with the agent as it begins. `given`: arguments as of `Learner`."""
    if policy is None:
        if given["agent"] is None or given["spec"] is None:
            raise InputError(f"{folder} is new: give agent= and spec=, or policy=, a finished run")
        settings = Settings.make(**given)
        learning = Learning(settings)
        state = learning.begin()
    else:
        kept = ("config", "seed", "late", "late_seconds", "missing")
        rest = {name: given[name] for name in kept}
        learner = Learner.from_run(policy, trust=trust, **rest)
        settings, state = learner.settings, learner.state
        learning = Learning(settings)
        _check_same(folder, settings, given, f"the policy in {policy}")
    # Before there is a folder: who else decides must fit the agent.
    _ = options.guard and Guard(options.guard, settings.spec.actions)
    decider(options.fallback, settings.spec)
    with locked(folder, warnings.warn):
        if is_begun(folder):
            raise InputError(f"another process has just begun {folder}: open it again")
        Checkpoints(folder / "checkpoints").save(learning, state, desk.to_json(), 0)
        about = {"settings": settings.to_json(), "warm": policy is not None, "began": time.time()}
        save_document(folder / "live.json", SCHEMA, about)


def check_given(folder: Path, given: Mapping[str, Any]) -> None:
    """Raise InputError if arguments differ from those that the agent was made with."""
    stored = load_document(folder / "live.json", SCHEMA, _NEEDED)["settings"]
    if given["agent"] is None and given["spec"] is None:
        _check_rest(folder, given, stored)
        return
    if given["agent"] is None or given["spec"] is None:
        raise InputError("give both agent= and spec=, or neither: the folder knows them")
    _compare(Settings.make(**given).to_json(), stored, f"the agent in {folder}")


def _check_rest(folder: Path, given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Arguments without agent and spec: those that say something must agree, too."""
    # By the names of `Settings.to_json`; the agent's config holds what `steps` decides.
    told = {name: given[name] for name, default in _DEFAULTS.items() if given[name] != default}
    for name in ("config", "steps", "normalise"):
        if told.pop(name, None) is not None:
            raise InputError(
                f"{name}= is given without agent= and spec=, and {folder} has an agent already: "
                f"omit {name}=, or give all three"
            )
    _compare(told, stored, f"the agent in {folder}")


_DEFAULTS = {
    "config": None, "seed": 0, "steps": None, "advance": "step", "normalise": None, "late": None,
    "late_seconds": None, "missing": "cut",
}  # fmt: skip
"""Of the arguments that belong to an agent, as of `open`."""


def _check_same(folder: Path, made: Settings, given: Mapping[str, Any], what: str) -> None:
    """A policy's own agent and spec are used; others are refused."""
    name, spec = given["agent"], given["spec"]
    if name is not None and getattr(name, "name", name) != made.agent_name:
        raise InputError(
            f"{what} is of {made.agent_name}, not of {values.shown(name)}: omit agent="
        )
    if spec is not None:
        free = {"contiguous_contexts": False, "unit_steps": False, "num_worlds": 1}
        if spec._replace(**free) != made.spec:
            raise InputError(f"{what} has another spec, {made.spec}: omit spec=")


def _compare(given: Mapping[str, Any], stored: Mapping[str, Any], what: str) -> None:
    plain = {name: values_of(value) for name, value in given.items()}
    odd = [name for name, value in plain.items() if value != values_of(stored.get(name))]
    if odd:
        shown = ", ".join(
            f"{name} = {values.shown(stored.get(name))} (given: {values.shown(given[name])})"
            for name in odd
        )
        raise InputError(f"{what} was made with {shown}: omit what differs, or use a new folder")


def values_of(value: Any) -> Any:
    """As JSON has it: lists instead of tuples."""
    if isinstance(value, Mapping):
        return {name: values_of(inner) for name, inner in value.items()}
    return [values_of(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_warm(folder: Path) -> bool:
    """Whether the agent began with a trained policy."""
    return load_document(folder / "live.json", SCHEMA, _NEEDED)["warm"]

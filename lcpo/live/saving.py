"""A learner as one file: atomic, with digests, without pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.agents import is_ours, normalise
from lcpo.errors import InputError
from lcpo.run.store.checkpoint import flatten, unflatten
from lcpo.run.store.files import load_bundle, save_bundle
from lcpo.run.store.policy import spec_from_json, spec_to_json
from lcpo.types import AnyAgent, Tree

if TYPE_CHECKING:
    from lcpo.live.learner import Learner

SCHEMA = 1
_NEEDED = {
    "agent": str, "config": dict, "spec": dict, "seed": int, "advance": str, "updates": int,
    "metrics": dict, "streams": dict, "normalise": (str, list, type(None)),
}  # fmt: skip


def save(path: Path, learner: Learner) -> None:
    """Write all of it, the unfinished rollout too."""
    rollout = learner._rollout
    about = {
        "agent": learner.agent_name,
        "config": configs.to_json(learner.config),
        "spec": spec_to_json(learner.spec),
        "seed": int(learner.seed),
        "advance": rollout.advance,
        "normalise": normalise.to_json(learner.rule),
        "updates": learner.updates,
        "metrics": learner.metrics,
        "streams": {name: stream.marks for name, stream in rollout.streams.items()},
    }
    save_bundle(path, SCHEMA, about, flatten(_arrays(learner)))


def load(path: Path, agent: str | AnyAgent | None, trust: bool, make: type[Learner]) -> Learner:
    """What `save` wrote."""
    about, arrays = load_bundle(path, SCHEMA, _NEEDED)
    name = about["agent"]
    if agent is None and not trust and not is_ours(name):
        raise InputError(
            f"the learner in {path} is of the agent {name!r}, which is no part of lcpo: give it as "
            "agent=, or say trust=True if you trust its author and the file's"
        )
    try:
        spec = spec_from_json(about["spec"])
        learner = make(
            name if agent is None else agent,
            spec,
            about["config"],
            about["seed"],
            advance=about["advance"],
            normalise=about["normalise"],
        )
        _fill(learner, about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no learner of this agent: {error}") from error
    return learner


def _arrays(learner: Learner) -> Tree:
    """Everything of a learner that changes, but the marks of its streams."""
    rollout = learner._rollout
    size = learner.spec.context.size
    histories = [stream.history.entries for stream in rollout.streams.values()]
    return {
        "agent": learner._state,
        "obs": learner._obs,
        "sums": learner._sums,
        "rollout": rollout.buffers._asdict(),
        "extra": rollout.extra,
        "seen": np.array([entries is not None for entries in histories], bool),
        "histories": np.array(
            [np.zeros(size, np.float32) if x is None else x for x in histories], np.float32
        ).reshape(-1, size),
    }


def _fill(learner: Learner, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Put back what was saved into a fresh learner."""
    rollout = learner._rollout
    for name, marks in about["streams"].items():
        stream = learner._stream(name)
        if marks.keys() != stream.marks.keys() or marks["column"] != stream.column:
            raise ValueError(f"it says of stream {name!r}: {marks}")
        if not 0 <= marks["step"] <= rollout.num_steps:
            raise ValueError(f"stream {name!r} is at step {marks['step']}")
        stream.step, stream.skipped = marks["step"], marks["skipped"]
        stream.acted, stream.kept, stream.open = (
            bool(marks[mark]) for mark in ("acted", "kept", "open")
        )
        stream.history.moved = bool(marks["moved"])
    found = unflatten(_arrays(learner), arrays)
    learner._state = jax.tree.map(jnp.array, found["agent"])
    learner._obs, learner._sums = found["obs"], found["sums"]
    rollout.buffers = type(rollout.buffers)(**found["rollout"])
    rollout.extra = found["extra"]
    for i, stream in enumerate(rollout.streams.values()):
        stream.history.entries = found["histories"][i] if found["seen"][i] else None
    learner.updates, learner.metrics = about["updates"], about["metrics"]
    learner._prepare()

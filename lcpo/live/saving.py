"""A learner as one file: atomic, with digests, without pickle."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo import values
from lcpo.agents import is_ours, normalise
from lcpo.errors import InputError
from lcpo.run.store.checkpoint import flatten, unflatten
from lcpo.run.store.files import UNFINISHED, load_bundle, save_bundle
from lcpo.run.store.policy import load_policy, spec_from_json, spec_to_json
from lcpo.types import AnyAgent, Tree

if TYPE_CHECKING:
    from lcpo.live.learner import Learner
    from lcpo.live.rollout import Stream

SCHEMA = 1
_NEEDED = {
    "agent": str, "config": dict, "spec": dict, "seed": int, "advance": str, "updates": int,
    "metrics": dict, "streams": dict, "normalise": (str, list, type(None)),
}  # fmt: skip
ABANDONED = 600.0
"""Seconds without a write after which a half-written file is one that a kill has left."""


def save(path: Path, learner: Learner) -> None:
    """Write all of it, the unfinished rollout too."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file in it, such as learner.npz")
    _sweep(path.parent)
    rollout = learner._rollout
    about = {
        "agent": learner.agent_name,
        "config": configs.to_json(learner.config),
        "spec": spec_to_json(learner.spec),
        "seed": int(learner.seed),
        "advance": rollout.advance,
        "normalise": normalise.to_json(learner.rule),
        "updates": learner.updates,
        "dropped": learner.dropped,
        "metrics": learner.metrics,
        "streams": {name: stream.marks for name, stream in rollout.streams.items()},
    }
    save_bundle(path, SCHEMA, about, flatten(_arrays(learner)))


def load(path: Path, agent: str | AnyAgent | None, trust: bool, make: type[Learner]) -> Learner:
    """What `save` wrote."""
    about, arrays = _read(path)
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
        state = _fill(learner, about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no learner of this agent: {error}") from error
    learner.adopt(jax.tree.map(jnp.array, state), str(path))
    return learner


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        return load_bundle(path, SCHEMA, _NEEDED)
    except InputError as error:
        if _is_policy(path):
            raise InputError(
                f"{path} holds a policy, no learner: use Learner.from_run({str(path)!r}) to go on "
                "learning from it, or lcpo.load to act with it"
            ) from error
        raise


def _is_policy(path: Path) -> bool:
    try:
        load_policy(path)
    except InputError:
        return False
    return True


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


def _fill(learner: Learner, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tree:
    """Put back what was saved into a fresh learner; the agent's state, which is still to be put."""
    rollout = learner._rollout
    for name, marks in about["streams"].items():
        stream = learner._stream(name)
        rollout.streams[name] = stream
        _mark(stream, name, marks, rollout.num_steps)
    found = unflatten(_arrays(learner), arrays)
    learner._obs, learner._sums = found["obs"], found["sums"]
    rollout.buffers = type(rollout.buffers)(**found["rollout"])
    rollout.extra = found["extra"]
    for i, stream in enumerate(rollout.streams.values()):
        stream.history.entries = found["histories"][i] if found["seen"][i] else None
    learner.updates = values.whole("updates", about["updates"], 0, values.INT_MAX // 2)
    learner.dropped = values.whole("dropped", about.get("dropped", 0), 0, values.INT_MAX // 2)
    metrics = about["metrics"].items()
    learner.metrics = {name: values.number(name, value) for name, value in metrics}
    return found["agent"]


def _mark(stream: Stream, name: str, marks: Any, num_steps: int) -> None:
    """Put a stream where its marks say; ValueError where no stream can be."""
    if not isinstance(marks, dict) or marks.keys() != stream.marks.keys():
        raise ValueError(f"it says of stream {name!r}: {values.shown(marks)}")
    highs = dict.fromkeys(marks, 1) | {
        "column": stream.column, "step": num_steps, "skipped": values.INT_MAX,
    }  # fmt: skip
    whole = {mark: values.whole(mark, marks[mark], 0, high) for mark, high in highs.items()}
    under_way = whole["acted"] + whole["open"]
    is_beyond = whole["kept"] and under_way and whole["step"] == num_steps
    if whole["column"] != stream.column or under_way > 1 or is_beyond:
        raise ValueError(f"it says of stream {name!r}: {values.shown(marks)}")
    stream.step, stream.skipped = whole["step"], whole["skipped"]
    stream.acted, stream.kept, stream.open = (
        bool(whole[mark]) for mark in ("acted", "kept", "open")
    )
    stream.history.moved = bool(whole["moved"])


def _sweep(folder: Path) -> None:
    """Delete what a kill in the middle of a `save` has left, not what is still being written."""
    for file in folder.glob(f".*{UNFINISHED}"):
        is_part = re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(UNFINISHED)}", file.name)
        with contextlib.suppress(OSError):  # another process was faster
            if is_part and time.time() - file.stat().st_mtime > ABANDONED:
                file.unlink()

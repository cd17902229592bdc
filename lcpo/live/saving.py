"""A learner as one file: atomic, with digests, without pickle."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.agents import is_ours
from lcpo.errors import InputError
from lcpo.live.loop import Loop
from lcpo.live.settings import Settings
from lcpo.live.state import Experience, LearnerState, Stream
from lcpo.run.drive.collect import Buffers
from lcpo.run.store.checkpoint import flatten, unflatten
from lcpo.run.store.files import load_bundle, save_bundle, unfinished
from lcpo.run.store.policy_file import load_policy, spec_from_json
from lcpo.types import AnyAgent, Tree

SCHEMA = 1
_NEEDED = {
    "agent": str, "config": dict, "spec": dict, "seed": int, "advance": str, "updates": int,
    "metrics": dict, "streams": dict, "normalise": (str, list, type(None)),
}  # fmt: skip
ABANDONED = 600.0
"""Seconds without a write after which a half-written file is one that a kill has left."""


def save(path: Path, loop: Loop, state: LearnerState) -> None:
    """Write all of a learner, the unfinished rollout too."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file in it, such as learner.npz")
    _sweep(path.parent)
    about = {
        **loop.settings.to_json(),
        "updates": state.updates,
        "dropped": state.dropped,
        "metrics": state.metrics,
        "streams": {name: _marks(stream) for name, stream in state.in_order},
    }
    save_bundle(path, SCHEMA, about, flatten(arrays_of(loop, state)))


def load(path: Path, agent: str | AnyAgent | None, trust: bool) -> tuple[Loop, LearnerState]:
    """What `save` wrote; arguments as of `Learner.load`."""
    about, arrays = _read(path)
    name = about["agent"]
    if agent is None and not trust and not is_ours(name):
        raise InputError(
            f"the learner in {path} is of the agent {name!r}, which is no part of lcpo: give it as "
            "agent=, or say trust=True if you trust its author and the file's"
        )
    try:
        settings = Settings.make(
            name if agent is None else agent,
            spec_from_json(about["spec"]),
            about["config"],
            about["seed"],
            advance=about["advance"],
            normalise=about["normalise"],
        )
        loop = Loop(settings)
        fresh = loop.begin()
        state = _restore(loop, fresh, about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no learner of this agent: {error}") from error
    loop.check_usable(state.agent, fresh.agent, str(path))
    return loop, state


def arrays_of(loop: Loop, state: LearnerState) -> dict[str, Tree]:
    """Everything that changes in a learner but its counters and the marks of its streams."""
    buffers, extra = loop.rollout(state)
    size = loop.spec.context.size
    histories = [stream.history.entries for _, stream in state.in_order]
    return {
        "agent": state.agent,
        "obs": state.obs,
        "sums": list(state.sums),
        "rollout": buffers._asdict(),
        "extra": extra,
        "seen": np.array([entries is not None for entries in histories], bool),
        "histories": np.array(
            [np.zeros(size, np.float32) if x is None else x for x in histories], np.float32
        ).reshape(-1, size),
    }


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


def _restore(
    loop: Loop, fresh: LearnerState, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> LearnerState:
    """The state that was saved; ValueError, or one of its kind, where none can be so."""
    state, most = fresh, values.INT_MAX // 2
    for name in about["streams"]:
        state = state.with_stream(name, loop.new_stream(state, name))
    found = unflatten(arrays_of(loop, state), arrays)
    for i, (name, marks) in enumerate(about["streams"].items()):
        checked = _check_marks(name, marks, i, loop.num_steps)
        entries = found["histories"][i] if found["seen"][i] else None
        stream = _stream(loop, state.streams[name], checked, found, entries)
        state = state.with_stream(name, stream)
    metrics = about["metrics"].items()
    return state._replace(
        agent=jax.tree.map(jnp.array, found["agent"]),
        sums=tuple(found["sums"]),
        obs=found["obs"],
        updates=values.whole("updates", about["updates"], 0, most),
        dropped=values.whole("dropped", about.get("dropped", 0), 0, most),
        metrics={name: values.number(name, value) for name, value in metrics},
    )


def _stream(
    loop: Loop, fresh: Stream, marks: dict[str, int], found: dict[str, Tree], entries: Any
) -> Stream:
    """A stream with the steps that its column of the rollout holds."""
    column, buffers = fresh.column, Buffers(**found["rollout"])

    def step(t: int) -> Experience:
        place = t if loop.spec.num_worlds == 1 else (t, column)
        extra = tuple(x[place] for x in jax.tree.leaves(found["extra"]))
        return Experience(extra=extra, **{k: v[t, column] for k, v in buffers._asdict().items()})

    count, under_way = marks["step"], None
    if marks["kept"] and marks["acted"]:
        whole = step(count)
        under_way = Experience(whole.obs, whole.action, whole.extra)
    elif marks["kept"] and marks["open"]:
        under_way = step(count)._replace(next_obs=None)
    return fresh._replace(
        history=fresh.history._replace(entries=entries, moved=bool(marks["moved"])),
        steps=tuple(map(step, range(count))),
        under_way=under_way,
        acted=bool(marks["acted"]),
        open=bool(marks["open"]),
        skipped=marks["skipped"],
    )


def _marks(stream: Stream) -> dict[str, int]:
    """Where a stream stands, as plain values."""
    is_busy = stream.acted or stream.open
    return {
        "column": stream.column,
        "step": len(stream.steps),
        "skipped": stream.skipped,
        "acted": int(stream.acted),
        "kept": int(stream.under_way is not None or not is_busy),
        "open": int(stream.open),
        "moved": int(stream.history.moved),
    }


def _check_marks(name: str, marks: Any, column: int, num_steps: int) -> dict[str, int]:
    """The marks as whole numbers; ValueError where no stream can be so."""
    names = ("column", "step", "skipped", "acted", "kept", "open", "moved")
    if not isinstance(marks, dict) or marks.keys() != set(names):
        raise ValueError(f"it says of stream {name!r}: {values.shown(marks)}")
    highs = dict.fromkeys(names, 1) | {
        "column": column, "step": num_steps, "skipped": values.INT_MAX,
    }  # fmt: skip
    whole = {mark: values.whole(mark, marks[mark], 0, high) for mark, high in highs.items()}
    under_way = whole["acted"] + whole["open"]
    is_beyond = whole["kept"] and under_way and whole["step"] == num_steps
    if whole["column"] != column or under_way > 1 or is_beyond:
        raise ValueError(f"it says of stream {name!r}: {values.shown(marks)}")
    return whole


def _sweep(folder: Path) -> None:
    """Delete what a kill in the middle of a `save` has left, not what is still being written."""
    for file in unfinished(folder):
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - file.stat().st_mtime > ABANDONED:
                file.unlink()

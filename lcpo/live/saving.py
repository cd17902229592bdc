"""A learner as one file: atomic, with digests, without pickle."""

from __future__ import annotations

import contextlib
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
from lcpo.run.store.checkpoint import flatten, unflatten
from lcpo.run.store.files import load_bundle, save_bundle, sweep
from lcpo.run.store.policy_file import load_policy, spec_from_json
from lcpo.types import AnyAgent, Tree

SCHEMA = 1
_NEEDED = {
    "agent": str, "config": dict, "spec": dict, "seed": int, "advance": str, "updates": int,
    "metrics": dict, "streams": dict, "normalise": (str, list, type(None)),
}  # fmt: skip
ABANDONED = 600.0
"""Seconds without a write after which a half-written file belongs to a killed process."""


def save(path: Path, loop: Loop, state: LearnerState) -> None:
    """Write all of a learner, including the unfinished rollout."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file in it, such as learner.npz")
    sweep(path.parent, ABANDONED)
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
    try:
        about, arrays = load_bundle(path, SCHEMA, _NEEDED)
    except InputError as error:
        problem = error
        with contextlib.suppress(InputError):
            load_policy(path)
            problem = InputError(
                f"{path} holds a policy, not a learner: use Learner.from_run({str(path)!r}) to "
                "continue learning from it, or lcpo.load to act with it"
            )
        raise problem from None
    name = about["agent"]
    if agent is None and not trust and not is_ours(name):
        raise InputError(
            f"the learner in {path} is of the agent {name!r}, which is not part of lcpo: pass it "
            "as agent=, or pass trust=True if you trust its author and the file's"
        )
    try:
        spec, given = spec_from_json(about["spec"]), name if agent is None else agent
        rest = (about["config"], about["seed"], None, about["advance"], about["normalise"])
        loop = Loop(Settings.make(given, spec, *rest))
        fresh = loop.begin()
        state = _restore(loop, fresh, about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a learner of this agent: {error}") from error
    loop.check_usable(state.agent, fresh.agent, str(path))
    return loop, state


def arrays_of(loop: Loop, state: LearnerState) -> dict[str, Tree]:
    """Everything that changes in a learner, except its counters and the marks of its streams."""
    buffers, extra = loop.rollout(state)
    histories = [stream.history.entries for _, stream in state.in_order]
    none = np.zeros(loop.spec.context.size, np.float32)
    entries = np.array([none if x is None else x for x in histories], np.float32)
    return {
        "agent": state.agent,
        "obs": state.obs,
        "sums": list(state.sums),
        "rollout": buffers._asdict(),
        "extra": extra,
        "seen": np.array([x is not None for x in histories], bool),
        "histories": entries.reshape(len(histories), none.size),
    }


def _restore(
    loop: Loop, fresh: LearnerState, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> LearnerState:
    """The saved state; ValueError or a similar error if it is invalid."""
    state, most = fresh, values.INT_MAX // 2
    for name in about["streams"]:
        state = state.with_stream(name, loop.new_stream(state, name))
    found = unflatten(arrays_of(loop, state), arrays)
    for name, marks in about["streams"].items():
        state = state.with_stream(name, _stream(loop, name, state.streams[name], marks, found))
    metrics = about["metrics"].items()
    return state._replace(
        agent=jax.tree.map(jnp.array, found["agent"]),
        sums=tuple(found["sums"]),
        obs=found["obs"],
        updates=values.whole("updates", about["updates"], 0, most),
        dropped=values.whole("dropped", about.get("dropped", 0), 0, most),
        metrics={name: values.number(name, value) for name, value in metrics},
    )


def _stream(loop: Loop, name: str, fresh: Stream, marks: Any, found: dict[str, Tree]) -> Stream:
    """A stream with the steps in its column of the rollout; ValueError for invalid marks."""
    i, highs = fresh.column, dict.fromkeys(_marks(fresh), 1)
    highs |= {"column": i, "step": loop.num_steps, "skipped": values.INT_MAX}
    if not isinstance(marks, dict) or marks.keys() != highs.keys():
        raise ValueError(f"the marks of stream {name!r} are {values.shown(marks)}")
    whole = {mark: values.whole(mark, marks[mark], 0, high) for mark, high in highs.items()}
    count, kept, acted, is_open = (whole[mark] for mark in ("step", "kept", "acted", "open"))
    is_beyond = kept and acted + is_open and count == loop.num_steps
    if whole["column"] != i or acted + is_open > 1 or is_beyond:
        raise ValueError(f"the marks of stream {name!r} are {values.shown(marks)}")

    def step(t: int) -> Experience:
        place = t if loop.spec.num_worlds == 1 else (t, i)
        extra = tuple(x[place] for x in jax.tree.leaves(found["extra"]))
        return Experience(extra=extra, **{k: v[t, i] for k, v in found["rollout"].items()})

    under_way = None
    if kept and acted:
        under_way = Experience(*step(count)[:3])
    elif kept and is_open:
        under_way = step(count)._replace(next_obs=None)
    entries = found["histories"][i] if found["seen"][i] else None
    return fresh._replace(
        history=fresh.history._replace(entries=entries, moved=bool(whole["moved"])),
        steps=tuple(map(step, range(count))),
        under_way=under_way,
        acted=bool(acted),
        open=bool(is_open),
        skipped=whole["skipped"],
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

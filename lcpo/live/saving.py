"""A learner as one file: atomic, with digests, without pickle."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.agents import is_ours
from lcpo.errors import InputError
from lcpo.history import ContextHistory
from lcpo.live import earlier
from lcpo.live.learning import Learning
from lcpo.live.settings import Settings
from lcpo.live.state import Account, Counts, Experience, Finished, LearnerState, Stream, Where
from lcpo.run.store.checkpoint import flatten, unflatten
from lcpo.run.store.files import load_about, load_bundle, save_bundle, sweep
from lcpo.run.store.policy_file import load_policy, spec_from_json
from lcpo.types import AnyAgent, Spec, Tree

SCHEMA = 2
_NEEDED = {
    "agent": str, "config": dict, "spec": dict, "seed": int, "advance": str, "updates": int,
    "metrics": dict, "streams": dict, "normalise": (str, list, type(None)),
}  # fmt: skip
_WAITS = ("late", "late_seconds", "missing")
ABANDONED = 600.0
"""Seconds without a write after which a half-written file belongs to a killed process."""
_MOST = values.INT_MAX // 2
_FLOATS = ("time", "weight", "reward", "elapsed", "running", "total")
_FLAGS = ("terminated", "truncated")


def save(path: Path, learning: Learning, state: LearnerState) -> None:
    """Write all of a learner. A state that cannot be used does not replace a file."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file in it, such as learner.npz")
    learning.check_usable(state.agent, learning.begin().agent, f"the state to save as {path}")
    sweep(path.parent, ABANDONED)
    about = {
        **learning.settings.to_json(),
        "updates": state.updates,
        "dropped": state.dropped,
        "decisions": state.decisions,
        "oldest": None if math.isinf(state.oldest) else state.oldest,
        "counts": state.counts._asdict(),
        "alone": state.alone,
        "tail": state.tail,
        "metrics": values.without_nan(dict(state.metrics)),
        "streams": {name: _marks(stream) for name, stream in state.streams.items()},
    }
    save_bundle(path, SCHEMA, about, flatten(_arrays_of(learning, state)))


def load(
    path: Path, agent: str | AnyAgent | None, trust: bool, spec: Spec | None
) -> tuple[Settings, LearnerState]:
    """What `save` wrote; arguments as of `Learner.load`."""
    about, arrays = _read(path)
    name = about["agent"]
    if agent is None and not trust and not is_ours(name):
        raise InputError(
            f"the learner in {path} is of the agent {name!r}, which is not part of lcpo: pass it "
            "as agent=, or pass trust=True if you trust its author and the file's"
        )
    try:
        saved, given = spec_from_json(about["spec"]), name if agent is None else agent
        _check_spec(path, saved, spec)
        rest = (about["config"], about["seed"], None, about["advance"], about["normalise"])
        waits = {key: about[key] for key in _WAITS if key in about}
        settings = Settings.make(given, saved, *rest, **waits)
        learning = Learning(settings)
        fresh = learning.begin()
        if about["schema"] == earlier.SCHEMA:
            state = earlier.restore(settings, fresh, saved.num_worlds, about, arrays)
        else:
            state = _restore(learning, fresh, about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is not a learner of this agent: {error}") from error
    learning.check_usable(state.agent, fresh.agent, str(path))
    return settings, state


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The values, with their schema, and arrays of a file of this version or the one before."""
    try:
        raw = load_about(path)[0]
        schema = raw.get("schema") if isinstance(raw, dict) else None
        schema = schema if schema == earlier.SCHEMA else SCHEMA
        about, arrays = load_bundle(path, schema, _NEEDED)
        return {**about, "schema": schema}, arrays
    except InputError as error:
        problem = error
        with contextlib.suppress(InputError):
            load_policy(path)
            problem = InputError(
                f"{path} holds a policy, not a learner: use Learner.from_run({str(path)!r}) to "
                "continue learning from it, or lcpo.load to act with it"
            )
        raise problem from None


def _check_spec(path: Path, saved: Spec, given: Spec | None) -> None:
    """Raise InputError if the caller expects another spec."""
    # Streams and promises of an environment are no part of what is learned.
    free = {"num_worlds": 1, "contiguous_contexts": False, "unit_steps": False}
    if given is not None and saved._replace(**free) != given._replace(**free):
        pairs = zip(Spec._fields, saved, given, strict=True)
        odd = [f"{name} {a} in the file, {b} given" for name, a, b in pairs if a != b]
        raise InputError(f"the learner in {path} has another spec: {'; '.join(odd)}")


def _arrays_of(learning: Learning, state: LearnerState) -> dict[str, Tree]:
    """Everything that changes in a learner, except for what `save` writes as plain values."""
    streams, spec = list(state.streams.values()), learning.spec
    steps = [*state.closed, *(step for stream in streams for step in stream.open)]
    finished = [(i, *x.checks, x.how) for part in state.finished for i, x in part.items()]
    young = len(state.finished[0])
    return {
        "agent": state.agent,
        "steps": pack(steps, spec, learning.extra_shapes),
        "num_closed": np.int64(len(state.closed)),
        "finished": np.array(finished, np.int64).reshape(len(finished), 4),
        "num_young": np.int64(young),
        "histories": _rows([stream.history.entries for stream in streams], spec.context.size),
        "obs": _rows([stream.obs for stream in streams], spec.obs_size),
    }


def _rows(found: Sequence[np.ndarray | None], size: int) -> np.ndarray:
    """[len, size]; zeros where there is nothing."""
    none = np.zeros(size, np.float32)
    rows = [none if x is None else x for x in found]
    return np.array(rows, np.float32).reshape(len(rows), size)


def pack(steps: Sequence[Experience], spec: Spec, extra: Tree) -> dict[str, Any]:
    """Steps as arrays, one row for each."""

    def column(name: str, dtype: Any) -> np.ndarray:
        return np.array([getattr(step, name) or 0 for step in steps], dtype)

    ints = ("id", "stream", "place", "episode", "length")
    known = [(step.reward is not None, step.next_obs is not None) for step in steps]
    actions = np.array([step.action for step in steps], spec.actions.dtype)
    leaves = [
        np.array([step.extra[i] for step in steps], x.dtype).reshape(len(steps), *x.shape[1:])
        for i, x in enumerate(jax.tree.leaves(extra))
    ]
    return {
        **{name: column(name, np.int64) for name in ints},
        **{name: column(name, np.float64) for name in _FLOATS},
        **{name: column(name, bool) for name in _FLAGS},
        "checks": np.array([step.checks for step in steps], np.int64).reshape(len(steps), 2),
        "known": np.array(known, bool).reshape(len(steps), 2),
        "obs": _rows([step.obs for step in steps], spec.obs_size),
        "next_obs": _rows([step.next_obs for step in steps], spec.obs_size),
        "readings": _rows([step.readings for step in steps], len(spec.readings)),
        "action": actions.reshape(len(steps), spec.action_size),
        "extra": leaves,
    }


def unpack(found: dict[str, Any]) -> list[Experience]:
    """The inverse of `pack`."""
    plain = {name: x.tolist() for name, x in found.items() if name not in _ARRAYS}
    steps = []
    for i in range(len(plain["id"])):
        has_reward, has_successor = plain["known"][i]
        each = {name: plain[name][i] for name in plain if name != "known"}
        each["checks"] = tuple(each["checks"])
        each["reward"] = each["reward"] if has_reward else None
        steps.append(
            Experience(
                **each, obs=found["obs"][i], action=found["action"][i],
                extra=tuple(x[i] for x in found["extra"]),
                readings=found["readings"][i] if has_reward else None,
                next_obs=found["next_obs"][i] if has_successor else None,
            )
        )  # fmt: skip
    return steps


_ARRAYS = ("obs", "next_obs", "readings", "action", "extra")


def _restore(
    learning: Learning, fresh: LearnerState, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> LearnerState:
    """The saved state; ValueError or a similar error if it is invalid."""
    found = unflatten(_template(learning, fresh, about, arrays), arrays)
    steps, closed = unpack(found["steps"]), int(found["num_closed"])
    rest = iter(steps[closed:])
    streams, settings = {}, learning.settings
    for i, (name, marks) in enumerate(about["streams"].items()):
        values.name("stream", name)
        history = ContextHistory(learning.spec, settings.advance)
        streams[name] = _stream(marks, history, found["histories"][i], found["obs"][i], rest)
    where = Where({step.id: name for name, stream in streams.items() for step in stream.open})
    memory = [(row[0], Finished(row[3], (row[1], row[2]))) for row in found["finished"].tolist()]
    young, counts = int(found["num_young"]), about["counts"]
    state = LearnerState(
        jax.tree.map(jnp.array, found["agent"]), streams, where, tuple(steps[:closed]),
        values.whole("decisions", about["decisions"], 0, 2**62),
        math.inf if about["oldest"] is None else values.number("oldest", about["oldest"]),
        (dict(memory[:young]), dict(memory[young:])),
        Counts(**{name: values.whole(name, counts[name], 0, 2**62) for name in counts}),
        values.flag("alone", about["alone"]), _pair(about["tail"]),
        values.whole("updates", about["updates"], 0, _MOST),
        values.whole("dropped", about["dropped"], 0, _MOST),
        {name: _sum(name, value) for name, value in about["metrics"].items()},
    )  # fmt: skip
    _check(state, next(rest, None))
    return state


def _template(
    learning: Learning, fresh: LearnerState, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> dict[str, Tree]:
    """Shapes and dtypes of what the file should hold, given how many steps it has."""
    none = _arrays_of(learning, fresh)
    counts = {"finished": "['finished']", "steps": "['steps']['id']"}
    rows = {name: len(arrays[path]) for name, path in counts.items()}
    rows |= dict.fromkeys(("histories", "obs"), len(about["streams"]))

    def sized(x: np.ndarray, count: int) -> Any:
        return jax.ShapeDtypeStruct((count, *x.shape[1:]), x.dtype)

    for name, count in rows.items():
        none[name] = jax.tree.map(lambda x, count=count: sized(x, count), none[name])
    return none


def _check(state: LearnerState, left: Experience | None) -> None:
    """ValueError if parts of a state contradict each other."""
    numbers = [stream.number for stream in state.streams.values()]
    opened = [step for stream in state.streams.values() for step in stream.open]
    ids = [step.id for step in (*state.closed, *opened)]
    facts = (
        left is None,
        len(set(numbers)) == len(numbers) and max(numbers, default=-1) < state.counts.streams,
        len(set(ids)) == len(ids) and max(ids, default=-1) < state.decisions,
        all(step.reward is not None and step.next_obs is not None for step in state.closed),
        all(step.reward is None or step.next_obs is None for step in opened),
    )
    if not all(facts):
        raise ValueError("its steps and streams contradict each other")


def _stream(
    marks: Any, history: ContextHistory, entries: np.ndarray, obs: np.ndarray, rest: Any
) -> Stream:
    """A stream with its open steps, the next of `rest`; ValueError for invalid marks."""
    account = marks["account"]
    whole = {name: values.whole(name, marks[name], 0, 2**62) for name in _WHOLE}
    has_history, has_obs, moved = (values.flag(name, marks[name]) for name in _HAS)
    opened = tuple(itertools.islice(rest, whole["open"]))
    places = [(step.stream, step.place) for step in opened]
    good = all(number == whole["number"] and place < whole["places"] for number, place in places)
    lacking = [step for step in opened[:-1] if step.next_obs is None]
    if (
        len(marks) != len(_WHOLE) + len(_HAS) + 1
        or not good
        or lacking
        or len(opened) < whole["open"]
    ):
        raise ValueError(f"the marks of a stream are {values.shown(marks)}")
    return Stream(
        whole["number"],
        history._replace(entries=entries if has_history else None, moved=moved),
        obs if has_obs else None, opened, whole["places"], whole["episode"],
        Account(
            values.whole("episode", account[0], -1, 2**62), _sum("running", account[1]),
            _sum("total", account[2]), values.whole("length", account[3], 0, 2**62),
        ),
    )  # fmt: skip


_WHOLE, _HAS = ("number", "places", "episode", "open"), ("seen", "sees", "moved")


def _marks(stream: Stream) -> dict[str, Any]:
    """Where a stream stands, as plain values."""
    return {
        "number": stream.number,
        "places": stream.places,
        "episode": stream.episode,
        "open": len(stream.open),
        "seen": stream.history.entries is not None,
        "sees": stream.obs is not None,
        "moved": bool(stream.history.moved),
        "account": list(stream.account),
    }


def _sum(name: str, value: Any) -> float:
    """A number that may be larger than any reward: sums of rewards exceed float32."""
    return values.number(name, value, -sys.float_info.max, sys.float_info.max)


def _pair(value: Any) -> tuple[int, int]:
    first, second = (values.whole("tail", x, -1, 2**62) for x in value)
    return first, second

"""Learners in files of the version before, whose streams each had a column of the rollout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.core.replay import Replay
from lcpo.history import ContextHistory
from lcpo.live.settings import Settings
from lcpo.live.state import Account, Counts, Experience, LearnerState, Stream, Where
from lcpo.run.store.checkpoint import unflatten
from lcpo.types import Tree

SCHEMA = 1
_MARKS = {"column", "step", "skipped", "acted", "kept", "open", "moved"}


def restore(
    settings: Settings, fresh: LearnerState, columns: int, about: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> LearnerState:  # fmt: skip
    """The saved state; ValueError or a similar error if it is invalid."""
    most = values.INT_MAX // 2
    updates = values.whole("updates", about["updates"], 0, most)
    dropped = values.whole("dropped", about.get("dropped", 0), 0, most)
    first = (updates + dropped) * settings.config.rollout_length
    found = _Columns(settings, columns, about["streams"], arrays, first)
    streams = {name: found.stream(i) for i, name in enumerate(about["streams"])}
    where = Where({step.id: name for name, stream in streams.items() for step in stream.open})
    closed = sorted(found.closed, key=lambda step: (step.place, step.stream))
    single = columns == 1 and len(streams) <= 1
    tail = (0, found.begins[0] - 1) if single and updates + dropped and streams else (-1, -1)
    return fresh._replace(
        agent=_agent(fresh.agent, columns, arrays), streams=streams, where=where,
        closed=tuple(closed), decisions=found.decisions, alone=single, tail=tail,
        counts=Counts(streams=len(streams), closed=len(closed)), updates=updates, dropped=dropped,
        metrics={name: values.number(name, x) for name, x in about["metrics"].items()},
    )  # fmt: skip


class _Columns:
    """The rollout of a file, column by column."""

    def __init__(
        self, settings: Settings, columns: int, marks: dict[str, Any],
        arrays: dict[str, np.ndarray], first: int,
    ) -> None:  # fmt: skip
        self.settings, self.columns, self.arrays, self.first = settings, columns, arrays, first
        self.length = settings.config.rollout_length // columns
        self.marks = [self._check(i, x) for i, x in enumerate(marks.values())]
        self.rollout = {
            name.split("'")[3]: x for name, x in arrays.items() if name.startswith("['rollout']")
        }
        extra = [name for name in arrays if name.startswith("['extra']")]
        self.extra = [arrays[name] for name in extra]
        self.closed: list[Experience] = []
        # Where each column's rollout began, in steps of its stream.
        self.begins = [first // columns] * len(self.marks)
        self.decisions = first + sum(x["step"] + x["acted"] + x["open"] for x in self.marks)

    def _check(self, i: int, marks: Any) -> dict[str, int]:
        highs = {"step": self.length, "skipped": values.INT_MAX, "column": i}
        if not isinstance(marks, dict) or marks.keys() != _MARKS:
            raise ValueError(f"the marks of a stream are {values.shown(marks)}")
        found = {name: values.whole(name, marks[name], 0, highs.get(name, 1)) for name in _MARKS}
        beyond = found["kept"] and found["acted"] + found["open"] and found["step"] == self.length
        if found["column"] != i or found["acted"] + found["open"] > 1 or beyond:
            raise ValueError(f"the marks of a stream are {values.shown(marks)}")
        return found

    def stream(self, i: int) -> Stream:
        """The stream of a column; its complete steps are added to `closed`."""
        marks, account, opened, episode = self.marks[i], self._account(i), (), 0
        gamma = float(getattr(self.settings.config, "gamma", 1.0))
        for t in range(marks["step"]):
            step = self._step(t, i, episode)
            account, step = account.add(step, gamma)
            self.closed.append(step)
            episode += step.ended
        if (marks["acted"] or marks["open"]) and marks["kept"]:
            step = self._step(marks["step"], i, episode)._replace(next_obs=None)
            step = step._replace(reward=None, readings=None) if marks["acted"] else step
            opened = (step,)
        places = self.begins[i] + marks["step"] + marks["acted"] + marks["open"]
        entries = self.arrays["['histories']"][i] if self.arrays["['seen']"][i] else None
        history = ContextHistory(
            self.settings.spec, self.settings.advance, entries, bool(marks["moved"])
        )
        return Stream(i, history, None, opened, places, episode, account)

    def _account(self, i: int) -> Account:
        """The sums of the episode that was under way when the rollout began."""
        total, length = (float(self.arrays[f"['sums'][{k}]"][i]) for k in range(2))
        own = [x for name, x in self.arrays.items() if name.endswith(".running_return")]
        return Account(0, float(own[0][i]) if own else 0.0, total, int(length))

    def _step(self, t: int, i: int, episode: int) -> Experience:
        row = {name: x[t, i] for name, x in self.rollout.items()}
        place = t if self.columns == 1 else (t, slice(i, i + 1))
        is_new = t == self.marks[i]["step"] and self.marks[i]["acted"]
        return Experience(
            self.first + t * self.columns + i, i, self.begins[i] + t, episode, 0.0,
            1.0 if is_new else float(row["weight"]), row["obs"], row["action"],
            tuple(x[place] for x in self.extra), float(row["reward"]),
            1.0 if is_new else float(row["elapsed"]), row["readings"], row["next_obs"],
            bool(row["terminated"]), bool(row["truncated"]),
        )  # fmt: skip


def _agent(fresh: Tree, columns: int, arrays: dict[str, np.ndarray]) -> Tree:
    """The agent's state. What was kept for each world is now kept for one."""
    prefix = "['agent']"
    own = {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}
    if columns == 1:
        return jax.tree.map(jnp.array, unflatten(fresh, own))
    leaves, structure = jax.tree_util.tree_flatten_with_path(fresh)
    joined = [_join(own[jax.tree_util.keystr(path)], leaf) for path, leaf in leaves]
    agent = jax.tree.unflatten(structure, joined)

    def counted(new: Any, old: Any) -> Any:
        if not isinstance(new, Replay):
            return new
        return new._replace(added=columns * new.added, capacity=jnp.array(old.capacity))

    return jax.tree.map(counted, agent, fresh, is_leaf=lambda x: isinstance(x, Replay))


def _join(found: np.ndarray, fresh: Any) -> Any:
    """A saved leaf in the shape of a learner's: rows of several worlds one after the other."""
    same = found.dtype == fresh.dtype and found.size == fresh.size
    return jnp.array(found.reshape(fresh.shape) if same else fresh)

"""`LearnerState`: all that changes in a live learner, as one value.

It is a pytree of immutable parts, so that a state can be kept, compared, hashed, saved and
restored. `lcpo.live.loop` has the functions from one state to the next. `Backup` keeps a copy of
the agent's state on the host, for updates in place that fail.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core.replay import Replay
from lcpo.history import ContextHistory
from lcpo.run.store.checkpoint import flatten
from lcpo.types import Tree


def _flatten(history: ContextHistory) -> tuple[Any, Any]:
    entries, moved = map(jax.tree_util.GetAttrKey, ("entries", "moved"))
    return ((entries, history.entries), (moved, history.moved)), history[:2]


jax.tree_util.register_pytree_with_keys(
    ContextHistory, _flatten, lambda rest, parts: ContextHistory(*rest, *parts)
)

CLOSED, CUT, EXPIRED = 0, 1, 2
"""How a decision ended: learned from; discarded; its reward came too late, or never."""
NEITHER = 0
"""In place of a checksum: this part of an outcome has not been observed."""
REMEMBERED = 512
"""At least so many finished decisions are remembered, to recognize repeated observations."""


class Experience(NamedTuple):
    """One step of a stream. It is open until its reward and its successor are known."""

    id: int
    stream: int
    """Number of the stream."""
    place: int
    """Number of the decision in its stream."""
    episode: int
    """Number of the episode in its stream."""
    time: float
    weight: float
    obs: np.ndarray
    action: np.ndarray
    extra: tuple[np.ndarray, ...]
    """Leaves of what the agent's `act` returns besides the action."""
    reward: float | None = None
    elapsed: float = 1.0
    readings: np.ndarray | None = None
    next_obs: np.ndarray | None = None
    terminated: bool = False
    truncated: bool = False
    checks: tuple[int, int] = (NEITHER, NEITHER)
    """Checksums of the observed reward and successor."""
    running: float = 0.0
    """Discounted return of the episode so far; of closed steps, as are the next two."""
    total: float = 0.0
    length: int = 0

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


class Account(NamedTuple):
    """Sums over the steps of an episode that have closed."""

    episode: int = -1
    running: float = 0.0
    total: float = 0.0
    length: int = 0

    def add(self, step: Experience, gamma: float) -> tuple[Account, Experience]:
        """With a step that has just closed, and the step with the sums."""
        reward = step.reward or 0.0
        if step.episode != self.episode:
            sums = (reward, reward, 1)
        else:
            kept = gamma**step.elapsed * self.running
            sums = (kept + reward, self.total + reward, self.length + 1)
        return Account(step.episode, *sums), Experience(*step[:-3], *sums)


class Stream(NamedTuple):
    """One of the user's worlds, between two calls."""

    number: int
    """Streams are numbered as they begin; a name that was ended begins a stream of a new number."""
    history: ContextHistory
    obs: np.ndarray | None = None
    """What it has seen and not yet acted on."""
    open: tuple[Experience, ...] = ()
    """Steps that lack a reward or a successor, in order; only the last can lack a successor."""
    places: int = 0
    """Decisions so far."""
    episode: int = 0
    account: Account = Account()


class Finished(NamedTuple):
    """What is remembered of a decision that is no longer open."""

    how: int
    checks: tuple[int, int]


class Counts(NamedTuple):
    """Totals since the learner began."""

    observed: int = 0
    """Rewards that were taken."""
    late: int = 0
    """Of these, after the stream's next decision."""
    expired: int = 0
    """Decisions whose reward did not come in time."""
    discarded: int = 0
    closed: int = 0
    """Steps that were handed to the learner."""
    streams: int = 0
    """Streams that have begun."""


class Where(Mapping[int, str]):
    """The stream of every open decision, by id. It never changes.

    It is kept in parts of neighboring ids, so that a call copies one part and not everything that
    is open: outcomes may come late, of many streams.
    """

    __slots__ = ("_parts", "_size")
    SPAN = 128

    def __init__(self, found: Mapping[int, str] | None = None) -> None:
        parts: dict[int, dict[int, str]] = {}
        for number, name in (found or {}).items():
            parts.setdefault(number // self.SPAN, {})[number] = name
        self._parts, self._size = parts, len(found or ())

    def __getitem__(self, number: int) -> str:
        return self._parts[number // self.SPAN][number]

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._parts.values())

    def __len__(self) -> int:
        return self._size

    def added(self, number: int, name: str) -> Where:
        """With a decision that was not open."""
        parts, place = dict(self._parts), number // self.SPAN
        parts[place] = {**parts.get(place, {}), number: name}
        return self._of(parts, self._size + 1)

    def without(self, numbers: Iterable[int]) -> Where:
        """Without decisions, all of which are open."""
        parts, size = dict(self._parts), self._size
        for number in numbers:
            place = number // self.SPAN
            part = dict(parts[place])
            del part[number]
            size -= 1
            if part:
                parts[place] = part
            else:
                del parts[place]
        return self._of(parts, size)

    @classmethod
    def _of(cls, parts: dict[int, dict[int, str]], size: int) -> Where:
        made = cls.__new__(cls)
        made._parts, made._size = parts, size
        return made


def _flatten_where(found: Where) -> tuple[Any, Any]:
    numbers = tuple(sorted(found))
    return tuple((jax.tree_util.DictKey(i), found[i]) for i in numbers), numbers


jax.tree_util.register_pytree_with_keys(
    Where, _flatten_where, lambda numbers, names: Where(dict(zip(numbers, names, strict=True)))
)


class LearnerState(NamedTuple):
    """What a learner carries from one call to the next; its `Settings` are the rest of it."""

    agent: Tree
    streams: Mapping[str, Stream]
    where: Where
    """The stream of every open decision."""
    closed: tuple[Experience, ...]
    """Steps to learn from, in the order in which they closed."""
    decisions: int = 0
    """Decisions so far; the next one has this id."""
    oldest: float = math.inf
    """No decision that waits for a reward is older than this."""
    finished: tuple[Mapping[int, Finished], Mapping[int, Finished]] = ({}, {})
    """The newest decisions that are no longer open, and those before them."""
    counts: Counts = Counts()
    alone: bool = True
    """All steps so far were of one stream, without gaps: the agent follows its returns itself."""
    tail: tuple[int, int] = (-1, -1)
    """Stream and place of the last step that was learned from."""
    updates: int = 0
    """Updates so far, which is the version of the policy."""
    dropped: int = 0
    """Updates that were dropped; `updates` does not count them."""
    metrics: Mapping[str, float] = {}
    """Metrics of the newest update that was not dropped."""

    def finish(
        self, streams: Mapping[str, Stream], steps: Iterable[tuple[Experience, int]]
    ) -> LearnerState:
        """The state with these streams, after steps that are no longer open; and how they ended."""
        steps, (young, old) = list(steps), self.finished
        where = self.where.without(step.id for step, _ in steps)
        young, closed, counts = dict(young), [], list(self.counts)
        for step, how in steps:
            young[step.id] = Finished(how, step.checks)
            if how == CLOSED:
                closed.append(step)
                counts[4] += 1
            counts[3] += how == CUT
            counts[2] += how == EXPIRED
            if len(young) >= REMEMBERED:
                young, old = {}, young
        # Built by position, as in all that every call does: `_replace` takes far longer.
        return LearnerState(
            self.agent, streams, where, (*self.closed, *closed), *self[4:6], (young, old),
            Counts(*counts), *self[8:],
        )  # fmt: skip

    def with_streams(self, streams: Mapping[str, Stream]) -> LearnerState:
        """The state with other streams."""
        return LearnerState(self.agent, streams, *self[2:])

    def digest(self) -> str:
        """A fingerprint: equal for equal states, on any machine."""
        found = hashlib.sha256()
        for path, leaf in flatten(self).items():
            found.update(f"{path} {leaf.dtype}{leaf.shape}\n".encode())
            found.update(np.ascontiguousarray(leaf).data)
        return found.hexdigest()


class Backup:
    """A copy of an agent's state on the host that is cheap to keep up to date.

    An update takes the buffers of the state that it is given, even if it fails. Copying a replay of
    a million steps before every update would take longer than the update, so only the rows that
    were added since the last copy are copied.
    """

    def __init__(self, state: Tree) -> None:
        self._kept = jax.tree.map(np.array, state)

    def follow(self, state: Tree) -> None:
        """Copy `state`, which has evolved from the last one by updates."""

        def parts(tree: Tree) -> list[Tree]:
            return jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Replay))

        for kept, now in zip(parts(self._kept), parts(state), strict=True):
            if not isinstance(now, Replay):
                np.copyto(kept, np.asarray(now))
                continue
            step, last = int(kept.added), int(now.added)
            while step < last:  # at most up to the end of the ring at a time
                first = step % now.num_rows
                count = min(last - step, now.num_rows - first)
                for old, new in zip(kept.rows, now.rows, strict=True):
                    length = count + new.shape[0] - now.num_rows  # contexts have `lags` rows more
                    rows = jax.lax.dynamic_slice_in_dim(new, first, length)
                    np.copyto(old[first : first + length], np.asarray(rows))
                step += count
            np.copyto(kept.added, np.asarray(now.added))
            np.copyto(kept.capacity, np.asarray(now.capacity))

    def restore(self) -> Tree:
        """The state that was last copied, on the device."""
        return jax.tree.map(jnp.array, self._kept)

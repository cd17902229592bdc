"""The rollout that a learner is filling: one column for each stream, each at its own pace."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from lcpo.envs.base import Advance
from lcpo.envs.history import ContextHistory
from lcpo.run.drive.collect import Buffers, make_buffers
from lcpo.types import Spec, Transition, Tree


@dataclasses.dataclass
class Stream:
    """A world of the user's: where it stands between two calls."""

    column: int
    history: ContextHistory
    step: int = 0
    """Steps of it in the rollout."""
    skipped: int = 0
    """Steps that it took since its part was full, while it waited for other streams."""
    acted: bool = False
    """An action is out; its reward has not come."""
    kept: bool = True
    """The step that is under way goes into the rollout."""
    open: bool = False
    """The reward has come; the successor has not."""

    @property
    def marks(self) -> dict[str, int]:
        """All but the history's entries, as plain values."""
        names = ("column", "step", "skipped", "acted", "kept", "open")
        return {**{k: int(getattr(self, k)) for k in names}, "moved": int(self.history.moved)}


class FilledRollout:
    """`rollout_length` steps of each stream, while they come in."""

    def __init__(self, spec: Spec, num_steps: int, extra: Tree, advance: Advance) -> None:
        """`extra`: the shapes of what `act` gives beside the actions, with an axis of runs."""
        self.spec, self.num_steps, self.extra_shapes = spec, num_steps, extra
        self.advance: Advance = advance
        self.streams: dict[str, Stream] = {}
        self.begin()

    def begin(self) -> None:
        """Begin anew. Arrays are not used twice: the learner may still read those before."""
        self.buffers: Buffers = make_buffers(self.spec, self.num_steps, self.spec.num_worlds)
        for array in self.buffers:
            array.fill(0)  # a file of it has no bits of anything else
        self.extra = jax.tree.map(
            lambda x: np.zeros((self.num_steps, *x.shape[1:]), x.dtype), self.extra_shapes
        )
        for stream in self.streams.values():
            stream.step = stream.skipped = 0

    def make_stream(self) -> Stream:
        """A stream of the next column, to be put among `streams`."""
        return Stream(len(self.streams), ContextHistory(self.spec, self.advance))

    @property
    def is_full(self) -> bool:
        """Whether every stream has its steps."""
        streams = self.streams.values()
        whole = len(streams) == self.spec.num_worlds
        return whole and all(stream.step == self.num_steps for stream in streams)

    def act(self, stream: Stream, obs: np.ndarray, action: np.ndarray, extra: Tree) -> None:
        """Write down a decision: action [A], and `extra` with leaves [1, N, ...]."""
        stream.acted, stream.kept = True, stream.step < self.num_steps
        t, i, buffers = stream.step, stream.column, self.buffers
        if not stream.kept:
            # Its next part begins somewhere else: no return may run on from here to there.
            stream.skipped += 1
            buffers.truncated[-1, i] |= not buffers.terminated[-1, i]
            return
        buffers.obs[t, i], buffers.action[t, i] = obs, action
        for mine, new in zip(jax.tree.leaves(self.extra), jax.tree.leaves(extra), strict=True):
            if self.spec.num_worlds == 1:
                mine[t] = new[0]
            else:
                mine[t, i] = new[0, i]

    def observe(self, stream: Stream, action: np.ndarray | None, outcome: dict[str, Any]) -> None:
        """Write down what followed; `outcome`: fields of the transition."""
        stream.acted, stream.open = False, True
        if not stream.kept:
            return
        t, i, buffers = stream.step, stream.column, self.buffers
        for field, value in outcome.items():
            getattr(buffers, field)[t, i] = value
        overruled = action is not None and not np.array_equal(action, buffers.action[t, i])
        buffers.weight[t, i] = 0.0 if overruled else 1.0
        if action is not None:
            buffers.action[t, i] = action

    def close(self, stream: Stream, successor: np.ndarray) -> None:
        """The step that is under way led here."""
        stream.open = False
        if stream.kept:
            self.buffers.next_obs[stream.step, stream.column] = successor
            stream.step += 1

    def batch(self) -> Transition:
        """What to learn from, leaves [T, N, ...]."""
        *rest, readings = self.buffers
        return Transition(*rest, self.extra, readings if self.spec.readings else ())  # pyright: ignore

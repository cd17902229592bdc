"""A rollout as an agent takes it: the steps that closed first, grouped by stream, and cut.

A batch has one axis of steps, T, and one world. Where a step of the batch is not followed by its
successor in the same stream, it is cut as at a truncation: returns and advantages bootstrap from
the value of its `next_obs`. An episode does not end there, so that the stream's running return,
which scales the rewards, goes on (`Transition.running`), and no episode is counted.

A learner whose steps have all been of one stream, without gaps, is `lcpo train`: nothing is cut,
and the agent follows the running return itself. The first rollout of another kind ends that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.live.state import Experience
from lcpo.run.drive.collect import make_buffers
from lcpo.types import Spec, Transition


class Rollout(NamedTuple):
    """Steps in the order of a batch."""

    steps: tuple[Experience, ...]
    cut: np.ndarray
    """[T] bool: the step has not ended its episode, and the next step does not follow it."""
    alone: bool
    """Whether the agent follows its running return itself."""

    @property
    def tail(self) -> tuple[int, int]:
        """Stream and place of the last step."""
        return self.steps[-1].stream, self.steps[-1].place


def arrange(steps: Sequence[Experience], alone: bool, tail: tuple[int, int]) -> Rollout:
    """Group steps by stream, in the order in which the streams' first steps closed.

    `alone`, `tail`: those of the state before.
    """
    parts: dict[int, list[Experience]] = {}
    for step in steps:
        parts.setdefault(step.stream, []).append(step)
    ordered = [x for part in parts.values() for x in sorted(part, key=lambda step: step.place)]
    follows = [_follows(*pair) for pair in itertools.pairwise(ordered)]
    first = ordered[0]
    joined = tail in ((-1, -1), (first.stream, first.place - 1))
    if alone and joined and all(follows):
        return Rollout(tuple(ordered), np.zeros(len(ordered), bool), True)
    ended = np.array([step.ended for step in ordered])
    return Rollout(tuple(ordered), ~ended & ~np.array([*follows, False]), False)


def _follows(before: Experience, after: Experience) -> bool:
    return before.stream == after.stream and before.place + 1 == after.place


def to_batch(rollout: Rollout, spec: Spec, extra: Any) -> Transition:
    """The batch, leaves [T, 1, ...]; `extra`: the structure of what `act` returns besides."""
    steps = rollout.steps

    def column(name: str, dtype: Any = np.float32) -> np.ndarray:
        return np.array([getattr(step, name) for step in steps], dtype)[:, None]

    leaves = [np.stack(x) for x in zip(*(step.extra for step in steps), strict=True)]
    columns: Any = (
        column("obs"), column("action", spec.actions.dtype), column("reward"), column("next_obs"),
        column("terminated", bool), column("truncated", bool) | rollout.cut[:, None],
        column("elapsed"), column("weight"), jax.tree.unflatten(extra, leaves),
        column("readings") if spec.readings else (),
    )  # fmt: skip
    batch = Transition(*columns)
    return batch if rollout.alone else batch._replace(running=column("running"))


def blank(spec: Spec, num_steps: int, extra: Any) -> Transition:
    """A batch of zeros; `extra`: shapes [1, ...] of what `act` returns besides."""
    *rest, readings = (np.zeros_like(x) for x in make_buffers(spec, num_steps, 1))
    zeros = jax.tree.map(lambda x: np.zeros((num_steps, *x.shape[1:]), x.dtype), extra)
    return Transition(*rest, zeros, readings if spec.readings else ())  # pyright: ignore


def episodes(rollout: Rollout) -> dict[str, float]:
    """Metrics of the episodes that ended in a rollout."""
    ended = [step for step in rollout.steps if step.ended]
    return {
        "episodes": float(len(ended)),
        "episode_return_sum": float(sum(step.total for step in ended)),
        "episode_length_sum": float(sum(step.length for step in ended)),
    }

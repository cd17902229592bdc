"""Change-point detection: has the process that a stream of numbers comes from changed?

Page's CUSUM (1954) adds up evidence for a change and clips the sum at zero: `cusum`. An
agent that has models of its contexts calls it with their log-likelihood ratios. Without a model,
`ChangePoints` computes the evidence from the past of the stream: how far is each number from the
mean of those before it? See docs/changepoint.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values as plain_values
from lcpo.core.stats import LARGEST
from lcpo.errors import InputError
from lcpo.types import Array


def cusum(score: Array, evidence: Array) -> Array:
    """Page's step, max(0, score + evidence), in arrays of any shape.

    Positive evidence supports a change, and a score above a threshold is one. With log-likelihood
    ratios as evidence it is the sequential test of a known alternative.
    """
    return jnp.maximum(0.0, score + evidence)


class Sum(NamedTuple):
    """A running sum and its rounding error: in float32 alone, long means stop moving."""

    value: Array
    rest: Array

    def add(self, change: Array) -> Sum:
        """The exact sum of two numbers and its rounding error (Knuth's two-sum)."""
        change = change + self.rest
        value = self.value + change
        added = value - self.value
        return Sum(value, (self.value - (value - added)) + (change - added))


class State(NamedTuple):
    """Statistics of a stream since its last change, arrays of one shape."""

    num_seen: Array  # int32
    mean: Sum
    var: Sum  # population variance
    score: Array


class ChangePoints(NamedTuple):
    """A detector of changes in a stream of numbers, or in several separate streams.

    With mean and variance of the n numbers z since the last change, from n = `min_samples` on:

        score <- max(0, score + (z - mean)^2 / var - sigmas^2)        change where score > threshold

    After a change the statistics restart. Pure, for use under jit and vmap; the settings may be
    traced. The defaults are those of the paper's Figure 2. A constant stream changes with the first
    number that differs. Squares of all numbers must be finite in float32: see `find_changes`.
    """

    sigmas: Array | float = 3.0
    """Deviations beyond this many standard deviations are evidence (paper: sigma_mbcd)."""
    threshold: Array | float = 1000.0
    min_samples: Array | int = 5000

    def init(self, shape: tuple[int, ...] = ()) -> State:
        """The initial state of streams with values of this shape."""
        zero = jnp.zeros(shape)
        return State(jnp.zeros(shape, jnp.int32), Sum(zero, zero), Sum(zero, zero), zero)

    def step(self, state: State, value: Array) -> tuple[State, Array]:
        """One number of each stream; `changed` where it is a change."""
        state = self._weigh(state, value)
        changed = state.score > self.threshold
        fresh = self.init(state.num_seen.shape)
        return jax.tree.map(lambda new, old: jnp.where(changed, new, old), fresh, state), changed

    def detect(self, values: Array, state: State | None = None) -> tuple[Array, Array, State]:
        """`changed` and the scores, both [T, ...], of all `values` [T, ...], and the last state."""

        def scan(state: State, value: Array) -> tuple[State, tuple[Array, Array]]:
            score = self._weigh(state, value).score
            state, changed = self.step(state, value)
            return state, (changed, score)

        start = self.init(values.shape[1:]) if state is None else state
        end, (changed, score) = jax.lax.scan(scan, start, values)
        return changed, score, end

    def _weigh(self, state: State, value: Array) -> State:
        """Score a number against those before it, then add it to the statistics."""
        gap = (value - state.mean.value) - state.mean.rest
        # 0 / 0 is not evidence; a gap in a constant stream is infinite evidence.
        ratio = jnp.where(gap == 0.0, 0.0, jnp.square(gap) / state.var.value)
        score = cusum(state.score, ratio - jnp.square(self.sigmas))
        score = jnp.where(state.num_seen >= self.min_samples, score, state.score)

        num_seen = state.num_seen + 1
        share = 1.0 / num_seen.astype(jnp.float32)
        mean = state.mean.add(gap * share)
        spread = gap * ((value - mean.value) - mean.rest)  # Welford (1962)
        var = state.var.add(((spread - state.var.value) - state.var.rest) * share)
        return State(num_seen, mean, var, score)


def find_changes(values: Any, detector: ChangePoints) -> np.ndarray:
    """Positions in a stream [T], counted from 0, where it changes. For use outside of jit.

    Raises InputError if the stream or a setting is invalid.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or array.ndim != 1:
        raise InputError(
            f"the stream has shape {array.shape} and holds {array.dtype}: needs real numbers "
            "[T]; of several channels, give one at a time, as in values[:, 0]"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, and is refused
        stream = array.astype(np.float32)
    bad = np.flatnonzero(~(np.abs(stream) <= LARGEST))
    if len(bad):
        raise InputError(
            f"the stream holds {array[bad[0]]} at position {bad[0]:,} (counted from 0): every "
            f"number must be between {-LARGEST:g} and {LARGEST:g}, so that its square is finite in "
            "float32; leave such rows out"
        )
    plain_values.number("sigmas", detector.sigmas, 0.0)
    plain_values.number("threshold", detector.threshold, 0.0)
    plain_values.whole("min_samples", detector.min_samples, 2)
    with jax.default_device(jax.devices("cpu")[0]):  # a sequential scan is too slow on a GPU
        return np.flatnonzero(_detect(detector, stream)[0])


_detect = jax.jit(ChangePoints.detect)

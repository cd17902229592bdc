"""Distributions over actions, the values of `Spec.actions`.

A policy network gives `num_outputs` numbers per observation, which `params` turns into the
parameters of one distribution, [..., A, P]. A new kind of action is a new `Distribution`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

PADDING = -1e9
"""Logit of an action that does not exist, where dimensions have unequal numbers of actions."""


class Distribution(abc.ABC):
    """A family of distributions over actions [..., A], one factor per action dimension.

    Subclasses are frozen dataclasses: hashable and compared by value, hence static under jit. They
    set the attributes below in `__post_init__`, or define them as properties. Every quantity is
    summed over the A dimensions; leading axes are those of the observations.
    """

    size: int
    """A: the number of action dimensions."""
    num_outputs: int
    """Outputs of a policy network."""
    num_features: int
    """Numbers that represent an action as a network's input."""
    max_entropy: float
    """The largest entropy that a policy can have, in nats."""
    dtype: Any
    """Dtype of actions, wherever they are passed around."""
    stored_dtype: Any
    """Dtype of actions in a replay: the smallest that holds them and the numbers 0 to 3."""

    @abc.abstractmethod
    def params(self, outputs: Array) -> Array:
        """The parameters [..., A, P] from a network's outputs [..., num_outputs]."""

    @abc.abstractmethod
    def sample(self, params: Array, key: Array) -> Array:
        """Draw actions [..., A]."""

    @abc.abstractmethod
    def random(self, uniform: Array) -> Array:
        """Actions spread evenly over the action space, from numbers [..., A] in [0, 1)."""

    @abc.abstractmethod
    def log_prob(self, params: Array, action: Array) -> Array:
        """Log-probability, or log-density, of `action` [..., A]."""

    @abc.abstractmethod
    def entropy(self, params: Array) -> Array:
        """Entropy in nats."""

    @abc.abstractmethod
    def kl(self, old: Array, new: Array) -> Array:
        """KL(old || new)."""

    @abc.abstractmethod
    def curvature(self, params: Array) -> Callable[[Array], Array]:
        """t -> H t, H the Hessian of KL(params || new) in the new parameters, at new = params."""

    @abc.abstractmethod
    def contains(self, action: np.ndarray) -> bool:
        """Whether an array is one action [A]."""

    @abc.abstractmethod
    def features(self, action: Array) -> Array:
        """Actions [..., A] as a network sees them: [..., num_features]."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """The kind and number of actions, for messages."""

    def normalized(self, params: Array) -> Array:
        """The same distributions in a unique form, for storage."""
        return params

    def summary(self, params: Array) -> Array:
        """What `Agent.probabilities` returns."""
        return params

    @abc.abstractmethod
    def mode(self, summary: Array) -> Array:
        """The most probable action [..., A], from a `summary`."""


@dataclasses.dataclass(frozen=True)
class Categorical(Distribution):
    """Discrete actions: one categorical per dimension. Parameters are logits [..., A, K]."""

    counts: tuple[int, ...]
    """How many actions each dimension has; K is the largest."""

    def __post_init__(self) -> None:
        counts, most = self.counts, max(self.counts, default=0)
        vars(self).update(
            size=len(counts),
            num_outputs=len(counts) * most,
            num_features=sum(counts),
            max_entropy=float(sum(np.log(n) for n in counts)),
            dtype=jnp.int32,
            stored_dtype=jnp.uint8 if most <= 256 else jnp.int32,
        )

    def params(self, outputs: Array) -> Array:
        width = max(self.counts)
        logits = outputs.reshape(*outputs.shape[:-1], self.size, width)
        if min(self.counts) == width:
            return logits
        exists = np.arange(width) < np.asarray(self.counts)[:, None]
        return jnp.where(np.broadcast_to(exists, logits.shape), logits, PADDING)

    def equal(self) -> Array:
        """Logits [A, K] with which all actions of a dimension are equally likely."""
        return self.params(jnp.zeros(self.num_outputs))

    def sample(self, params: Array, key: Array) -> Array:
        return inverse_cdf(params, jax.random.uniform(key, params.shape[:-1]))

    def random(self, uniform: Array) -> Array:
        counts = np.broadcast_to(np.asarray(self.counts, np.float32), uniform.shape)
        return jnp.floor(uniform * counts).astype(jnp.int32)

    def log_prob(self, params: Array, action: Array) -> Array:
        log_p = jax.nn.log_softmax(params)
        return jnp.take_along_axis(log_p, action[..., None], axis=-1)[..., 0].sum(-1)

    def entropy(self, params: Array) -> Array:
        log_p = jax.nn.log_softmax(params)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=(-2, -1))

    def kl(self, old: Array, new: Array) -> Array:
        old, new = jax.nn.log_softmax(old), jax.nn.log_softmax(new)
        return jnp.sum(jnp.exp(old) * (old - new), axis=(-2, -1))

    def curvature(self, params: Array) -> Callable[[Array], Array]:
        """H = diag(p) - p p' for each categorical."""
        p = jax.nn.softmax(params)

        def product(tangent: Array) -> Array:
            weighted = p * tangent
            return weighted - p * weighted.sum(-1, keepdims=True)

        return product

    def contains(self, action: np.ndarray) -> bool:
        if action.shape != (self.size,):
            return False
        # Far quicker than NumPy for a few numbers: every call of a live agent does it.
        pairs = zip(action.tolist(), self.counts, strict=True)
        return all(0 <= a < count and a == int(a) for a, count in pairs)

    def features(self, action: Array) -> Array:
        one_hots = [jax.nn.one_hot(action[..., d], n) for d, n in enumerate(self.counts)]
        return jnp.concatenate(one_hots, axis=-1)

    def __str__(self) -> str:
        return f"{' x '.join(map(str, self.counts))} actions"

    def normalized(self, params: Array) -> Array:
        """Log-probabilities."""
        return jax.nn.log_softmax(params)

    def summary(self, params: Array) -> Array:
        """The probability of every action, [..., A, K]."""
        return jax.nn.softmax(params)

    def mode(self, summary: Array) -> Array:
        return jnp.argmax(summary, axis=-1).astype(jnp.int32)


def inverse_cdf(logits: Array, uniform: Array) -> Array:
    """Draw from logits [..., A, K] with one uniform number in [0, 1) per dimension: [..., A].

    The action is the number of cumulative probabilities, the last one left out, that are <= u. An
    action of probability 0, such as padding, is never drawn, not even where rounding leaves the sum
    of all probabilities below u.
    """
    p = jax.nn.softmax(logits)
    k = jax.lax.broadcasted_iota(jnp.int32, p.shape, p.ndim - 1)  # [..., A, K]
    # Sums of whole rows: XLA makes one kernel of a small network and of these. The sum up to an
    # action of probability 0 is one of the same numbers as the sum up to the action before it.
    up_to = k[..., :, None] <= k[..., None, :]  # [..., A, K, K]
    cumulative = jnp.sum(jnp.where(up_to, p[..., :, None], 0.0), axis=-2)
    passed = (cumulative <= uniform[..., None]) & (k < p.shape[-1] - 1)
    possible = jnp.max(jnp.where(p > 0.0, k, 0), axis=-1)  # the last action that is
    return jnp.minimum(jnp.sum(passed, axis=-1, dtype=jnp.int32), possible)


# The functions of `lcpo.core.dists`, the former name of this module, of logits [..., A, K].
sample, log_prob = inverse_cdf, Categorical(()).log_prob
entropy, kl = Categorical(()).entropy, Categorical(()).kl


def to_logits(outputs: Array, num_actions: tuple[int, ...]) -> Array:
    """Reshape network outputs [..., A * K] to logits [..., A, K], K = max(num_actions)."""
    return Categorical(num_actions).params(outputs)

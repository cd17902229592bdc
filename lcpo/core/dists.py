"""Factorised categorical distributions: logits [..., A, K], one categorical per action dimension.

Quantities are summed over the A dimensions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.types import Array

PADDING = -1e9
"""Logit of an action that does not exist, where dimensions have unequal numbers of actions."""


def num_outputs(num_actions: tuple[int, ...]) -> int:
    """Outputs of a network that gives one number per action of every dimension: A * K."""
    return len(num_actions) * max(num_actions)


def to_logits(outputs: Array, num_actions: tuple[int, ...]) -> Array:
    """Reshape network outputs [..., A * K] to logits [..., A, K], K = max(num_actions)."""
    width = max(num_actions)
    logits = outputs.reshape(*outputs.shape[:-1], len(num_actions), width)
    if min(num_actions) == width:
        return logits
    exists = np.arange(width) < np.asarray(num_actions)[:, None]
    return jnp.where(np.broadcast_to(exists, logits.shape), logits, PADDING)


def equal(num_actions: tuple[int, ...]) -> Array:
    """Logits [A, K] with which all actions of a dimension are equally likely."""
    return to_logits(jnp.zeros(num_outputs(num_actions)), num_actions)


def sample(logits: Array, uniform: Array) -> Array:
    """Inverse-CDF sample, one uniform number in [0, 1) per dimension: [..., A] -> [..., A].

    The action is the number of cumulative probabilities, the last one left out, that are <= u. An
    action of probability 0, such as one that does not exist, is never drawn: not even where
    rounding leaves the sum of all probabilities below u.
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


def log_prob(logits: Array, action: Array) -> Array:
    """Log-probability of `action` [..., A]."""
    log_p = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(log_p, action[..., None], axis=-1)[..., 0].sum(-1)


def entropy(logits: Array) -> Array:
    """Entropy in nats."""
    log_p = jax.nn.log_softmax(logits)
    return -jnp.sum(jnp.exp(log_p) * log_p, axis=(-2, -1))


def kl(old_logits: Array, new_logits: Array) -> Array:
    """KL(old || new)."""
    old, new = jax.nn.log_softmax(old_logits), jax.nn.log_softmax(new_logits)
    return jnp.sum(jnp.exp(old) * (old - new), axis=(-2, -1))


def max_entropy(num_actions: tuple[int, ...]) -> float:
    """Entropy of the uniform distribution."""
    return float(sum(np.log(n) for n in num_actions))

"""Categorical distributions as functions of logits [..., A, K], for agents that were written so.

`lcpo.distributions.Categorical`, which `Spec.actions` is an instance of, has the same as methods.
"""

from __future__ import annotations

from lcpo.distributions import PADDING, Categorical
from lcpo.distributions import inverse_cdf as sample
from lcpo.types import Array

_ANY = Categorical(())
log_prob, entropy, kl = _ANY.log_prob, _ANY.entropy, _ANY.kl


def to_logits(outputs: Array, num_actions: tuple[int, ...]) -> Array:
    """Reshape network outputs [..., A * K] to logits [..., A, K], K = max(num_actions)."""
    return Categorical(num_actions).params(outputs)


__all__ = ["PADDING", "entropy", "kl", "log_prob", "sample", "to_logits"]

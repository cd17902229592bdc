"""Optimisers: Adam with L2 in the gradient, SGD, clipped by the norm; the entropy coefficient."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lcpo.types import Array

WEIGHT_DECAY = 1e-4


def adam(
    learning_rate: Array | float,
    max_norm: Array | float | None = None,
    eps: float = 1e-5,
    weight_decay: float = WEIGHT_DECAY,
    before: optax.GradientTransformation | None = None,
) -> optax.GradientTransformation:
    """Clip, add the L2 gradient, then Adam. Build it in the traced code: the rate is traced.

    `before` changes gradients first (a penalty, a projection); its state is the first part of the
    optimiser's.
    """
    return optax.chain(
        *(() if before is None else (before,)),
        optax.identity() if max_norm is None else _clip(max_norm),
        optax.add_decayed_weights(weight_decay),
        _scale_by_adam(eps),
        optax.scale_by_learning_rate(learning_rate),
    )


def sgd(learning_rate: Array | float, max_norm: Array | float) -> optax.GradientTransformation:
    """Clip, then plain gradient descent. Build it in the traced code, as `adam`."""
    return optax.chain(_clip(max_norm), optax.scale_by_learning_rate(learning_rate))


def apply(
    optimiser: optax.GradientTransformation, grads: Any, opt_state: Any, params: Any
) -> tuple[Any, Any]:
    """One step: (new params, new optimiser state)."""
    updates, opt_state = optimiser.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def polyak(target: Any, online: Any, rate: Array | float) -> Any:
    """A target network's step towards the online one: rate * online + (1 - rate) * target."""
    return optax.incremental_update(online, target, rate)


def _clip(max_norm: Array | float) -> optax.GradientTransformation:
    """Scale by min(1, max_norm / (norm + 1e-6)), as PyTorch does."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        scale = jnp.minimum(1.0, max_norm / (optax.tree.norm(updates) + 1e-6))
        return jax.tree.map(lambda g: g * scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _scale_by_adam(eps: float, b1: float = 0.9, b2: float = 0.999) -> optax.GradientTransformation:
    """optax.scale_by_adam with an exact bias correction.

    In float32, 1 - 0.999 ** t is 5e-5 off at t = 1, which a learning rate of 0.1 makes visible.
    """

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        mu = optax.tree.update_moment(updates, state.mu, b1, 1)
        nu = optax.tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        state = optax.ScaleByAdamState(optax.safe_increment(state.count), mu, nu)
        count = state.count.astype(jnp.float32)
        c1, c2 = (-jnp.expm1(count * np.log(b)) for b in (b1, b2))
        moments = jax.tree.map(lambda m, v: (m / c1) / (jnp.sqrt(v / c2) + eps), mu, nu)
        return moments, state

    return optax.GradientTransformation(optax.scale_by_adam(b1, b2).init, update)


class EntropyTuner(NamedTuple):
    """Automatic entropy coefficient, base * exp(log_scale)."""

    log_scale: Array
    opt_state: Any

    def coefficient(self, base: Array | float) -> Array:
        """The current coefficient."""
        return base * jnp.exp(self.log_scale)


def entropy_init() -> EntropyTuner:
    """Start at the base coefficient."""
    return EntropyTuner(jnp.float32(0.0), adam(1e-3, eps=1e-8).init(jnp.float32(0.0)))


def entropy_step(
    tuner: EntropyTuner, base: Any, entropy: Array, target: Any, learning_rate: Any
) -> EntropyTuner:
    """One Adam step on base * exp(log_scale) * (mean entropy - target).

    Too little entropy raises the coefficient, too much lowers it.
    """
    optimiser, grad = adam(learning_rate, eps=1e-8), tuner.coefficient(base) * (entropy - target)
    return EntropyTuner(*apply(optimiser, grad, tuner.opt_state, tuner.log_scale))

"""The equations of motion of the windy Pendulum, for its environment and for ideal MBPO.

    torque = a + wx cos(th) + wy sin(th), clipped to +-2 together with the action a
    reward = -(wrap(th)^2 + 0.1 thdot^2 + 0.001 a^2), of the state before the step

An observation is [cos(th), sin(th), thdot, history of the wind].
"""

from __future__ import annotations

import jax.numpy as jnp

from lcpo.types import Array, ContextSlice, Spec

MAX_TORQUE = 2.0
MAX_SPEED = 8.0
DT = 0.05
LAGS = 3


def make_spec(num_bins: int) -> Spec:
    """The spec with this many torques."""
    context = ContextSlice(start=3, channels=2, lags=LAGS)
    return Spec(3 + context.size, context, (num_bins,), contiguous_contexts=True, unit_steps=True)


def torque_of(index: Array, num_bins: int) -> Array:
    """The torque with this index, of `num_bins` evenly spaced over [-2, 2]; or one in between."""
    return -MAX_TORQUE + 2.0 * MAX_TORQUE / (num_bins - 1) * index.astype(jnp.float32)


def step(
    angle: Array, cos: Array, sin: Array, speed: Array, torque: Array, wind: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Angle and speed after a step of 0.05 s, and its reward; `cos`, `sin` of the old angle."""
    push = wind[0] * cos + wind[1] * sin
    total = jnp.clip(torque + push, -MAX_TORQUE, MAX_TORQUE)
    reward = -(_wrap(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2)
    speed = speed + (15.0 * sin + 3.0 * total) * DT
    speed = jnp.clip(speed, -MAX_SPEED, MAX_SPEED)
    # The angle is kept wrapped: an unwrapped one loses float32 digits as it grows.
    return _wrap(angle + DT * speed), speed, reward


def features(cos: Array, sin: Array, speed: Array) -> Array:
    """The observation without the wind, [..., 3]."""
    return jnp.stack([cos, sin, speed], axis=-1)


def _wrap(angle: Array) -> Array:
    return jnp.mod(angle + jnp.pi, 2.0 * jnp.pi) - jnp.pi

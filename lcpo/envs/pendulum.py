"""Gymnasium's Pendulum-v1 with wind, in pure JAX (docs/envs/pendulum.md).

torque = a + wx cos(th) + wy sin(th), clipped to +-2 together with the action
reward = -(wrap(th)^2 + 0.1 thdot^2 + 0.001 a^2), of the state before the step
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import Array, ContextSlice, Spec, Step

MAX_TORQUE = 2.0
MAX_SPEED = 8.0
DT = 0.05
LAGS = 3


class State(NamedTuple):
    """Angle from upright in [-pi, pi), its speed, and the steps since the reset."""

    angle: Array
    speed: Array
    time: Array


@config
class Pendulum:
    """Pendulum-v1 under a wind (wx, wy)."""

    num_bins: int = static(15, "torques, evenly spaced over [-2, 2]", low=2)
    max_steps: int = static(200, "episode length; the pendulum never terminates", low=1)

    max_input: ClassVar[float] = MAX_TORQUE

    @property
    def spec(self) -> Spec:
        context = ContextSlice(start=3, channels=2, lags=LAGS)
        return Spec(
            3 + context.size,
            context,
            num_actions=(self.num_bins,),
            contiguous_contexts=True,
            unit_steps=True,
        )

    @property
    def advance(self) -> Advance:
        return "step"

    def reset(self, key: Array) -> tuple[State, Array]:
        """Angle ~ U(-pi, pi), speed ~ U(-1, 1)."""
        high = jnp.array([jnp.pi, 1.0])
        angle, speed = jax.random.uniform(key, (2,), minval=-high, maxval=high)
        state = State(angle, speed, jnp.int32(0))
        return state, _features(state)

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """One step of 0.05 s; `action` [1] is the index of a torque, or a number between two."""
        del key
        index = action[0].astype(jnp.float32)
        torque = -MAX_TORQUE + 2.0 * MAX_TORQUE / (self.num_bins - 1) * index
        angle, speed = state.angle, state.speed
        wind = context[0] * jnp.cos(angle) + context[1] * jnp.sin(angle)
        total = jnp.clip(torque + wind, -MAX_TORQUE, MAX_TORQUE)
        wrapped = jnp.mod(angle + jnp.pi, 2.0 * jnp.pi) - jnp.pi
        reward = -(wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = speed + (15.0 * jnp.sin(angle) + 3.0 * total) * DT
        speed = jnp.clip(speed, -MAX_SPEED, MAX_SPEED)
        # The angle is kept wrapped: an unwrapped one loses float32 digits as it grows.
        angle = jnp.mod(angle + DT * speed + jnp.pi, 2.0 * jnp.pi) - jnp.pi
        state = State(angle, speed, state.time + 1)
        return state, Step(
            obs=_features(state),
            reward=reward,
            terminated=jnp.bool_(False),
            truncated=state.time >= self.max_steps,
        )


@config
class PlainPendulum(Pendulum):
    """Pendulum-v1 without wind, hence without a context."""

    @property
    def spec(self) -> Spec:
        none = ContextSlice(start=3, channels=0, lags=1)
        return super().spec._replace(obs_size=3, context=none)

    @property
    def advance(self) -> Advance:
        return "own"

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """One step of 0.05 s in calm air; `action` [1] is the index of a torque."""
        return Pendulum.step(self, state, action, jnp.zeros(2), key)


def _features(state: State) -> Array:
    return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])

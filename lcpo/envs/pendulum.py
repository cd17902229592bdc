"""Gymnasium's Pendulum-v1 with wind, in pure JAX: `core.pendulum` has the equations of motion."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.config import config, static
from lcpo.core import pendulum
from lcpo.envs.base import Advance
from lcpo.types import Array, ContextSlice, Spec, Step


class State(NamedTuple):
    """Angle from upright in [-pi, pi), its speed, and the steps since the reset.

    The next step needs the cosine and sine that are observed: computing them again would keep XLA
    from making one kernel of a step on a GPU.
    """

    angle: Array
    speed: Array
    time: Array
    cos: Array
    sin: Array


def state_at(angle: Array, speed: Array, time: Array) -> State:
    """The state of a pendulum."""
    return State(angle, speed, time, jnp.cos(angle), jnp.sin(angle))


@config
class Pendulum:
    """Pendulum-v1 under a wind (wx, wy)."""

    num_bins: int = static(15, "torques, evenly spaced over [-2, 2]", low=2)
    max_steps: int = static(200, "episode length; the pendulum never terminates", low=1)

    max_input: ClassVar[float] = pendulum.MAX_TORQUE
    feature_names: ClassVar[tuple[str, ...]] = ("cos th", "sin th", "thdot")
    context_names: ClassVar[tuple[str, ...]] = ("wx", "wy")

    @property
    def spec(self) -> Spec:
        return pendulum.make_spec(self.num_bins)

    @property
    def advance(self) -> Advance:
        return "step"

    def reset(self, key: Array) -> tuple[State, Array]:
        """Angle ~ U(-pi, pi), speed ~ U(-1, 1)."""
        high = jnp.array([jnp.pi, 1.0])
        angle, speed = jax.random.uniform(key, (2,), minval=-high, maxval=high)
        state = state_at(angle, speed, jnp.int32(0))
        return state, pendulum.features(state.cos, state.sin, speed)

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """One step of 0.05 s; `action` [1] is the index of a torque, or a number between two."""
        torque = pendulum.torque_of(action[0], self.num_bins)
        angle, speed, reward = pendulum.step(
            state.angle, state.cos, state.sin, state.speed, torque, (context[0], context[1])
        )
        state = state_at(angle, speed, state.time + 1)
        return state, Step(
            obs=pendulum.features(state.cos, state.sin, speed),
            reward=reward,
            terminated=jnp.bool_(False),
            truncated=state.time >= self.max_steps,
        )


@config
class PlainPendulum(Pendulum):
    """Pendulum-v1 without wind, hence without a context."""

    context_names: ClassVar[tuple[str, ...]] = ()

    @property
    def spec(self) -> Spec:
        none = ContextSlice(start=3, channels=0, lags=1)
        return super().spec._replace(obs_size=3, context=none)

    @property
    def advance(self) -> Advance:
        return "own"

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        return Pendulum.step(self, state, action, jnp.zeros(2), key)

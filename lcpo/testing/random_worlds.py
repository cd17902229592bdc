"""Random interactions that fit any spec: a batch of them, and an environment that makes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import Array, ContextSlice, Spec, Step, Transition


def random_obs(spec: Spec, key: Array, shape: tuple[int, ...]) -> Array:
    """Observations [*shape, D], on the levels of the space where it is finite."""
    wanted = (*shape, spec.obs_size)
    if spec.obs_levels is None:
        return jax.random.normal(key, wanted)
    levels = jnp.broadcast_to(jnp.array(spec.obs_levels), wanted)
    return jax.random.randint(key, wanted, 0, levels).astype(jnp.float32)


@partial(jax.jit, static_argnums=(0, 2, 3))
def random_batch(spec: Spec, key: Array, num_steps: int, ends: bool = True) -> Transition:
    """A batch of T = num_steps; one step in ten each is terminated, or truncated, if `ends`."""
    keys, shape = jax.random.split(key, 6), (num_steps, spec.num_worlds)
    obs, next_obs = random_obs(spec, keys[0], (2, *shape))
    action = spec.actions.random(jax.random.uniform(keys[1], (*shape, spec.action_size)))
    terminated, truncated = jax.random.bernoulli(keys[2], 0.1 if ends else 0.0, (2, *shape))
    ones, reward = jnp.ones(shape), jax.random.normal(keys[3], shape)
    rest: Any = (terminated, truncated, ones, ones, ())
    if spec.readings:
        rest += (jax.random.uniform(keys[4], (*shape, len(spec.readings))),)
    return Transition(obs, action, reward, next_obs, *rest)


def random_trace(spec: Spec, num_rows: int) -> np.ndarray:
    """Contexts [num_rows, channels], on the levels of the space where it is finite."""
    channels = spec.context.channels
    whole = spec._replace(obs_size=channels)
    if spec.obs_levels is not None:
        levels = spec.obs_levels[spec.context.start : spec.context.end : max(spec.context.lags, 1)]
        whole = whole._replace(obs_levels=levels)
    return np.asarray(random_obs(whole, jax.random.key(0), (num_rows,)))


NO_SPEC = Spec(1, ContextSlice(1, channels=0, lags=1), (2,))


@config
class RandomWorld:
    """An environment in which everything is random, and actions change nothing."""

    spec: Spec = static(NO_SPEC, "what observations and actions look like")

    @property
    def advance(self) -> Advance:
        return "step"

    def reset(self, key: Array) -> tuple[tuple, Array]:
        return (), self._features(key)

    def step(self, state: tuple, action: Array, context: Array, key: Array) -> tuple[tuple, Step]:
        obs_key, reward_key, end_key, key = jax.random.split(key, 4)
        terminated, truncated = jax.random.bernoulli(end_key, 0.1, (2,))
        readings = jax.random.uniform(key, (len(self.spec.readings),)) if self.spec.readings else ()
        reward, obs = jax.random.normal(reward_key), self._features(obs_key)
        return state, Step(obs, reward, terminated, truncated, readings=readings)

    def _features(self, key: Array) -> Array:
        return self.spec.context.remove(random_obs(self.spec, key, ()))

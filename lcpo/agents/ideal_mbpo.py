"""Ideal MBPO: MBPO with the true dynamics of the windy Pendulum in place of a learned model.

    s, w ~ all history          w: the wind of the real step from s, the newest in its next_obs
    a    ~ pi(.|s)
    r, s' = what the Pendulum does with a and w in s                          `core.pendulum.step`

It knows past winds, not future ones. Everything else is MBPO's, so its remaining errors are not the
model's.
"""

from __future__ import annotations

import jax.numpy as jnp

from lcpo.agents import mbpo, sac
from lcpo.agents.mbpo import ImagineConfig, State
from lcpo.config import config
from lcpo.core import health, pendulum, replay
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(ImagineConfig):
    """Ideal MBPO. Defaults are the paper's."""


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks, and two empty replays."""
    return mbpo.state_init(config, spec, key, model=())


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, imagine, then SAC's steps."""
    real = replay.replay_add(state.memory.real, spec, batch)
    state = state._replace(memory=state.memory._replace(real=real))
    count = batch.reward.size
    state, metrics = mbpo.learn(
        config, spec, state, count, key, lambda data, key: predict(spec, data)
    )
    return state, {**metrics, health.OBSERVATION: health.too_large(batch.obs, batch.next_obs)}


def predict(spec: Spec, data: Transition) -> tuple[Array, Array]:
    """Reward [...] and next_obs [..., D], with the action of `data` and its real next wind."""
    cos, sin, speed = jnp.moveaxis(data.obs[..., : spec.context.start], -1, 0)
    wind = spec.context.newest(data.next_obs)  # [..., 2]
    angle, wxy = jnp.arctan2(sin, cos), (wind[..., 0], wind[..., 1])
    torque = pendulum.torque_of(data.action[..., 0], spec.discrete.counts[0])
    angle, speed, reward = pendulum.step(angle, cos, sin, speed, torque, wxy)
    before = spec.context.history(data.obs)
    history = jnp.concatenate([wind[..., None], before[..., :-1]], axis=-1)
    features = pendulum.features(jnp.cos(angle), jnp.sin(angle), speed)
    return reward, spec.context.insert(features, history)


def check(config: Config, spec: Spec) -> None:
    """Only the windy Pendulum's dynamics are known."""
    known = pendulum.make_spec(spec.discrete.counts[0])
    if any(getattr(spec, x) != getattr(known, x) for x in ("obs_size", "context", "actions")):
        raise InputError(
            f"ideal-mbpo: observations of {spec.obs_size} numbers, {spec.actions}: "
            f"needs the windy Pendulum, whose dynamics it is given ({known.obs_size} numbers, one "
            "action): choose --env pendulum, or mbpo, which learns the dynamics"
        )


agent = Agent(
    "ideal-mbpo", Config, init, sac.act, update, check=check, probabilities=sac.probabilities,
    raw=True,
)  # fmt: skip

"""Sliding OGD: SAC whose steps are orthogonal to its last ones (Farajtabar et al. 2019; Woo 2022).

Orthogonal gradient descent keeps away from what past tasks depend on. Without task labels, each of
the last gradient steps counts as a task. For the policy and for each critic by itself, with g the
gradient of SAC's loss and D the directions [window - 1, weights] of its last steps, orthonormal:

    r      = g - D' (D g)                                     `project`
    d      = r / |r|,   theta <- theta - learning_rate d      `orthogonal`
    D     <- D with d in place of the oldest                  the rest stays orthonormal

Every step has the same length: no Adam, no gradient norm limit, no weight decay. The current step
counts towards `window`. If almost nothing of g is left, no step is made and nothing is stored.
Everything else is SAC's. The published code steps *up* the loss (fault "ascent").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from lcpo.agents import off_policy, sac
from lcpo.agents.off_policy import State
from lcpo.agents.sac import ActorCritics
from lcpo.config import config, faults, static, traced
from lcpo.core.nets import Network
from lcpo.core.replay import Replay
from lcpo.types import Agent, Array, Metrics, Spec, Transition

ASCENT = "ascent"
"""Fault: steps go up the loss."""
VANISHED = 1e-5
"""A projection that leaves no larger share of a gradient leaves only rounding errors."""


@config
class Config(sac.Config):
    """Sliding OGD. Defaults are the paper's."""

    learning_rate: float = traced(1e-4, "length of the policy's steps", low=0.0)
    value_learning_rate: float = traced(1e-4, "length of the critics' steps", low=0.0)
    window: int = static(1000, "gradient steps that are orthogonal to each other (N)", low=2)
    faults: tuple[str, ...] = faults(sac.TARGET_AT_S, ASCENT)

    def optimisers(self, network: Network) -> sac.Optimisers:
        """Steps of constant length, orthogonal to the last ones."""
        del network
        critic = orthogonal(self, self.value_learning_rate)
        return sac.Optimisers(orthogonal(self, self.learning_rate), (critic, critic))


class Directions(NamedTuple):
    """Directions of one network's last steps: the optax state of `orthogonal`."""

    rows: Array  # [window - 1, weights], a ring; zeros where nothing is stored yet
    num_stored: Array  # so far, int32
    share_left: Array  # |r| / |g| of the last step


class OgdMemory(NamedTuple):
    """What only `update` reads; directions in the learner would be saved with every policy."""

    replay: Replay
    directions: tuple[Directions, tuple[Directions, Directions]]  # policy's, critics'


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh SAC with no directions, and an empty replay."""
    return put_away(sac.init(config, spec, key))


def put_away(state: State) -> State:
    """The state with its directions in the memory, as it is between updates."""
    learner: ActorCritics = state.learner
    memory = OgdMemory(state.memory, (learner.policy_opt, learner.critic_opts))
    learner = learner._replace(policy_opt=(), critic_opts=((), ()))
    return state._replace(learner=learner, memory=memory)


def take_out(state: Any) -> State:
    """The state with its directions where SAC's steps expect them."""
    policy_opt, critic_opts = state.memory.directions
    learner = state.learner._replace(policy_opt=policy_opt, critic_opts=critic_opts)
    return state._replace(learner=learner, memory=state.memory.replay)


def orthogonal(config: Config, rate: Array | float) -> optax.GradientTransformation:
    """Steps of length `rate`, each orthogonal to the last ones."""
    rate = rate if ASCENT in config.faults else -rate

    def fresh(params: Any) -> Directions:
        rows = jnp.zeros((config.window - 1, ravel_pytree(params)[0].size))
        return Directions(rows, jnp.int32(0), jnp.float32(1.0))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        gradient, unravel = ravel_pytree(updates)
        rest = project(gradient, state.rows)
        length, whole = jnp.linalg.norm(rest), jnp.linalg.norm(gradient)
        is_left = length > VANISHED * whole
        direction = jnp.where(is_left, rest / jnp.where(is_left, length, 1.0), 0.0)
        oldest = state.num_stored % len(state.rows)
        row = jnp.where(is_left, direction, state.rows[oldest])
        state = Directions(
            jax.lax.dynamic_update_slice_in_dim(state.rows, row[None], oldest, 0),
            state.num_stored + is_left.astype(jnp.int32),
            length / jnp.where(whole > 0.0, whole, 1.0),
        )
        return unravel(rate * direction), state

    return optax.GradientTransformation(fresh, update)


def project(vector: Array, rows: Array) -> Array:
    """The part of a vector that is orthogonal to orthonormal rows.

    Projected twice: the rounding errors of one projection are as large as a small remainder, and
    would grow from each direction to the next.
    """
    exact = jax.lax.Precision.HIGHEST
    for _ in range(2):
        along = jnp.dot(rows, vector, precision=exact)
        vector = vector - jnp.dot(along, rows, precision=exact)
    return vector


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    after, metrics = off_policy.learn(config, spec, take_out(state), batch, key, step)
    return put_away(after), metrics


def step(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition
) -> tuple[ActorCritics, Metrics]:
    """One gradient step of every network on transitions [B]."""
    learner, metrics = sac.step(config, spec, learner, data)
    policy, (one, other) = learner.policy_opt, learner.critic_opts
    metrics["share_left"] = policy.share_left
    metrics["value_share_left"] = 0.5 * (one.share_left + other.share_left)
    stored = jnp.minimum(policy.num_stored, config.window - 1)
    return learner, {**metrics, "num_directions": stored.astype(jnp.float32)}


agent = Agent("sliding-ogd", Config, init, sac.act, update, probabilities=sac.probabilities)

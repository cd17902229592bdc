"""Shared by agents that learn from replay: storing, drawing, one-step targets.

    r       <- r / sqrt(Var[y] + offset)                          `td_target`
    y       =  r + gamma^elapsed (1 - terminated) V(s')           `td_target`
    V(s')   =  Q(s', the guard's action) where a guard holds      `guarded_value`
    target  <- rate * online + (1 - rate) * target                `core.optim.polyak`

Var[y] is the variance of all targets so far, which are themselves in units of scaled rewards. A
batch is scaled by the variance before it, and its targets enter the variance after the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import common
from lcpo.config import config, static, traced
from lcpo.core import nets, replay, returns, stats
from lcpo.core.nets import Network
from lcpo.types import Array, Metrics, Spec, Transition


@config
class Config(common.Config):
    """All agents with replay. Defaults are the paper's."""

    updates_per_rollout: int = static(1, "gradient steps per update, each on a new batch", low=1)
    batch_size: int = static(512, "transitions per gradient step, drawn uniformly", low=1)
    buffer_size: int | None = static(
        None, "transitions kept, the newest; None: all of the run", low=1, share_of_steps=1.0
    )
    random_steps: int | None = static(
        None, "first interactions, all with random actions; None: 1/20 of the run, at most 200,000",
        low=0, share_of_steps=1 / 20, share_at_most=200_000,
    )  # fmt: skip


@config
class TargetConfig:
    """Target networks that follow the online ones a little at every step."""

    target_rate: float = traced(0.01, "update rate of the target networks (tau)", low=0.0, high=1.0)


class State(NamedTuple):
    """The agent's learner, interactions so far (all worlds), and the replay."""

    learner: Any
    num_steps: Array
    memory: replay.Replay


def state_init(config: Config, spec: Spec, learner: Any) -> State:
    """A fresh learner with an empty replay."""
    memory = replay.replay_init(spec, config.buffer_size, config.rollout_length)
    return State(learner, jnp.int32(0), memory)


def make_network(config: Config, spec: Spec) -> Network:
    """The kind of all networks here: logits, or Q of each action dimension by itself, [B, A, K]."""
    network = nets.for_spec(spec, config.hidden, spec.discrete.num_outputs)
    return nets.per_action(network, spec.discrete)


def total_q(q: Array, action: Array) -> Array:
    """Q(s, a), a sum over action dimensions: q [B, A, K], action [B, A] -> [B]."""
    # A mask, not an index: its gradient is a product, that of an index a slow scatter.
    chosen = action[..., None] == jnp.arange(q.shape[-1]).reshape(*[1] * action.ndim, -1)
    return jnp.sum(jnp.where(chosen, q, 0.0), axis=(-2, -1))


def guarded_value(spec: Spec, obs: Array, q: Array, value: Array) -> Array:
    """`value` [B] of states obs [B, D], or Q of the guard's action where its rule holds: there the
    agent's own choice is not executed. q [B, A, K]."""
    if spec.guard is None:
        return value
    forced = jnp.broadcast_to(jnp.asarray(spec.guard.action), q.shape[:-1])
    return jnp.where(spec.guard.holds(obs), total_q(q, forced), value)


def guarded_action(spec: Spec, obs: Array, action: Array) -> Array:
    """`action` [B, A] as it is executed in states obs [B, D]."""
    if spec.guard is None:
        return action
    forced = jnp.asarray(spec.guard.action, action.dtype)[None]
    return jnp.where(spec.guard.holds(obs)[:, None], forced, action)


Step = Callable[..., tuple[Any, Metrics]]
"""`step(config, spec, learner, data, *more)`, an agent's gradient step."""


def learn(
    config: Any, spec: Spec, state: State, batch: Transition, key: Array, step: Step, *more: Array
) -> tuple[State, Metrics]:
    """Store the batch, then take `updates_per_rollout` steps of the learner, each on a new draw.

    `more`: further arrays [updates_per_rollout, ...], such as random numbers; each step gets one
    entry of each. Metrics are means over the steps.
    """
    memory = replay.replay_add(state.memory, spec, batch)
    drawn = replay.replay_sample(memory, spec, num_draws(config), key)
    learner, metrics = take_steps(config, spec, state.learner, drawn, step, *more)
    return State(learner, state.num_steps + batch.reward.size, memory), metrics


def num_draws(config: Config) -> int:
    """Transitions drawn per update."""
    return config.updates_per_rollout * config.batch_size


def take_steps(
    config: Any, spec: Spec, learner: Any, drawn: Transition, step: Step, *more: Array
) -> tuple[Any, Metrics]:
    """The steps of `learn` on transitions [num_draws]."""
    shape = (config.updates_per_rollout, config.batch_size)
    drawn = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), drawn)
    learner, metrics = jax.lax.scan(
        lambda learner, each: step(config, spec, learner, *each), learner, (drawn, *more)
    )
    return learner, {name: jnp.mean(values) for name, values in metrics.items()}


def td_target(
    config: Config, target_stats: stats.RunningMoments, data: Transition, next_value: Array
) -> Array:
    """One-step targets [B] in units of scaled rewards."""
    return returns.one_step(
        data.reward * common.reward_scale(config, target_stats),
        next_value,
        returns.discounts(config.gamma, data.elapsed),
        data.terminated.astype(jnp.float32),
    )

"""DDQN: double Q-learning with a network (van Hasselt et al. 2016), on replay of the whole history.

    Q(s, a) = sum_d Q_d(s, a_d)                                   additive over action dimensions
    a*_d    = argmax_j Q_d(s', j),   y = r + gamma (1 - terminated) Q_target(s', a*)      `target`
    L(phi)  = E[ (Q(s, a) - y)^2 ]                                                     `descend`
    phi'    <- rate * phi + (1 - rate) * phi'                                           `follow`

Behaviour is epsilon-greedy with one coin for all dimensions: uniformly random in the first
`random_steps`, then epsilon falls linearly to 0 (`epsilon`). Learning starts with the first
rollout, with `updates_per_rollout` steps after each. Rewards are scaled as in `off_policy`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import common, off_policy
from lcpo.agents.off_policy import State
from lcpo.config import config, static, traced
from lcpo.core import optim, stats
from lcpo.core.nets import Network
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class EpsilonConfig(off_policy.Config):
    """Agents that explore as DDQN does. Defaults are the paper's."""

    epsilon_steps: int | None = static(
        None, "steps of epsilon's fall to 0, after random_steps; None: 1/4 of the run, at most 1e6",
        low=1, share_of_steps=1 / 4, share_at_most=1_000_000,
    )  # fmt: skip

    def values(self, spec: Spec, learner: Any, obs: Array) -> Array:
        """Q [N, A, K], of which `act` takes the largest; PT-DQN overrides this."""
        return off_policy.make_network(self, spec).apply(learner.q, obs)


@config
class Config(off_policy.TargetConfig, EpsilonConfig):
    """DDQN. Defaults are the paper's."""

    learning_rate: float = traced(1e-3, "learning rate (Adam)", low=0.0)


class QLearner(NamedTuple):
    """What gradient steps change."""

    q: Any  # parameters of `off_policy.make_network`
    target: Any
    opt: Any
    target_stats: stats.RunningMoments


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh learner and an empty replay."""
    return off_policy.state_init(config, spec, learner_init(config, spec, key))


def learner_init(config: Config, spec: Spec, key: Array) -> QLearner:
    """A fresh network, and its copy as the target."""
    q = off_policy.make_network(config, spec).init(key)
    return QLearner(q, q, optim.adam(0.0, 1.0).init(q), stats.moments_init())


def act(
    config: EpsilonConfig, spec: Spec, state: State, obs: Array, key: Array
) -> tuple[Array, tuple]:
    """All dimensions random with probability epsilon, else all greedy."""
    greedy = jnp.argmax(config.values(spec, state.learner, obs), axis=-1)
    uniform = jax.random.uniform(key, (obs.shape[0], spec.action_size + 1))
    explore = uniform[:, :1] < epsilon(config, spec, state)
    return jnp.where(explore, spec.actions.random(uniform[:, 1:]), greedy), ()


def epsilon(config: EpsilonConfig, spec: Spec, state: State) -> Array:
    """Probability of a random action now; it falls after each update from `random_steps` on."""
    assert config.random_steps is not None, "resolve the config first"
    assert config.epsilon_steps is not None, "resolve the config first"
    per_update = config.rollout_length * spec.num_worlds
    after = (state.num_steps - config.random_steps + per_update).astype(jnp.float32)
    return jnp.clip(1.0 - after / config.epsilon_steps, 0.0, 1.0)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    after, metrics = off_policy.learn(config, spec, state, batch, key, step)
    return after, {**metrics, "epsilon": epsilon(config, spec, state)}


def step(
    config: Config, spec: Spec, learner: QLearner, data: Transition
) -> tuple[QLearner, Metrics]:
    """One gradient step on transitions [B], then the target network follows."""
    y = target(config, spec, learner, data)
    network = off_policy.make_network(config, spec)
    q, opt, metrics = descend(config, network, learner.q, learner.opt, data, y)
    metrics["reward_scale"] = common.reward_scale(config, learner.target_stats)
    return follow(config, learner, q, opt, y), metrics


def descend(
    config: Any, network: Network, q: Any, opt: Any, data: Transition, target: Array
) -> tuple[Any, Any, Metrics]:
    """One step of Adam on L: the new parameters and optimiser state, and metrics."""
    loss, q_value, grads = gradient(network, q, data, target)
    optimiser = network.adam(config.learning_rate, config.max_grad_norm)
    q, opt = optim.apply(optimiser, grads, opt, q)
    norm = optax.tree.norm(grads)
    return q, opt, {"value_loss": loss, "grad_norm": norm, "q_value": jnp.mean(q_value)}


def follow(config: Config, learner: Any, q: Any, opt: Any, y: Array) -> Any:
    """`learner` with the new network `q`: its target follows, and y enters the reward scale."""
    following = optim.polyak(learner.target, q, config.target_rate)
    moments = stats.moments_add(learner.target_stats, y)
    return learner._replace(q=q, target=following, opt=opt, target_stats=moments)


def target(config: Config, spec: Spec, learner: Any, data: Transition) -> Array:
    """y [B]: the online network chooses a*, the target network evaluates it."""
    network = off_policy.make_network(config, spec)
    best = jnp.argmax(network.apply(learner.q, data.next_obs), axis=-1)
    next_q = network.apply(learner.target, data.next_obs)
    next_value = off_policy.total_q(next_q, best)
    next_value = off_policy.guarded_value(spec, data.next_obs, next_q, next_value)
    return off_policy.td_target(config, learner.target_stats, data, next_value)


def gradient(network: Network, q: Any, data: Transition, target: Array) -> tuple[Array, Array, Any]:
    """Loss E[(Q(s, a) - y)^2], Q(s, a) [B] and the loss's gradient."""

    def value_loss(params: Any) -> tuple[Array, Array]:
        value = off_policy.total_q(network.apply(params, data.obs), data.action)
        return jnp.mean((value - target) ** 2), value

    (loss, value), grads = jax.value_and_grad(value_loss, has_aux=True)(q)
    return loss, value, grads


def probabilities(config: EpsilonConfig, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K] of each dimension, as `act` draws them, epsilon included."""
    q = config.values(spec, state.learner, obs)
    greedy = jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1])
    rate = epsilon(config, spec, state)
    return (1.0 - rate) * greedy + rate * jax.nn.softmax(spec.discrete.equal())[None]


agent = Agent("ddqn", Config, init, act, update, probabilities=probabilities)

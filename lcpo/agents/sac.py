"""SAC for discrete actions (Haarnoja et al. 2018; Christodoulou 2019), on replay of all history.

    Q_i(s, a) = sum_d Q_id(s, a_d), i = 1, 2                     additive over action dimensions
    Qm_dj     = min(Q_1dj, Q_2dj)                                per dimension and action
    L(theta)  = E[ sum_dj pi_dj(s) (c log pi_dj(s) - Qm_dj(s)) ]                 `policy_gradient`
    y         = r + gamma (1 - terminated) sum_dj pi_dj(s') (Qm'_dj(s') - c log pi_dj(s'))
                                                                 targets Q', new pi       `target`
    L(phi_i)  = E[ (Q_i(s, a) - y)^2 ]                                           `ddqn.gradient`
    phi'_i    <- rate * phi_i + (1 - rate) * phi'_i                                     `finish`
    c         tuned so that the entropy approaches `entropy_target` of its maximum        `finish`

In this order, `updates_per_rollout` times after each rollout, from the first one on; actions are
uniformly random for `random_steps`. The expectations over actions are exact sums. Scaled rewards
as in `off_policy`. The published code takes pi(s) for pi(s') in y (fault "target-at-s").

An agent that changes SAC's gradients (a penalty on old weights, a projection) overrides
`Config.optimisers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import common, ddqn, off_policy
from lcpo.agents.off_policy import State
from lcpo.config import config, faults, traced, with_default
from lcpo.core import optim, stats
from lcpo.core.nets import Network
from lcpo.types import Agent, Array, Metrics, Spec, Transition

TARGET_AT_S = "target-at-s"
"""Fault: the target weighs the actions in s' with the policy's probabilities in s."""


@config
class Config(common.EntropyConfig, off_policy.TargetConfig, off_policy.Config):
    """SAC. Defaults are the paper's."""

    learning_rate: float = traced(4e-4, "policy learning rate (Adam)", low=0.0)
    value_learning_rate: float = traced(1e-3, "critics' learning rate (Adam)", low=0.0)
    entropy_coef: float = with_default(common.EntropyConfig, "entropy_coef", 0.1)
    entropy_target: float = with_default(common.EntropyConfig, "entropy_target", 0.1)
    faults: tuple[str, ...] = faults(TARGET_AT_S)

    def optimisers(self, network: Network) -> Optimisers:
        """The optimisers of all networks."""
        return adams(self, network)


class Optimisers(NamedTuple):
    """One gradient transformation per network; states: `policy_opt` and `critic_opts`."""

    policy: optax.GradientTransformation
    critics: tuple[optax.GradientTransformation, optax.GradientTransformation]


class ActorCritics(NamedTuple):
    """What gradient steps change. Pairs: one entry per critic."""

    policy: Any  # parameters of `off_policy.make_network`, as are the critics and targets
    critics: tuple[Any, Any]
    targets: tuple[Any, Any]
    policy_opt: Any
    critic_opts: tuple[Any, Any]
    entropy: optim.EntropyTuner
    target_stats: stats.RunningMoments


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks, copies of the critics as targets, and an empty replay."""
    return off_policy.state_init(config, spec, learner_init(config, spec, key))


def learner_init(config: Config, spec: Spec, key: Array) -> ActorCritics:
    """Fresh networks, and copies of the critics as targets."""
    network = off_policy.make_network(config, spec)
    policy, *pair = (network.init(k) for k in jax.random.split(key, 3))
    critics = (pair[0], pair[1])
    one, (two, three) = config.optimisers(network)
    opts = one.init(policy), (two.init(critics[0]), three.init(critics[1]))
    return ActorCritics(policy, critics, critics, *opts, optim.entropy_init(), stats.moments_init())


def adams(
    config: Config, network: Network, before: Sequence[Any] = (None, None, None)
) -> Optimisers:
    """For each network: the gradient norm limit, L2 and Adam.

    `before`: transformations of the gradients of the policy and of each critic (a penalty). Their
    states are the first part of the optimiser's, for instance `learner.policy_opt[0]`.
    """
    rates = (config.learning_rate, config.value_learning_rate, config.value_learning_rate)
    policy, one, other = (
        network.adam(rate, config.max_grad_norm, before=hook)
        for rate, hook in zip(rates, before, strict=True)
    )
    return Optimisers(policy, (one, other))


def act(config: Config, spec: Spec, state: Any, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy; at first, uniformly. `state` has `learner` and `num_steps`."""
    logits = behaviour(config, spec, state.learner.policy, state.num_steps, obs)
    return spec.actions.sample(logits, key), ()


def behaviour(config: Config, spec: Spec, policy: Any, num_steps: Array, obs: Array) -> Array:
    """Logits [N, A, K] that actions are drawn from: equal ones during the random steps."""
    assert config.random_steps is not None, "resolve the config first"
    logits = off_policy.make_network(config, spec).apply(policy, obs)
    equal = jnp.broadcast_to(spec.discrete.equal(), logits.shape)
    return jnp.where(num_steps >= config.random_steps, logits, equal)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    return off_policy.learn(config, spec, state, batch, key, step)


def step(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition
) -> tuple[ActorCritics, Metrics]:
    """One gradient step of every network on transitions [B], in the order of the docstring."""
    learner, y, metrics = descend(config, spec, learner, data)
    learner, more = finish(config, spec, learner, data.obs, y)
    return learner, {**more, **metrics}


def descend(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition
) -> tuple[ActorCritics, Array, Metrics]:
    """The steps of the policy and then of both critics; the critics' targets y [B]."""
    network = off_policy.make_network(config, spec)
    one, others = config.optimisers(network)
    policy_loss, policy_grads = policy_gradient(config, spec, learner, data)
    policy, policy_opt = optim.apply(one, policy_grads, learner.policy_opt, learner.policy)
    learner = learner._replace(policy=policy, policy_opt=policy_opt)
    y = target(config, spec, learner, data)
    losses, values, grads = zip(
        *[ddqn.gradient(network, critic, data, y) for critic in learner.critics], strict=True
    )
    pairs = zip(others, grads, learner.critic_opts, learner.critics, strict=True)
    critics, critic_opts = zip(*[optim.apply(*pair) for pair in pairs], strict=True)
    metrics = {
        "policy_loss": policy_loss,
        "grad_norm": optax.tree.norm(policy_grads),
        "value_loss": 0.5 * (losses[0] + losses[1]),
        "q_value": 0.5 * jnp.mean(values[0] + values[1]),
    }
    return learner._replace(critics=critics, critic_opts=critic_opts), y, metrics


def policy_gradient(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition
) -> tuple[Array, Any]:
    """L(theta) and its gradient."""
    network = off_policy.make_network(config, spec)
    q = _smaller(network, learner.critics, data.obs)
    coefficient = learner.entropy.coefficient(config.entropy_coef)

    def policy_loss(policy: Any) -> Array:
        logits = network.apply(policy, data.obs)
        return -stats.weighted_mean(soft_value(logits, q, coefficient), data.weight)

    return jax.value_and_grad(policy_loss)(learner.policy)


def target(config: Config, spec: Spec, learner: ActorCritics, data: Transition) -> Array:
    """y [B], with the learner's (already updated) policy."""
    network = off_policy.make_network(config, spec)
    coefficient = learner.entropy.coefficient(config.entropy_coef)
    obs = data.obs if TARGET_AT_S in config.faults else data.next_obs
    logits = network.apply(learner.policy, obs)
    next_q = _smaller(network, learner.targets, data.next_obs)
    next_value = soft_value(logits, next_q, coefficient)
    next_value = off_policy.guarded_value(spec, data.next_obs, next_q, next_value)
    return off_policy.td_target(config, learner.target_stats, data, next_value)


def finish(
    config: Config, spec: Spec, learner: ActorCritics, obs: Array, target: Array
) -> tuple[ActorCritics, Metrics]:
    """Complete a step: target networks, reward scale, entropy coefficient.

    `target` [B]: the critics'; `obs` [B, D]: where the entropy is measured.
    """
    metrics = {"reward_scale": common.reward_scale(config, learner.target_stats)}
    learner = learner._replace(
        targets=optim.polyak(learner.targets, learner.critics, config.target_rate),
        target_stats=stats.moments_add(learner.target_stats, target),
    )
    logits = off_policy.make_network(config, spec).apply(learner.policy, obs)
    entropy = jnp.mean(spec.actions.entropy(logits))
    tuner = common.tune_entropy(config, spec, learner.entropy, entropy)
    coefficient = tuner.coefficient(config.entropy_coef)
    metrics |= {"entropy": entropy, "entropy_coef": coefficient}
    return learner._replace(entropy=tuner), metrics


def soft_value(logits: Array, q: Array, coefficient: Array) -> Array:
    """sum_dj pi_dj (q_dj - c log pi_dj): logits and q [B, A, K] -> [B]."""
    log_p = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_p) * (q - coefficient * log_p), axis=(-2, -1))


def _smaller(network: Network, pair: tuple[Any, Any], obs: Array) -> Array:
    """The smaller of two critics' values, [B, A, K]."""
    one, other = (network.apply(critic, obs) for critic in pair)
    return jnp.minimum(one, other)


def probabilities(config: Config, spec: Spec, state: Any, obs: Array) -> Array:
    """Action probabilities [N, A, K], as `act` draws them."""
    logits = behaviour(config, spec, state.learner.policy, state.num_steps, obs)
    return spec.actions.summary(logits)


agent = Agent("sac", Config, init, act, update, probabilities=probabilities)

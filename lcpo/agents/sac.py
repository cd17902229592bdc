"""SAC for discrete actions (Haarnoja et al. 2018; Christodoulou 2019), on replay of all history.

    Q_i(s, a) = sum_d Q_id(s, a_d), i = 1, 2                     additive over action dimensions
    Qm_dj     = min(Q_1dj, Q_2dj)                                per dimension and action
    L(theta)  = E[ sum_dj pi_dj(s) (c log pi_dj(s) - Qm_dj(s)) ]                 `policy_gradient`
    y         = r + gamma (1 - terminated) sum_dj pi_dj(s') (Qm'_dj(s') - c log pi_dj(s'))
                                                                 targets Q', new pi       `target`
    L(phi_i)  = E[ (Q_i(s, a) - y)^2 ]                                           `ddqn.gradient`
    phi'_i    <- rate * phi_i + (1 - rate) * phi'_i                                     `finish`
    c         tuned so that the entropy approaches `entropy_target` of its maximum  `tune_entropy`

In this order, `updates_per_rollout` times after each rollout, from the first one on; actions are
uniformly random for `random_steps`. The expectations over actions are exact sums. Scaled rewards
as in `off_policy`. The published code takes pi(s) for pi(s') in y (fault "target-at-s").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import ddqn, off_policy
from lcpo.agents.off_policy import State
from lcpo.config import config, static, traced
from lcpo.core import dists, nets, optim, stats
from lcpo.types import Agent, Array, Metrics, Spec, Transition

TARGET_AT_S = "target-at-s"
"""Fault: the target weighs the actions in s' with the policy's probabilities in s."""


@config
class Config(off_policy.Config):
    """SAC. Defaults are the paper's."""

    learning_rate: float = traced(4e-4, "policy learning rate (Adam)", low=0.0)
    value_learning_rate: float = traced(1e-3, "critics' learning rate (Adam)", low=0.0)
    entropy_coef: float = traced(0.1, "entropy coefficient, or its start if tuned", low=0.0)
    entropy_target: float = traced(
        0.1, "tune the coefficient towards this share of the maximal entropy; 0: keep it fixed",
        low=0.0, high=1.0,
    )  # fmt: skip
    entropy_learning_rate: float = traced(1e-3, "learning rate of the log coefficient", low=0.0)
    faults: tuple[str, ...] = static((), "published faults to repeat", choices=(TARGET_AT_S,))


class Learner(NamedTuple):
    """What gradient steps change. Pairs: one entry per critic."""

    policy: nets.Params
    critics: tuple[nets.Params, nets.Params]
    targets: tuple[nets.Params, nets.Params]
    policy_opt: Any
    critic_opts: tuple[Any, Any]
    entropy: optim.EntropyTuner
    target_stats: stats.RunningMoments


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks, copies of the critics as targets, and an empty replay."""
    return off_policy.state_init(config, spec, learner_init(config, spec, key))


def learner_init(config: Config, spec: Spec, key: Array) -> Learner:
    """Fresh networks, and copies of the critics as targets."""
    policy, *pair = (off_policy.network_init(config, spec, k) for k in jax.random.split(key, 3))
    critics, empty = (pair[0], pair[1]), optim.adam(0.0, 1.0)
    return Learner(
        policy,
        critics,
        critics,
        empty.init(policy),
        (empty.init(critics[0]), empty.init(critics[1])),
        optim.entropy_init(),
        stats.moments_init(),
    )


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy; at first, uniformly."""
    uniform = jax.random.uniform(key, (obs.shape[0], spec.action_size))
    return dists.sample(behaviour(config, spec, state, obs), uniform), ()


def behaviour(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Logits [N, A, K] that actions are drawn from: equal ones during the random steps."""
    learned = state.num_steps >= config.random_steps
    return dists.to_logits(nets.mlp(state.learner.policy, obs) * learned, spec.num_actions)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    return off_policy.learn(config, spec, state, batch, key, step)


def step(config: Config, spec: Spec, learner: Learner, data: Transition) -> tuple[Learner, Metrics]:
    """One gradient step of every network on transitions [B], in the order of the docstring."""
    policy_loss, policy_grads = policy_gradient(config, spec, learner, data)
    optimiser = optim.adam(config.learning_rate, config.max_grad_norm)
    policy, policy_opt = optim.apply(optimiser, policy_grads, learner.policy_opt, learner.policy)
    learner = learner._replace(policy=policy, policy_opt=policy_opt)
    y = target(config, spec, learner, data)
    optimiser = optim.adam(config.value_learning_rate, config.max_grad_norm)
    found = [ddqn.gradient(spec, critic, data, y) for critic in learner.critics]
    stepped = [
        optim.apply(optimiser, grads, opt, critic)
        for (_, _, grads), opt, critic in zip(
            found, learner.critic_opts, learner.critics, strict=True
        )
    ]
    critics, critic_opts = zip(*stepped, strict=True)
    learner = learner._replace(critics=critics, critic_opts=critic_opts)
    learner, metrics = finish(config, spec, learner, data, y)
    return learner, {
        **metrics,
        "policy_loss": policy_loss,
        "grad_norm": optax.tree.norm(policy_grads),
        "value_loss": 0.5 * (found[0][0] + found[1][0]),
        "q_value": 0.5 * jnp.mean(found[0][1] + found[1][1]),
    }


def policy_gradient(
    config: Config, spec: Spec, learner: Learner, data: Transition
) -> tuple[Array, nets.Params]:
    """L(theta) and its gradient."""
    q = _smaller(spec, learner.critics, data.obs)
    coefficient = optim.entropy_coefficient(learner.entropy, config.entropy_coef)

    def policy_loss(policy: nets.Params) -> Array:
        logits = off_policy.outputs(spec, policy, data.obs)
        return -stats.weighted_mean(soft_value(logits, q, coefficient), data.weight)

    return jax.value_and_grad(policy_loss)(learner.policy)


def target(config: Config, spec: Spec, learner: Learner, data: Transition) -> Array:
    """y [B], with the learner's (already updated) policy."""
    coefficient = optim.entropy_coefficient(learner.entropy, config.entropy_coef)
    obs = data.obs if TARGET_AT_S in config.faults else data.next_obs
    logits = off_policy.outputs(spec, learner.policy, obs)
    next_value = soft_value(logits, _smaller(spec, learner.targets, data.next_obs), coefficient)
    return off_policy.td_target(config, learner.target_stats, data, next_value)


def finish(
    config: Config, spec: Spec, learner: Learner, data: Transition, target: Array
) -> tuple[Learner, Metrics]:
    """What follows the steps of the networks: target networks, reward scale, entropy."""
    metrics = {"reward_scale": off_policy.reward_scale(config, learner.target_stats)}
    learner = learner._replace(
        targets=optim.polyak(learner.targets, learner.critics, config.target_rate),
        target_stats=stats.moments_add(learner.target_stats, target),
    )
    learner, entropy = tune_entropy(config, spec, learner, data.obs)
    coefficient = optim.entropy_coefficient(learner.entropy, config.entropy_coef)
    return learner, {**metrics, "entropy": entropy, "entropy_coef": coefficient}


def tune_entropy(config: Config, spec: Spec, learner: Learner, obs: Array) -> tuple[Learner, Array]:
    """One step of the coefficient's, and the mean entropy on obs [B, D]."""
    entropy = jnp.mean(dists.entropy(off_policy.outputs(spec, learner.policy, obs)))
    tuner = optim.entropy_step(
        learner.entropy, config.entropy_coef, entropy,
        config.entropy_target * dists.max_entropy(spec.num_actions), config.entropy_learning_rate,
    )  # fmt: skip
    tuned = config.entropy_target > 0.0
    tuner = jax.tree.map(lambda a, b: jnp.where(tuned, a, b), tuner, learner.entropy)
    return learner._replace(entropy=tuner), entropy


def soft_value(logits: Array, q: Array, coefficient: Array) -> Array:
    """sum_dj pi_dj (q_dj - c log pi_dj): logits and q [B, A, K] -> [B]."""
    log_p = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_p) * (q - coefficient * log_p), axis=(-2, -1))


def _smaller(spec: Spec, pair: tuple[nets.Params, nets.Params], obs: Array) -> Array:
    """The smaller of two critics' values, [B, A, K]."""
    one, other = (off_policy.outputs(spec, critic, obs) for critic in pair)
    return jnp.minimum(one, other)


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K], as `act` draws them."""
    return jax.nn.softmax(behaviour(config, spec, state, obs))


agent = Agent("sac", Config, init, act, update, probabilities=probabilities)

"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one gradient step per batch.

    L(theta) = -E[ A log pi(a|s) ] - c E[ H(pi(.|s)) ]           `policy_gradient`
    A        = GAE(gamma, lambda)                                `estimate`
    L(phi)   = E[ (V(s) - R)^2 ], R the bootstrapped return      `finish`

Rewards are divided by the standard deviation of their running discounted return. With
`entropy_target` > 0 the coefficient c is tuned so that the entropy approaches that share of its
maximum, as LCPO does; the paper's A2C baseline has c = 0. The value target is the bootstrapped
Monte-Carlo return, not the lambda-return.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.config import config, static, traced
from lcpo.core import dists, nets, optim, returns, stats
from lcpo.types import Agent, Array, Metrics, Spec, Transition

TRUNCATION_LEAKS = "truncation-leaks"
"""Fault: returns and advantages run on from a truncated step into the next episode, because the
published code compares a NumPy bool with `True` by identity, which never holds."""


@config
class Config:
    """A2C. Defaults are the paper's."""

    rollout_length: int = static(200, "interactions per update", low=1)
    hidden: tuple[int, ...] = static((64, 64), "hidden layer sizes", low=1)
    learning_rate: float = traced(4e-4, "policy learning rate (Adam)", low=0.0)
    value_learning_rate: float = traced(1e-3, "value learning rate (Adam)", low=0.0)
    max_grad_norm: float = traced(0.5, "global gradient norm limit", low=0.0)
    gamma: float = traced(0.99, "discount per unit of time", low=0.0, high=1.0)
    lam: float = traced(0.9, "GAE lambda", low=0.0, high=1.0)
    entropy_coef: float = traced(0.0, "entropy coefficient, or its start if tuned", low=0.0)
    entropy_target: float = traced(
        0.0, "tune the coefficient towards this share of the maximal entropy; 0: keep it fixed",
        low=0.0, high=1.0,
    )  # fmt: skip
    entropy_learning_rate: float = traced(1e-3, "learning rate of the log coefficient", low=0.0)
    scale_rewards: bool = static(True, "divide rewards by the std of their running return")
    reward_var_offset: float = traced(1.0, "added to that variance before the root", low=0.0)
    faults: tuple[str, ...] = static((), "published faults to repeat", choices=(TRUNCATION_LEAKS,))


class State(NamedTuple):
    """Networks, optimisers and running statistics."""

    policy: Any  # parameters of an MLP, or callable ones (see `outputs`)
    value: Any
    policy_opt: Any
    value_opt: Any
    entropy: optim.EntropyTuner
    running_return: Array  # [N], discounted return of the episode so far
    return_stats: stats.RunningMoments


class Data(NamedTuple):
    """What the losses read; B = T * N."""

    obs: Array  # [B, D]
    action: Array  # [B, A]
    advantage: Array  # [B]
    target: Array  # [B], of the value function
    weight: Array  # [B]


class Gradient(NamedTuple):
    """The policy gradient at the old policy."""

    grads: Any
    loss: Array
    logits: Array  # [B, A, K], of the old policy


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks."""
    policy_key, value_key = jax.random.split(key)
    width = spec.action_size * max(spec.num_actions)
    policy = nets.mlp_init(policy_key, (spec.obs_size, *config.hidden, width))
    value = nets.mlp_init(value_key, (spec.obs_size, *config.hidden, 1))
    return State(
        policy,
        value,
        optim.adam(0.0, 1.0).init(policy),
        optim.adam(0.0, 1.0).init(value),
        optim.entropy_init(),
        jnp.zeros(spec.num_worlds),
        stats.moments_init(),
    )


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, Any]:
    """Sample from the policy."""
    del config
    uniform = jax.random.uniform(key, (obs.shape[0], spec.action_size))
    return dists.sample(logits(spec, state.policy, obs), uniform), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One policy step, one value step, one step of the entropy coefficient."""
    del key
    state, data = estimate(config, state, batch)
    gradient = policy_gradient(config, spec, state, data)
    policy, policy_opt = policy_step(config, state, gradient)
    return finish(config, spec, state, data, gradient, policy, policy_opt)


def outputs(params: Any, obs: Array) -> Array:
    """What `params` say to obs [..., D]: the layers of an MLP, or parameters that are callable."""
    return nets.mlp(params, obs) if type(params) is tuple else params(obs)


def logits(spec: Spec, policy: Any, obs: Array) -> Array:
    """Policy logits [B, A, K]."""
    return dists.to_logits(outputs(policy, obs), spec.num_actions)


def estimate(config: Config, state: State, batch: Transition) -> tuple[State, Data]:
    """Scale the rewards, then compute value targets and advantages with the old value function."""
    terminated = batch.terminated.astype(jnp.float32)
    truncated = batch.truncated.astype(jnp.float32)
    discount = returns.discounts(config.gamma, batch.elapsed)
    if config.scale_rewards:
        ended = jnp.maximum(terminated, truncated)
        running, carried = returns.running_returns(
            batch.reward, discount, ended, state.running_return
        )
        moments = stats.moments_add(state.return_stats, running)
        state = state._replace(running_return=carried, return_stats=moments)
    reward = batch.reward * _reward_scale(config, state)
    if TRUNCATION_LEAKS in config.faults:
        truncated = jnp.zeros_like(truncated)
    values = outputs(state.value, jnp.stack([batch.obs, batch.next_obs]))[..., 0]  # [2, T, N]
    advantage = returns.advantages(
        reward, values[0], values[1], discount, terminated, truncated, config.lam
    )
    target = returns.returns(reward, values[1], discount, terminated, truncated)
    data = Data(batch.obs, batch.action, advantage, target, batch.weight)
    return state, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), data)


def _reward_scale(config: Config, state: State) -> Array:
    """What rewards are multiplied by."""
    if not config.scale_rewards:
        return jnp.float32(1.0)
    return 1.0 / jnp.sqrt(state.return_stats.var + config.reward_var_offset)


def policy_gradient(config: Config, spec: Spec, state: State, data: Data) -> Gradient:
    """Gradient of the policy gradient loss with entropy bonus."""
    coefficient = optim.entropy_coefficient(state.entropy, config.entropy_coef)

    def policy_loss(policy: Any) -> tuple[Array, Array]:
        old = logits(spec, policy, data.obs)
        gain = data.advantage * dists.log_prob(old, data.action) + coefficient * dists.entropy(old)
        return -stats.weighted_mean(gain, data.weight), old

    (loss, old), grads = jax.value_and_grad(policy_loss, has_aux=True)(state.policy)
    return Gradient(grads, loss, old)


def adam(config: Config, learning_rate: float, params: Any) -> optax.GradientTransformation:
    """The optimiser of `params`; callable ones may state their own weight decay."""
    weight_decay = getattr(params, "weight_decay", optim.WEIGHT_DECAY)
    return optim.adam(learning_rate, config.max_grad_norm, weight_decay=weight_decay)


def policy_step(config: Config, state: State, gradient: Gradient) -> tuple[Any, Any]:
    """One clipped Adam step: (new policy, new optimiser state)."""
    optimiser = adam(config, config.learning_rate, state.policy)
    return optim.apply(optimiser, gradient.grads, state.policy_opt, state.policy)


def finish(
    config: Config,
    spec: Spec,
    state: State,
    data: Data,
    gradient: Gradient,
    policy: Any,
    policy_opt: Any,
) -> tuple[State, Metrics]:
    """What follows the policy step of every on-policy agent: value step, entropy coefficient."""

    def value_loss(value: Any) -> Array:
        return jnp.mean((outputs(value, data.obs)[:, 0] - data.target) ** 2)

    loss, grads = jax.value_and_grad(value_loss)(state.value)
    optimiser = adam(config, config.value_learning_rate, state.value)
    value, value_opt = optim.apply(optimiser, grads, state.value_opt, state.value)

    new = logits(spec, policy, data.obs)
    entropy = jnp.mean(dists.entropy(new))
    target = config.entropy_target * dists.max_entropy(spec.num_actions)
    tuned = optim.entropy_step(
        state.entropy, config.entropy_coef, entropy, target, config.entropy_learning_rate
    )
    tuner = jax.tree.map(
        lambda a, b: jnp.where(config.entropy_target > 0.0, a, b), tuned, state.entropy
    )
    metrics = {
        "policy_loss": gradient.loss,
        "grad_norm": optax.tree.norm(gradient.grads),
        "value_loss": loss,
        "entropy": entropy,
        "entropy_coef": optim.entropy_coefficient(tuner, config.entropy_coef),
        "recent_kl": jnp.mean(dists.kl(gradient.logits, new)),
        "reward_scale": _reward_scale(config, state),
    }
    new_state = state._replace(
        policy=policy, value=value, policy_opt=policy_opt, value_opt=value_opt, entropy=tuner
    )
    return new_state, metrics


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K]."""
    del config
    return jax.nn.softmax(logits(spec, state.policy, obs))


agent = Agent("a2c", Config, init, act, update, probabilities=probabilities)

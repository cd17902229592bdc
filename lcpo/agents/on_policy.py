"""Shared by agents that learn from the newest batch alone: A2C, TRPO, PPO, LCPO and LCPO-P.

    A       = GAE(gamma, lambda), R the bootstrapped return            `estimate`
    g       = gradient of -E[ A log pi(a|s) ] - c E[ H(pi(.|s)) ]      `policy_gradient`
    theta  <- the agent's own policy step                              (`adam_step`: A2C's)
    phi    <- `value_steps` Adam steps on E[ (V(s) - R)^2 ]            `value_steps`
    c      <- tuned towards the target entropy                         `finish`

Rewards are divided by the standard deviation of their running discounted return. The value target
is the bootstrapped Monte-Carlo return, not the lambda-return.

The paper's agents take one value step per batch. With more, A and R are computed once, before the
first step: targets that moved with the value function would make it chase its own bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import common
from lcpo.config import config, faults, static, traced, with_default
from lcpo.core import nets, optim, returns, stats
from lcpo.core.nets import Network
from lcpo.distributions import Distribution
from lcpo.types import Array, Metrics, Spec, Transition

TRUNCATION_LEAKS = "truncation-leaks"
"""Fault: returns and advantages continue from a truncated step into the next episode, because the
published code compares a NumPy bool with `True` by identity, which never holds."""
UNROLL = 10
"""Value steps unrolled in a GPU's program, where small kernels wait for the loop around them."""


@config
class ActorCriticConfig(common.EntropyConfig, common.Config):
    """Agents with a policy and a value function, CLEAR included. The paper's defaults."""

    value_learning_rate: float = traced(1e-3, "value learning rate (Adam)", low=0.0)
    max_grad_norm: float = with_default(common.Config, "max_grad_norm", 0.5)

    def networks(self, spec: Spec) -> Networks:
        """Networks of the kind that suits the spec; tabular A2C overrides this."""
        policy = nets.for_actions(spec, self.hidden)
        return Networks(policy, nets.for_spec(spec, self.hidden, num_outputs=1))


@config
class AdamActorConfig(ActorCriticConfig):
    """Actor-critics whose policy takes Adam steps, too."""

    learning_rate: float = traced(4e-4, "policy learning rate (Adam)", low=0.0)


@config
class Config(ActorCriticConfig):
    """All agents of this module. Defaults are the paper's."""

    lam: float = traced(0.9, "GAE lambda", low=0.0, high=1.0)
    value_steps: int = static(1, "gradient steps of the value function per batch", low=1)
    faults: tuple[str, ...] = faults(TRUNCATION_LEAKS)

    def bonus(self, spec: Spec, state: State) -> Bonus:
        """The entropy bonus of every state, with the tuned coefficient; LCPO+ overrides this."""
        del spec
        return Bonus(state.entropy.coefficient(self.entropy_coef))


@config
class AdamConfig(AdamActorConfig, Config):
    """Agents of this module whose policy takes Adam steps."""


class Bonus(NamedTuple):
    """The entropy bonus of a policy loss: coefficient * E[ min(H(pi(.|s)), ceiling) ]."""

    coefficient: Array | float
    ceiling: Array | float | None = None  # None: none

    def of(self, entropy: Array) -> Array:
        """The bonus of states with these entropies."""
        capped = entropy if self.ceiling is None else jnp.minimum(entropy, self.ceiling)
        return self.coefficient * capped


class Networks(NamedTuple):
    """The two networks that are learned."""

    policy: Network  # parameters of `spec.actions`, [..., A, P]
    value: Network  # [..., 1]


def make_networks(config: ActorCriticConfig, spec: Spec) -> Networks:
    """The networks that the config chooses for this spec."""
    return config.networks(spec)


class State(NamedTuple):
    """Networks, optimisers and running statistics."""

    policy: Any  # parameters of `Networks.policy`
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
    old: Array  # [B, A, P], what the old policy gives
    bonus: Bonus  # the entropy bonus in the loss


def init(config: ActorCriticConfig, spec: Spec, key: Array) -> State:
    """Fresh parameters."""
    networks = config.networks(spec)
    policy_key, value_key = jax.random.split(key)
    policy, value = networks.policy.init(policy_key), networks.value.init(value_key)
    adam, running = optim.adam(0.0, 1.0), (jnp.zeros(spec.num_worlds), stats.moments_init())
    moments = adam.init(policy), adam.init(value)
    return State(policy, value, *moments, optim.entropy_init(), *running)


def act(
    config: ActorCriticConfig, spec: Spec, state: Any, obs: Array, key: Array
) -> tuple[Array, tuple]:
    """Sample from the policy; `state` is a `State`, or has one as its field `learner`."""
    return spec.actions.sample(_outputs(config, spec, state, obs), key), ()


def probabilities(config: ActorCriticConfig, spec: Spec, state: Any, obs: Array) -> Array:
    """Action probabilities [N, A, K] of the same policy."""
    return spec.actions.summary(_outputs(config, spec, state, obs))


def _outputs(config: ActorCriticConfig, spec: Spec, state: Any, obs: Array) -> Array:
    policy = getattr(state, "learner", state).policy
    return config.networks(spec).policy.apply(policy, obs)


learner_act, learner_probabilities = act, probabilities


def estimate(
    config: Config, networks: Networks, state: State, batch: Transition
) -> tuple[State, Data]:
    """Scale the rewards, then compute value targets and advantages with the old value function."""
    terminated = batch.terminated.astype(jnp.float32)
    truncated = batch.truncated.astype(jnp.float32)
    discount = returns.discounts(config.gamma, batch.elapsed)
    state = follow_returns(config, state, batch)
    reward = batch.reward * common.reward_scale(config, state.return_stats)
    if TRUNCATION_LEAKS in config.faults:
        truncated = jnp.zeros_like(truncated)
    now, following = (
        networks.value.apply(state.value, obs.reshape(-1, obs.shape[-1])).reshape(reward.shape)
        for obs in (batch.obs, batch.next_obs)
    )
    advantage = returns.advantages(
        reward, now, following, discount, terminated, truncated, config.lam
    )
    target = returns.returns(reward, following, discount, terminated, truncated)
    data = Data(batch.obs, batch.action, advantage, target, batch.weight)
    return state, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), data)


def follow_returns(config: ActorCriticConfig, state: State, batch: Transition) -> State:
    """Add the running returns of a rollout to the statistics that scale rewards."""
    if not config.scale_rewards:
        return state
    discount = returns.discounts(config.gamma, batch.elapsed)
    ended = (batch.terminated | batch.truncated).astype(jnp.float32)
    running, carried = returns.running_returns(batch.reward, discount, ended, state.running_return)
    if not isinstance(batch.running, tuple):
        running, carried = batch.running, state.running_return
    moments = stats.moments_add(state.return_stats, running)
    return state._replace(running_return=carried, return_stats=moments)


def policy_gradient(
    config: Config, spec: Spec, policy: Network, state: State, data: Data
) -> Gradient:
    """Gradient of the policy gradient loss with entropy bonus."""
    actions, bonus = spec.actions, config.bonus(spec, state)

    def policy_loss(params: Any) -> tuple[Array, Array]:
        old = policy.apply(params, data.obs)
        gain = data.advantage * actions.log_prob(old, data.action)
        gain = gain + bonus.of(actions.entropy(old))
        return -stats.weighted_mean(gain, data.weight), old

    (loss, old), grads = jax.value_and_grad(policy_loss, has_aux=True)(state.policy)
    return Gradient(grads, loss, old, bonus)


def surrogate(actions: Distribution, new: Array, old: Array, data: Data, bonus: Bonus) -> Array:
    """L(theta): importance-weighted policy gradient loss and entropy bonus, whose gradient at the
    old policy is that of `policy_gradient`."""
    log_ratio = actions.log_prob(new, data.action) - actions.log_prob(old, data.action)
    gain = data.advantage * jnp.exp(log_ratio) + bonus.of(actions.entropy(new))
    return -stats.weighted_mean(gain, data.weight)


def adam_step(
    config: AdamActorConfig, policy: Network, state: State, grads: Any
) -> tuple[Any, Any]:
    """One clipped Adam step of the policy: (new policy, new optimiser state)."""
    optimiser = policy.adam(config.learning_rate, config.max_grad_norm)
    return optim.apply(optimiser, grads, state.policy_opt, state.policy)


def value_step(
    config: ActorCriticConfig, value: Network, state: State, grads: Any
) -> tuple[Any, Any]:
    """One clipped Adam step of the value function: (new value, new optimiser state)."""
    optimiser = value.adam(config.value_learning_rate, config.max_grad_norm)
    return optim.apply(optimiser, grads, state.value_opt, state.value)


def finish(
    config: Config, spec: Spec, networks: Networks, state: State, data: Data, gradient: Gradient,
    rehearsal: Callable[[Any], Array] | None = None,
) -> tuple[State, Metrics]:  # fmt: skip
    """Complete an update after the policy step: value steps, then the entropy coefficient.

    `rehearsal(value)` is added to the value loss, for a critic that also learns from the past.
    """
    state, loss = value_steps(config, networks.value, state, data, rehearsal)
    new = networks.policy.apply(state.policy, data.obs)
    entropy = jnp.mean(spec.actions.entropy(new))
    tuner = state.entropy
    if gradient.bonus.ceiling is None:
        tuner = common.tune_entropy(config, spec, tuner, entropy)
    state = state._replace(entropy=tuner)
    metrics = {
        "policy_loss": gradient.loss,
        "grad_norm": optax.tree.norm(gradient.grads),
        "value_loss": loss,
        "entropy": entropy,
        "entropy_coef": jnp.asarray(config.bonus(spec, state).coefficient),
        "recent_kl": jnp.mean(spec.actions.kl(gradient.old, new)),
        "reward_scale": common.reward_scale(config, state.return_stats),
    }
    return state, metrics


def value_steps(
    config: Config, value: Network, state: State, data: Data,
    rehearsal: Callable[[Any], Array] | None = None,
) -> tuple[State, Array]:  # fmt: skip
    """The value steps on one batch, and the value loss before them."""

    def value_loss(params: Any) -> Array:
        loss = jnp.mean((value.apply(params, data.obs)[:, 0] - data.target) ** 2)
        return loss if rehearsal is None else loss + rehearsal(params)

    def step(state: State) -> tuple[State, Array]:
        loss, grads = jax.value_and_grad(value_loss)(state.value)
        params, value_opt = value_step(config, value, state, grads)
        return state._replace(value=params, value_opt=value_opt), loss

    state, loss = step(state)
    more = config.value_steps - 1
    if more:
        unroll = 1 if jax.default_backend() == "cpu" else UNROLL
        state = jax.lax.fori_loop(0, more, lambda _, state: step(state)[0], state, unroll=unroll)
    return state, loss

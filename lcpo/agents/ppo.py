"""PPO: Proximal Policy Optimization (Schulman et al. 2017), with an early stop.

    L(theta) = -E[ min(r A, clip(r, 1 - eps, 1 + eps) A) ] - c E[ H(pi(.|s)) ]       `clipped_loss`
    r        = pi(a|s) / pi_old(a|s)

The batch is shuffled once and cut into `minibatches`; Adam steps on each in turn, `passes` times
over. Before each step the exact E[ KL(pi_old || pi) ] on its minibatch is computed; once it exceeds
1.5 max_kl, the update makes no more steps.                                          `learn`

Advantages, value steps and the entropy coefficient are A2C's: the value function takes its
`value_steps` on the whole batch after the policy's. Deviations from the paper, all shared with the
code behind LCPO's: one order for all passes, no value clipping, one value step by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from lcpo.agents import on_policy
from lcpo.agents.on_policy import Bonus, Data, State
from lcpo.config import config, static, traced
from lcpo.core import optim, stats
from lcpo.core.trust_region import bounded_while
from lcpo.distributions import Distribution
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition

STOP_FACTOR = 1.5
"""Steps end once a minibatch's KL exceeds this many times `max_kl`."""


@config
class Config(on_policy.AdamConfig):
    """PPO. Defaults are those of the code behind LCPO's paper."""

    policy_max_grad_norm: float = traced(1.0, "gradient norm limit of policy steps", low=0.0)
    clip: float = traced(0.2, "the ratio counts up to 1 +- this (eps)", low=0.0)
    max_kl: float = traced(0.01, "no more steps once the KL exceeds 1.5 times this", low=0.0)
    passes: int = static(3, "times that each minibatch is used", low=1)
    minibatches: int = static(10, "number of minibatches", low=1)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Up to 30 policy steps, the value steps, one step of the entropy coefficient."""
    networks = on_policy.make_networks(config, spec)
    state, data = on_policy.estimate(config, networks, state, batch)
    order = jax.random.permutation(key, data.obs.shape[0])
    return learn(config, spec, state, data, order)


def learn(
    config: Config,
    spec: Spec,
    state: State,
    data: Data,
    order: Array,
    penalty: Callable[[Any, Array], Array] = lambda policy, index: jnp.float32(0.0),
) -> tuple[State, Metrics]:
    """One update with the batch in this order.

    `penalty(policy, index)` is added to the loss on minibatch number `index`.
    """
    networks = on_policy.make_networks(config, spec)
    policy = networks.policy
    gradient = on_policy.policy_gradient(config, spec, policy, state, data)
    shuffled, old_params = split(config, order, (data, gradient.old))
    optimiser = policy.adam(config.learning_rate, config.policy_max_grad_norm)
    num_steps = config.passes * config.minibatches

    def loss(params: Any, index: Array) -> tuple[Array, Array]:
        part, old = jax.tree.map(lambda x: x[index], (shuffled, old_params))
        new = policy.apply(params, part.obs)
        total = clipped_loss(spec.actions, new, old, part, gradient.bonus, config.clip)
        return total + penalty(params, index), jnp.mean(spec.actions.kl(old, new))

    def attempt(carry: tuple) -> tuple:
        i, _, params, opt_state = carry
        grads, kl = jax.grad(loss, has_aux=True)(params, i % config.minibatches)
        near = kl <= STOP_FACTOR * config.max_kl
        stepped = optim.apply(optimiser, grads, opt_state, params)
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(near, new, old), stepped, (params, opt_state)
        )
        return i + near.astype(jnp.int32), near, params, opt_state

    def unfinished(carry: tuple) -> Array:  # a refused step would be refused again
        return carry[1] & (carry[0] < num_steps)

    start = (jnp.int32(0), jnp.bool_(True), state.policy, state.policy_opt)
    num_made, _, params, policy_opt = bounded_while(unfinished, attempt, start, num_steps)
    state = state._replace(policy=params, policy_opt=policy_opt)
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient)
    return state, {**metrics, "policy_steps": num_made.astype(jnp.float32)}


def split(config: Config, order: Array, tree: Any) -> Any:
    """Leaves [B, ...] in this order, cut: [minibatches, B / minibatches, ...]."""
    return jax.tree.map(lambda x: x[order].reshape(config.minibatches, -1, *x.shape[1:]), tree)


def clipped_loss(
    actions: Distribution, new: Array, old: Array, data: Data, bonus: Bonus, clip: Any
) -> Array:
    """The surrogate without the gain of ratios beyond 1 +- clip, and entropy bonus."""
    log_ratio = actions.log_prob(new, data.action) - actions.log_prob(old, data.action)
    ratio = jnp.exp(log_ratio)
    near = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    gain = jnp.minimum(ratio * data.advantage, near * data.advantage)
    gain = gain + bonus.of(actions.entropy(new))
    return -stats.weighted_mean(gain, data.weight)


def check(config: Config, spec: Spec) -> None:
    """Minibatches are equal in size."""
    size = config.rollout_length * spec.num_worlds
    if size % config.minibatches:
        raise InputError(
            f"minibatches = {config.minibatches}: does not divide the {size} interactions of a "
            f"batch; choose another number, or another rollout_length ({config.rollout_length})"
        )


agent = Agent(
    "ppo", Config, on_policy.init, on_policy.act, update,
    check=check, probabilities=on_policy.probabilities,
)  # fmt: skip

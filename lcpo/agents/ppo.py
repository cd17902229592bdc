"""PPO: Proximal Policy Optimization (Schulman et al. 2017), with an early stop.

    L(theta) = -E[ min(r A, clip(r, 1 - eps, 1 + eps) A) ] - c E[ H(pi(.|s)) ]       `clipped_loss`
    r        = pi(a|s) / pi_old(a|s)

The batch is shuffled once and cut into `minibatches`; Adam steps on each in turn, `passes` times
over. Before each step the exact E[ KL(pi_old || pi) ] on its minibatch is looked at; once it
exceeds 1.5 max_kl, no more steps are made.                                          `learn`

Advantages, the one value step and the entropy coefficient are A2C's. Deviations from the paper, all
shared with the code behind LCPO's: one order for all passes, no value clipping, one value step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from lcpo.agents import a2c
from lcpo.config import config, static, traced
from lcpo.core import dists, optim, stats
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition

STOP_FACTOR = 1.5
"""Steps end once a minibatch's KL exceeds this many times `max_kl`."""

Penalty = Callable[[Any, Array], Array]
"""`penalty(policy, index)`: what is added to the loss on minibatch number `index`."""


@config
class Config(a2c.Config):
    """PPO. Defaults are those of the code behind LCPO's paper."""

    policy_max_grad_norm: float = traced(
        1.0, "gradient norm limit of a policy step; max_grad_norm is the value step's", low=0.0
    )
    clip: float = traced(0.2, "the ratio counts up to 1 +- this (eps)", low=0.0)
    max_kl: float = traced(0.01, "no more steps once the KL exceeds 1.5 times this", low=0.0)
    passes: int = static(3, "times that each minibatch is used", low=1)
    minibatches: int = static(10, "number of minibatches", low=1)


State = a2c.State


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Up to 30 policy steps, one value step, one step of the entropy coefficient."""
    state, data = a2c.estimate(config, state, batch)
    order = jax.random.permutation(key, data.obs.shape[0])
    return learn(config, spec, state, data, order)


def learn(
    config: Config,
    spec: Spec,
    state: State,
    data: a2c.Data,
    order: Array,
    penalty: Penalty = lambda policy, index: jnp.float32(0.0),
) -> tuple[State, Metrics]:
    """One update with the batch in this order."""
    gradient = a2c.policy_gradient(config, spec, state, data)
    shuffled, old_logits = split(config, order, (data, gradient.logits))
    coefficient = optim.entropy_coefficient(state.entropy, config.entropy_coef)
    optimiser = optim.adam(config.learning_rate, config.policy_max_grad_norm)
    num_steps = config.passes * config.minibatches

    def loss(policy: Any, index: Array) -> tuple[Array, Array]:
        part, old = jax.tree.map(lambda x: x[index], (shuffled, old_logits))
        new = a2c.logits(spec, policy, part.obs)
        total = clipped_loss(new, old, part, coefficient, config.clip) + penalty(policy, index)
        return total, jnp.mean(dists.kl(old, new))

    def attempt(carry: tuple) -> tuple:
        i, _, policy, opt_state = carry
        grads, kl = jax.grad(loss, has_aux=True)(policy, i % config.minibatches)
        near = kl <= STOP_FACTOR * config.max_kl
        stepped = optim.apply(optimiser, grads, opt_state, policy)
        policy, opt_state = jax.tree.map(
            lambda new, old: jnp.where(near, new, old), stepped, (policy, opt_state)
        )
        return i + near, near, policy, opt_state

    start = (jnp.int32(0), jnp.bool_(True), state.policy, state.policy_opt)
    if jax.default_backend() == "cpu":
        found = jax.lax.while_loop(lambda c: c[1] & (c[0] < num_steps), attempt, start)
    else:
        # Where runs are vmapped, a loop that may end for some of them gains nothing. A step that
        # was refused would be refused again: nothing changes from there on.
        found = jax.lax.fori_loop(0, num_steps, lambda _, c: attempt(c), start)
    num_made, _, policy, policy_opt = found
    state, metrics = a2c.finish(config, spec, state, data, gradient, policy, policy_opt)
    return state, {**metrics, "policy_steps": num_made.astype(jnp.float32)}


def split(config: Config, order: Array, tree: Any) -> Any:
    """Leaves [B, ...] in this order, cut: [minibatches, B / minibatches, ...]."""
    return jax.tree.map(lambda x: x[order].reshape(config.minibatches, -1, *x.shape[1:]), tree)


def clipped_loss(
    new_logits: Array, old_logits: Array, data: a2c.Data, coefficient: Array, clip: Array | float
) -> Array:
    """The surrogate without the gain of ratios beyond 1 +- clip, and entropy bonus."""
    log_ratio = dists.log_prob(new_logits, data.action) - dists.log_prob(old_logits, data.action)
    ratio = jnp.exp(log_ratio)
    near = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    gain = jnp.minimum(ratio * data.advantage, near * data.advantage)
    gain = gain + coefficient * dists.entropy(new_logits)
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
    "ppo", Config, a2c.init, a2c.act, update, check=check, probabilities=a2c.probabilities
)

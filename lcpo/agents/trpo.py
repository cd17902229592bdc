"""TRPO: Trust Region Policy Optimization (Schulman et al. 2015), single path.

    minimise   L(theta) = -E[ A pi(a|s) / pi_old(a|s) ] - c E[ H(pi(.|s)) ]          `surrogate`
    subject to E[ KL(pi_old || pi) ] <= max_kl

    F s ~ -grad L, F the Hessian of E[ KL ] plus damping; 1/2 s'F s = max_kl         `natural_step`
    theta <- theta + s / 2^i, the first where L really improves and the KL holds     `backtrack`

All expectations are over the batch; advantages, value function and entropy coefficient are A2C's.
One step of the value function per batch, as in the code behind the paper's tables. That code
accepts a KL of 1.5 max_kl (fault "kl-slack").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lcpo.agents import a2c
from lcpo.config import config, static, traced
from lcpo.core import dists, optim, stats, trust_region
from lcpo.types import Agent, Array, Metrics, Spec, Transition

KL_SLACK = "kl-slack"
"""Fault: the line search accepts a KL of up to 1.5 times the limit."""
SLACK = 1.5


@config
class Config(a2c.Config):
    """TRPO. Defaults are the paper's."""

    rollout_length: int = static(3200, "interactions per update", low=1)
    learning_rate: float = traced(4e-4, "without effect: max_kl sets the step's length", low=0.0)
    max_kl: float = traced(0.01, "KL limit of a step (delta)", low=0.0)
    damping: float = traced(0.1, "added to the Fisher matrix's diagonal", low=0.0)
    faults: tuple[str, ...] = static(
        (), "published faults to repeat", choices=(a2c.TRUNCATION_LEAKS, KL_SLACK)
    )


State = a2c.State
"""A2C's; the moments of the policy's Adam stay zero."""


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One natural-gradient step, one value step, one step of the entropy coefficient."""
    del key
    state, data = a2c.estimate(config, state, batch)
    gradient = a2c.policy_gradient(config, spec, state, data)
    step = natural_step(config, spec, state, data, gradient)
    limit = config.max_kl * (SLACK if KL_SLACK in config.faults else 1.0)
    policy, search = backtrack(config, spec, state, data, gradient, step, [limit])
    state, metrics = a2c.finish(config, spec, state, data, gradient, policy, state.policy_opt)
    return state, {**metrics, "step_fraction": search.fraction}


def natural_step(
    config: Config, spec: Spec, state: State, data: a2c.Data, gradient: a2c.Gradient
) -> Array:
    """The full step: downhill in the metric of the batch's Fisher matrix, 1/2 s'F s = max_kl."""
    fisher, _ = trust_region.fisher_product(
        lambda policy: a2c.logits(spec, policy, data.obs), state.policy, config.damping
    )
    descent = ravel_pytree(gradient.grads)[0]
    return trust_region.constrained_step(fisher, descent, config.max_kl)


def backtrack(
    config: a2c.Config,
    spec: Spec,
    state: a2c.State,
    data: a2c.Data,
    gradient: a2c.Gradient,
    step: Array,
    limits: Sequence[Array | float],
    *elsewhere: tuple[Array, Array],
) -> tuple[Any, trust_region.LineSearch]:
    """Halve `step` until the surrogate improves and the mean KLs are within their limits.

    The first limit is for the KL on the batch. The others are for that on further states, given
    as (obs, old logits). Returns the new policy, and the outcome.
    """
    old, unravel = ravel_pytree(state.policy)
    coefficient = optim.entropy_coefficient(state.entropy, config.entropy_coef)
    obs = jnp.concatenate([data.obs, *(obs for obs, _ in elsewhere)])
    old_logits = jnp.concatenate([gradient.logits, *(logits for _, logits in elsewhere)])
    num_batch = data.obs.shape[0]
    ends = np.cumsum([num_batch, *(obs.shape[0] for obs, _ in elsewhere)])[:-1]

    def evaluate(flat: Array) -> tuple[Array, Array]:
        new_logits = a2c.logits(spec, unravel(flat), obs)
        kls = jnp.split(dists.kl(old_logits, new_logits), ends)
        loss = surrogate(new_logits[:num_batch], gradient.logits, data, coefficient)
        return loss, jnp.stack([jnp.mean(kl) for kl in kls])

    loss = surrogate(gradient.logits, gradient.logits, data, coefficient)
    descent = ravel_pytree(gradient.grads)[0]
    search = trust_region.line_search(evaluate, old, loss, step, descent, jnp.stack([*limits]))
    return unravel(search.params), search


def surrogate(new_logits: Array, old_logits: Array, data: a2c.Data, coefficient: Array) -> Array:
    """L(theta): importance-weighted policy gradient loss and entropy bonus.

    At the old policy its gradient is A2C's.
    """
    log_ratio = dists.log_prob(new_logits, data.action) - dists.log_prob(old_logits, data.action)
    gain = data.advantage * jnp.exp(log_ratio) + coefficient * dists.entropy(new_logits)
    return -stats.weighted_mean(gain, data.weight)


agent = Agent("trpo", Config, a2c.init, a2c.act, update, probabilities=a2c.probabilities)

"""TRPO: Trust Region Policy Optimization (Schulman et al. 2015), single path.

    minimise   L(theta) = -E[ A pi(a|s) / pi_old(a|s) ] - c E[ H(pi(.|s)) ]          `surrogate`
    subject to E[ KL(pi_old || pi) ] <= max_kl

    F s ~ -grad L, F the Hessian of E[ KL ] plus damping; 1/2 s'F s = max_kl         `natural_step`
    theta <- theta + s / 2^i, the first where L really improves and the KL holds     `backtrack`

All expectations are over the batch; advantages, value function and entropy coefficient are A2C's.
One step of the value function per batch by default, as in the code behind the paper's tables. That
code accepts a KL of 1.5 max_kl (fault "kl-slack").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lcpo.agents import common, on_policy
from lcpo.agents.on_policy import Data, Gradient, State
from lcpo.config import config, static, traced, with_default
from lcpo.core import dists, stats, trust_region
from lcpo.core.nets import Network
from lcpo.types import Agent, Array, Metrics, Spec, Transition

KL_SLACK = "kl-slack"
"""Fault: the line search accepts a KL of up to 1.5 times the limit."""
SLACK = 1.5


@config
class Config(on_policy.Config):
    """TRPO. Defaults are the paper's. No learning rate: `max_kl` sets the length of a step."""

    rollout_length: int = with_default(on_policy.Config, "rollout_length", 3200)
    max_kl: float = traced(0.01, "KL limit of a step (delta)", low=0.0)
    damping: float = traced(0.1, "added to the Fisher matrix's diagonal", low=0.0)
    faults: tuple[str, ...] = static(
        (), "published faults to repeat", choices=(on_policy.TRUNCATION_LEAKS, KL_SLACK)
    )


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One natural-gradient step, the value steps, one step of the entropy coefficient."""
    del key
    networks = on_policy.make_networks(config, spec)
    state, data = on_policy.estimate(config, networks, state, batch)
    gradient = on_policy.policy_gradient(config, networks.policy, state, data)
    step = natural_step(config, networks.policy, state, data, gradient)
    limit = config.max_kl * (SLACK if KL_SLACK in config.faults else 1.0)
    limits = [Limit(data.obs, gradient.logits, limit)]
    policy, search = backtrack(config, networks.policy, state, data, gradient, step, limits)
    state = state._replace(policy=policy)  # Adam's moments of the policy stay zero
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient)
    return state, {**metrics, "step_fraction": search.fraction}


def natural_step(
    config: Config, policy: Network, state: State, data: Data, gradient: Gradient
) -> Array:
    """The full step: downhill in the metric of the batch's Fisher matrix, 1/2 s'F s = max_kl."""
    fisher, _ = trust_region.fisher_product(
        lambda params: policy.apply(params, data.obs), state.policy, config.damping
    )
    descent = ravel_pytree(gradient.grads)[0]
    return trust_region.constrained_step(fisher, descent, config.max_kl)


class Limit(NamedTuple):
    """The mean KL(old || new) on `obs` must not exceed `max_kl`."""

    obs: Array  # [M, D]
    old_logits: Array  # [M, A, K]
    max_kl: Array | float


def backtrack(
    config: on_policy.Config,
    policy: Network,
    state: State,
    data: Data,
    gradient: Gradient,
    step: Array,
    limits: Sequence[Limit],
) -> tuple[Any, trust_region.LineSearch]:
    """Halve `step` until the surrogate improves and all limits hold, the first on the batch.

    Returns the new policy, and the outcome.
    """
    old, unravel = ravel_pytree(state.policy)
    coefficient = common.entropy_coefficient(config, state.entropy)
    obs = jnp.concatenate([limit.obs for limit in limits])
    old_logits = jnp.concatenate([limit.old_logits for limit in limits])
    num_batch = data.obs.shape[0]
    ends = np.cumsum([limit.obs.shape[0] for limit in limits])[:-1]

    def evaluate(flat: Array) -> tuple[Array, Array]:
        new_logits = policy.apply(unravel(flat), obs)
        kls = jnp.split(dists.kl(old_logits, new_logits), ends)
        loss = surrogate(new_logits[:num_batch], gradient.logits, data, coefficient)
        return loss, jnp.stack([jnp.mean(kl) for kl in kls])

    loss = surrogate(gradient.logits, gradient.logits, data, coefficient)
    descent = ravel_pytree(gradient.grads)[0]
    max_kls = jnp.stack([limit.max_kl for limit in limits])
    search = trust_region.line_search(evaluate, old, loss, step, descent, max_kls)
    return unravel(search.params), search


def surrogate(new_logits: Array, old_logits: Array, data: Data, coefficient: Array) -> Array:
    """L(theta): importance-weighted policy gradient loss and entropy bonus.

    At the old policy its gradient is A2C's.
    """
    log_ratio = dists.log_prob(new_logits, data.action) - dists.log_prob(old_logits, data.action)
    gain = data.advantage * jnp.exp(log_ratio) + coefficient * dists.entropy(new_logits)
    return -stats.weighted_mean(gain, data.weight)


agent = Agent(
    "trpo", Config, on_policy.init, on_policy.act, update, probabilities=on_policy.probabilities
)

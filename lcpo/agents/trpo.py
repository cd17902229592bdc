"""TRPO: Trust Region Policy Optimization (Schulman et al. 2015), single path.

    minimise   L(theta) = -E[ A pi(a|s) / pi_old(a|s) ] - c E[ H(pi(.|s)) ]  `on_policy.surrogate`
    subject to E[ KL(pi_old || pi) ] <= max_kl

    F s ~ -grad L, F the Hessian of E[ KL ] plus damping; 1/2 s'F s = max_kl
    theta <- theta + s / 2^i, the first where L really improves and the KL holds     `update`

All expectations are over the batch; advantages, value function and entropy coefficient are A2C's.
One step of the value function per batch by default, as in the code behind the paper's tables. That
code accepts a KL of 1.5 max_kl (fault "kl-slack").
"""

from __future__ import annotations

from jax.flatten_util import ravel_pytree

from lcpo.agents import on_policy
from lcpo.agents.on_policy import State
from lcpo.config import config, faults, traced, with_default
from lcpo.core import trust_region
from lcpo.core.trust_region import Limit
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
    faults: tuple[str, ...] = faults(on_policy.TRUNCATION_LEAKS, KL_SLACK)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One natural-gradient step, the value steps, one step of the entropy coefficient."""
    del key
    networks = on_policy.make_networks(config, spec)
    state, data = on_policy.estimate(config, networks, state, batch)
    gradient = on_policy.policy_gradient(config, spec, networks.policy, state, data)

    def loss(new: Array) -> Array:
        return on_policy.surrogate(spec.actions, new, gradient.old, data, gradient.bonus)

    old = spec.actions, networks.policy, state.policy
    fisher, _ = trust_region.fisher_product(*old, data.obs, config.damping)
    descent = ravel_pytree(gradient.grads)[0]
    step = trust_region.constrained_step(fisher, descent, config.max_kl)
    limit = config.max_kl * (SLACK if KL_SLACK in config.faults else 1.0)
    limits = [Limit(data.obs, gradient.old, limit)]
    policy, search = trust_region.backtrack(*old, descent, step, loss, limits)
    state = state._replace(policy=policy)  # Adam's moments of the policy stay zero
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient)
    return state, {**metrics, "step_fraction": search.fraction}


agent = Agent(
    "trpo", Config, on_policy.init, on_policy.act, update, probabilities=on_policy.probabilities
)

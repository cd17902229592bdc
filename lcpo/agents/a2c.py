"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one policy step per batch.

    A        = GAE(gamma, lambda)                                `on_policy.estimate`
    L(theta) = -E[ A log pi(a|s) ] - c E[ H(pi(.|s)) ]           `on_policy.policy_gradient`
    theta   <- one clipped step of Adam                          `on_policy.adam_step`
    L(phi)   = E[ (V(s) - R)^2 ], R the bootstrapped return      `on_policy.finish`

With `entropy_target` > 0 the coefficient c is tuned so that the entropy approaches that share of
its maximum, as LCPO does; the paper's A2C baseline has c = 0. Generalised advantages and scaled
rewards are not in the A2C paper.
"""

from __future__ import annotations

from lcpo.agents import on_policy
from lcpo.agents.on_policy import State
from lcpo.config import config
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(on_policy.AdamConfig):
    """A2C. Defaults are the paper's."""


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One policy step, the value steps, one step of the entropy coefficient."""
    del key
    networks = on_policy.make_networks(config, spec)
    state, data = on_policy.estimate(config, networks, state, batch)
    gradient = on_policy.policy_gradient(config, spec, networks.policy, state, data)
    policy, policy_opt = on_policy.adam_step(config, networks.policy, state, gradient.grads)
    state = state._replace(policy=policy, policy_opt=policy_opt)
    return on_policy.finish(config, spec, networks, state, data, gradient)


agent = Agent(
    "a2c", Config, on_policy.init, on_policy.act, update, probabilities=on_policy.probabilities
)

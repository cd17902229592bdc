"""REINFORCE with a learned baseline (Williams 1992): an example of your own agent.

    L = -E[ (R - V(s)) log pi(a|s) ] + E[ (R - V(s))^2 ],   R the discounted return

From this folder: lcpo train --agent reinforce:agent --trace revisit --steps 400000
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.config import config, static, traced
from lcpo.core import nets, optim, returns, stats
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config:
    """REINFORCE."""

    rollout_length: int = static(200, "interactions per update", low=1)
    hidden: tuple[int, ...] = static((64, 64), "hidden layer sizes", low=1)
    learning_rate: float = traced(1e-3, "learning rate (Adam)", low=0.0)
    gamma: float = traced(0.99, "discount per unit of time", low=0.0, high=1.0)
    reward_scale: float = traced(0.01, "rewards are multiplied by this", low=0.0)


class State(NamedTuple):
    """Arrays only, of fixed shapes."""

    params: tuple[Any, Any]  # policy, value
    opt: Any


def networks(config: Config, spec: Spec) -> tuple[nets.Network, nets.Network]:
    """Logits for every action, [..., A, K], and a value, [..., 1]."""
    return nets.for_actions(spec, config.hidden), nets.for_spec(spec, config.hidden, num_outputs=1)


def adam(config: Config) -> optax.GradientTransformation:
    """Built where it is used: its learning rate is traced, its state does not depend on it."""
    return optim.adam(config.learning_rate, eps=1e-8, weight_decay=0.0)


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks."""
    policy_key, value_key = jax.random.split(key)
    policy, value = networks(config, spec)
    params = policy.init(policy_key), value.init(value_key)
    return State(params, adam(config).init(params))


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, Any]:
    """Sample from the policy: obs [N, D] -> actions [N, A], and nothing to remember."""
    policy, _ = networks(config, spec)
    return spec.actions.sample(policy.apply(state.params[0], obs), key), ()


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K]; optional, for distances to the right action
    (docs/probes.md)."""
    policy, _ = networks(config, spec)
    return spec.actions.summary(policy.apply(state.params[0], obs))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One Adam step on the batch, leaves [T, N, ...]."""
    del key
    policy, value = networks(config, spec)
    target = returns.returns(
        config.reward_scale * batch.reward,
        value.apply(state.params[1], batch.next_obs)[..., 0],
        returns.discounts(config.gamma, batch.elapsed),
        batch.terminated.astype(jnp.float32),
        batch.truncated.astype(jnp.float32),
    )

    def loss(params: tuple[Any, Any]) -> tuple[Array, Metrics]:
        logits = policy.apply(params[0], batch.obs)
        advantage = target - value.apply(params[1], batch.obs)[..., 0]
        log_prob = spec.actions.log_prob(logits, batch.action)
        gain = jax.lax.stop_gradient(advantage) * log_prob
        policy_loss = -stats.weighted_mean(gain, batch.weight)
        value_loss = jnp.mean(advantage**2)
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": jnp.mean(spec.actions.entropy(logits)),
        }
        return policy_loss + value_loss, metrics

    grads, metrics = jax.grad(loss, has_aux=True)(state.params)
    return State(*optim.apply(adam(config), grads, state.opt, state.params)), metrics


agent = Agent("reinforce", Config, init, act, update, probabilities=probabilities)

"""CLEAR: continual learning with experience and replay (Rolnick et al. 2019).

An actor-critic that learns from two blocks at a time: the newest rollout, and as many consecutive
steps from the past. mu and V_mu are the policy and the value function at the time of a step, and
are stored with it.

    rho      = min(max_rho, pi(a|s) / mu(a|s)),   c = min(max_c, pi(a|s) / mu(a|s))
    v, A     = V-trace targets and advantages of each block by itself        `core.returns.vtrace`
    L(phi)   = E[ (V(s) - v)^2 ] + value_clone_coef E_past[ (V(s) - V_mu(s))^2 ]      `value_loss`
    L(theta) = -E[ A log pi(a|s) ] - c_H E[ H(pi(.|s)) ]
               + policy_clone_coef E_past[ KL(mu(.|s) || pi(.|s)) ]                  `policy_loss`

E is over both blocks, E_past over the one from the past. One Adam step on L(phi), then one on
L(theta), `updates_per_rollout` times, each with another past block; v and A come from V before its
step. Rewards are scaled as A2C's are. The published code has four faults: see the constants below.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import common, off_policy, on_policy
from lcpo.agents.on_policy import TRUNCATION_LEAKS, Networks
from lcpo.config import config, faults, static, traced, with_default
from lcpo.core import replay, returns, stats
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition

TERMINATION_LEAKS = "termination-leaks"
"""Fault: V-trace continues from a terminated step into the next episode, and bootstraps there."""
BLOCKS_LEAK = "blocks-leak"
"""Fault: V-trace continues from the end of the newest block into the past one."""
CLONING_REPELS = "cloning-repels"
"""Fault: in place of the KL stands E[ mu(a|s) log pi(a|s) ] over both blocks, whose descent makes
the actions that were taken less likely."""
FAULTS = (TRUNCATION_LEAKS, TERMINATION_LEAKS, BLOCKS_LEAK, CLONING_REPELS)


@config
class Config(on_policy.AdamActorConfig):
    """CLEAR. Defaults are the paper's."""

    entropy_coef: float = with_default(common.EntropyConfig, "entropy_coef", 5e-3)
    updates_per_rollout: int = static(1, "steps per update, each with a new past block", low=1)
    buffer_size: int | None = with_default(off_policy.Config, "buffer_size", None)
    max_rho: float = traced(1.0, "largest ratio that weighs a step's own error", low=0.0)
    max_c: float = traced(1.0, "largest ratio that passes on the errors of later steps", low=0.0)
    policy_clone_coef: float = traced(1e-3, "weight of the KL to the past policy", low=0.0)
    value_clone_coef: float = traced(1e-2, "weight of the distance to the past value", low=0.0)
    faults: tuple[str, ...] = faults(*FAULTS)


class State(NamedTuple):
    """A2C's networks, optimisers and statistics, and a replay of all experience."""

    learner: on_policy.State
    memory: replay.Replay


class TwoBlocks(NamedTuple):
    """What the losses read, of both blocks; B = 2 * T * N."""

    obs: Array  # [B, D]
    action: Array  # [B, A]
    advantage: Array  # [B]
    target: Array  # [B], of the value function
    weight: Array  # [B]
    mu: Array  # [B, A, P], the distribution that acted
    value_mu: Array  # [B]
    is_past: Array  # [B], 1 in the block from the past, else 0


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks, and an empty replay that keeps mu and V_mu with every step."""
    num_extra = spec.actions.num_outputs + 1
    memory = replay.replay_init(spec, config.buffer_size, config.rollout_length, num_extra)
    return State(on_policy.init(config, spec, key), memory)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` times a value step and a policy step."""
    networks = on_policy.make_networks(config, spec)
    learner = on_policy.follow_returns(config, state.learner, batch)
    batch = batch._replace(extra=behaviour(spec, networks, learner, batch.obs))
    memory = replay.replay_add(state.memory, spec, batch)
    sizes = config.updates_per_rollout, config.rollout_length
    past = replay.replay_blocks(memory, spec, *sizes, key)
    learner, metrics = jax.lax.scan(
        lambda learner, block: step(config, spec, learner, batch, block), learner, past
    )
    return State(learner, memory), {name: jnp.mean(values) for name, values in metrics.items()}


def behaviour(spec: Spec, networks: Networks, learner: on_policy.State, obs: Array) -> Array:
    """The parameters of mu and V_mu, the networks before the update: [..., A * P + 1]."""
    mu = spec.actions.normalized(networks.policy.apply(learner.policy, obs))
    value = networks.value.apply(learner.value, obs)
    return jnp.concatenate([mu.reshape(*value.shape[:-1], -1), value], axis=-1)


def step(
    config: Config, spec: Spec, learner: on_policy.State, fresh: Transition, past: Transition
) -> tuple[on_policy.State, Metrics]:
    """One value step and one policy step on two blocks, leaves [T, N, ...]."""
    networks = on_policy.make_networks(config, spec)
    data, ratio = estimate(config, spec, learner, fresh, past)
    v_loss, v_grads = jax.value_and_grad(value_loss)(learner.value, config, networks, data)
    value, value_opt = on_policy.value_step(config, networks.value, learner, v_grads)

    coefficient = learner.entropy.coefficient(config.entropy_coef)
    (loss, clone), grads = jax.value_and_grad(policy_loss, has_aux=True)(
        learner.policy, config, spec, networks, data, coefficient
    )
    policy, policy_opt = on_policy.adam_step(config, networks.policy, learner, grads)
    entropy = jnp.mean(spec.actions.entropy(networks.policy.apply(policy, data.obs)))
    tuner = common.tune_entropy(config, spec, learner.entropy, entropy)
    metrics = {
        "policy_loss": loss,
        "grad_norm": optax.tree.norm(grads),
        "value_loss": v_loss,
        "entropy": entropy,
        "entropy_coef": tuner.coefficient(config.entropy_coef),
        "clone_loss": clone,
        "past_ratio": stats.weighted_mean(jnp.minimum(ratio, config.max_rho), data.is_past),
        "reward_scale": common.reward_scale(config, learner.return_stats),
    }
    new = {"policy": policy, "policy_opt": policy_opt, "value": value, "value_opt": value_opt}
    return learner._replace(**new, entropy=tuner), metrics


def estimate(
    config: Config, spec: Spec, learner: on_policy.State, fresh: Transition, past: Transition
) -> tuple[TwoBlocks, Array]:
    """Targets and advantages of the steps of both blocks [T, N, ...], and pi / mu, [B]."""
    networks = on_policy.make_networks(config, spec)
    # Side by side, as worlds of their own; with the fault, one after the other.
    axis = 0 if BLOCKS_LEAK in config.faults else 1
    fresh = fresh._replace(readings=())  # a replay has none
    both: Transition = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis), fresh, past)
    is_past = jnp.concatenate([jnp.zeros_like(fresh.reward), jnp.ones_like(past.reward)], axis)
    mu = both.extra[..., :-1].reshape(*both.reward.shape, spec.action_size, -1)
    pi, log_prob = networks.policy.apply(learner.policy, both.obs), spec.actions.log_prob
    ratio = jnp.exp(log_prob(pi, both.action) - log_prob(mu, both.action))
    if spec.guard is not None:  # which plays the same action whatever mu and pi are
        ratio = jnp.where(both.weight > 0.0, ratio, 1.0)
    ends = {TERMINATION_LEAKS: both.terminated, TRUNCATION_LEAKS: both.truncated}
    terminated, truncated = (
        jnp.zeros_like(both.reward) if fault in config.faults else flag.astype(jnp.float32)
        for fault, flag in ends.items()
    )
    values = networks.value.apply(learner.value, jnp.stack([both.obs, both.next_obs]))[..., 0]
    reward = both.reward * common.reward_scale(config, learner.return_stats)
    discount = returns.discounts(config.gamma, both.elapsed)
    steps = (reward, values[0], values[1], discount, terminated, truncated)
    target, advantage = returns.vtrace(*steps, ratio, config.max_rho, config.max_c)
    value_mu = both.extra[..., -1]
    data = TwoBlocks(both.obs, both.action, advantage, target, both.weight, mu, value_mu, is_past)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (data, ratio))


def value_loss(params: Any, config: Config, networks: Networks, data: TwoBlocks) -> Array:
    """L(phi)."""
    value = networks.value.apply(params, data.obs)[:, 0]
    moved = stats.weighted_mean((value - data.value_mu) ** 2, data.is_past)
    return jnp.mean((value - data.target) ** 2) + config.value_clone_coef * moved


def policy_loss(
    params: Any, config: Config, spec: Spec, networks: Networks, data: TwoBlocks, coefficient: Array
) -> tuple[Array, Array]:
    """L(theta), and the part of it that clones the past policy, without its weight."""
    actions, pi = spec.actions, networks.policy.apply(params, data.obs)
    log_p = actions.log_prob(pi, data.action)
    gain = data.advantage * log_p + coefficient * actions.entropy(pi)
    if CLONING_REPELS in config.faults:
        clone = jnp.mean(jnp.exp(actions.log_prob(data.mu, data.action)) * log_p)
    else:
        clone = stats.weighted_mean(actions.kl(data.mu, pi), data.is_past * data.weight)
    loss = -stats.weighted_mean(gain, data.weight) + config.policy_clone_coef * clone
    return loss, clone


def check(config: Config, spec: Spec) -> None:
    """A block of the past must fit into the replay."""
    steps = config.rollout_length * spec.num_worlds
    if config.buffer_size is not None and config.buffer_size < steps:
        raise InputError(
            f"clear: buffer_size = {config.buffer_size:,}: needs at least one rollout, {steps:,} "
            "steps (rollout_length times the number of worlds)"
        )


agent = Agent(
    "clear", Config, init, on_policy.act, update, check=check,
    probabilities=on_policy.probabilities,
)  # fmt: skip

"""LCPO-P: LCPO by a penalty, on PPO (Hamadanian et al., ICLR 2025).

    L(theta) = PPO's clipped loss on B_r + kappa E_{S_c}[ H(pi_old, pi) ] / A             `learn`

H is the cross entropy, summed over the A action dimensions; S_c are LCPO's anchors: as many past
states with an OOD context as the batch has (`anchors.recall`). Minibatch i of the batch goes with
minibatch i of the anchors. Where too little of the past is OOD, S_c is empty and the step is PPO's.

What is computed is kappa E[ KL(pi_old || pi) ] / A, which differs from the above by a constant.
The published code compares contexts with those of the last 1000 states (fault "long-window").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import anchors as past
from lcpo.agents import on_policy, ppo
from lcpo.agents.anchors import ADD_BEFORE_SAMPLE, AnchorConfig, Anchors
from lcpo.agents.on_policy import Data
from lcpo.config import config, faults, traced
from lcpo.core import random
from lcpo.types import Agent, Array, Metrics, Spec, Transition

LONG_WINDOW = "long-window"
"""Fault: a context is OOD with respect to the last 1000 states, not to the recent batch alone."""
WINDOW = 1000


@config
class Config(AnchorConfig, ppo.Config):
    """LCPO-P. Defaults are the paper's."""

    kappa: float = traced(10.0, "weight of the anchors' loss (paper: kappa)", low=0.0)
    faults: tuple[str, ...] = faults(on_policy.TRUNCATION_LEAKS, ADD_BEFORE_SAMPLE, LONG_WINDOW)


class State(NamedTuple):
    """LCPO's state and, for the fault "long-window", the last observations."""

    learner: on_policy.State
    memory: past.AnchorMemory  # with B_a
    window: Array  # [1000 or 0, D], the newest last; zeros where none has been seen yet


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh learner and an empty reservoir."""
    window = jnp.zeros((WINDOW if LONG_WINDOW in config.faults else 0, spec.obs_size))
    return State(on_policy.init(config, spec, key), past.memory_init(config, spec), window)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Find anchors, then PPO with their loss added."""
    order_key, memory_key = jax.random.split(key)
    add_key, sample_key = random.scan_keys(memory_key, (2,))
    obs, keep = past.offered(spec, batch)
    recent, memory, window = look_back(config, state, obs)
    if ADD_BEFORE_SAMPLE in config.faults:
        memory = past.remember(memory, obs, keep, add_key)
    anchors = past.recall(config, spec, memory, recent, len(obs), sample_key)
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, batch)
    order = jax.random.permutation(order_key, obs.shape[0])
    learner, metrics = learn(config, spec, learner, data, order, anchors)
    if ADD_BEFORE_SAMPLE not in config.faults:
        memory = past.remember(memory, obs, keep, add_key, anchors)
    metrics["ood_share"] = jnp.asarray(anchors.share)
    return State(learner, memory, window), metrics


def look_back(config: Config, state: State, obs: Array) -> tuple[Array, past.AnchorMemory, Array]:
    """What counts as recent; and the memory and the window to keep."""
    recent, memory = past.look_back(state.memory, obs)
    if LONG_WINDOW not in config.faults:
        return recent, memory, state.window
    window = jnp.concatenate([state.window, obs])[-WINDOW:]
    num_seen = jnp.minimum(state.memory.past.seen + obs.shape[0], WINDOW)
    # In the first updates fewer exist: they fill the window, each about as often as the others.
    newest = WINDOW - num_seen + jnp.arange(WINDOW) * num_seen // WINDOW
    return window[newest], memory, window


def learn(
    config: Config, spec: Spec, state: on_policy.State, data: Data, order: Array, anchors: Anchors
) -> tuple[on_policy.State, Metrics]:
    """One update with the batch, and the anchors, in this order."""
    policy = on_policy.make_networks(config, spec).policy
    old_params = policy.apply(state.policy, anchors.obs)
    shuffled = ppo.split(config, order, (anchors.obs, old_params))

    def penalty(params: Any, index: Array) -> Array:
        def on_anchors() -> Array:
            obs, old = jax.tree.map(lambda x: x[index], shuffled)
            kl = spec.actions.kl(old, policy.apply(params, obs))
            return config.kappa * jnp.mean(kl) / spec.action_size

        return jax.lax.cond(anchors.found, on_anchors, lambda: jnp.float32(0.0))

    state, metrics = ppo.learn(config, spec, state, data, order, penalty)
    kl = jnp.mean(spec.actions.kl(old_params, policy.apply(state.policy, anchors.obs)))
    active = anchors.found.astype(jnp.float32)
    return state, {**metrics, "anchor_kl": active * kl, "constraint_active": active}


def check(config: Config, spec: Spec) -> None:
    """What LCPO and PPO ask for."""
    past.check(config, spec)
    ppo.check(config, spec)


agent = Agent(
    "lcpo-p", Config, init, on_policy.act, update, check=check,
    probabilities=on_policy.probabilities,
)  # fmt: skip

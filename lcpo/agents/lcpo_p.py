"""LCPO-P: LCPO by a penalty, on PPO (Hamadanian et al., ICLR 2025).

    L(theta) = PPO's clipped loss on B_r + kappa E_{S_c}[ H(pi_old, pi) ] / A             `learn`

H is the cross entropy, summed over the A action dimensions; S_c are LCPO's anchors: as many past
states with an OOD context as the batch has (`lcpo.recall`). Minibatch i of the batch goes with
minibatch i of the anchors. Where too little of the past is OOD, S_c is empty and the step is PPO's.

What is computed is kappa E[ KL(pi_old || pi) ] / A, which differs from the above by a constant.
The published code compares contexts with those of the last 1000 states (fault "long-window").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import a2c, lcpo, ppo
from lcpo.config import config, static, traced
from lcpo.core import buffers, dists
from lcpo.types import Agent, Array, Metrics, Spec, Transition

LONG_WINDOW = "long-window"
"""Fault: a context is OOD with respect to the last 1000 states, not to the recent batch alone."""
WINDOW = 1000


@config
class Config(lcpo.AnchorConfig, ppo.Config):
    """LCPO-P. Defaults are the paper's."""

    kappa: float = traced(10.0, "weight of the anchors' loss (paper: kappa)", low=0.0)
    faults: tuple[str, ...] = static(
        (), "published faults to repeat",
        choices=(a2c.TRUNCATION_LEAKS, lcpo.ADD_BEFORE_SAMPLE, LONG_WINDOW),
    )  # fmt: skip


class State(NamedTuple):
    """LCPO's state and, for the fault "long-window", the last observations."""

    learner: a2c.State
    memory: buffers.Reservoir  # B_a, observations
    window: Array  # [1000 or 0, D], the newest last; zeros where none has been seen yet


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh learner and an empty reservoir."""
    length = WINDOW if LONG_WINDOW in config.faults else 0
    return State(*lcpo.init(config, spec, key), jnp.zeros((length, spec.obs_size)))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Find anchors, then PPO with their loss added."""
    order_key, memory_key = jax.random.split(key)
    obs = batch.obs.reshape(-1, spec.obs_size)
    recent, window = look_back(config, state, obs)
    anchors, found, memory = lcpo.recall(config, spec, state.memory, obs, recent, memory_key)
    learner, data = a2c.estimate(config, state.learner, batch)
    order = jax.random.permutation(order_key, obs.shape[0])
    learner, metrics = learn(config, spec, learner, data, order, anchors, found)
    return State(learner, memory, window), metrics


def look_back(config: Config, state: State, obs: Array) -> tuple[Array, Array]:
    """B_r, whose contexts count as recent; and the window to keep."""
    if LONG_WINDOW not in config.faults:
        return obs, state.window
    window = jnp.concatenate([state.window, obs])[-WINDOW:]
    num_seen = jnp.minimum(state.memory.seen + obs.shape[0], WINDOW)
    # In the first updates fewer exist: they fill the window, each about as often as the others.
    newest = WINDOW - num_seen + jnp.arange(WINDOW) * num_seen // WINDOW
    return window[newest], window


def learn(
    config: Config,
    spec: Spec,
    state: a2c.State,
    data: a2c.Data,
    order: Array,
    anchors: Array,
    found: Array,
) -> tuple[a2c.State, Metrics]:
    """One update with the batch, and the anchors, in this order."""
    old_logits = a2c.logits(spec, state.policy, anchors)
    shuffled = ppo.split(config, order, (anchors, old_logits))

    def penalty(policy: Any, index: Array) -> Array:
        def anchored() -> Array:
            obs, old = jax.tree.map(lambda x: x[index], shuffled)
            kl = dists.kl(old, a2c.logits(spec, policy, obs))
            return config.kappa * jnp.mean(kl) / spec.action_size

        return jax.lax.cond(found, anchored, lambda: jnp.float32(0.0))

    state, metrics = ppo.learn(config, spec, state, data, order, penalty)
    kl = jnp.mean(dists.kl(old_logits, a2c.logits(spec, state.policy, anchors)))
    active = found.astype(jnp.float32)
    return state, {**metrics, "anchor_kl": active * kl, "constraint_active": active}


def check(config: Config, spec: Spec) -> None:
    """What LCPO and PPO ask for."""
    lcpo.check(config, spec)
    ppo.check(config, spec)


agent = Agent(
    "lcpo-p", Config, init, lcpo.act, update, check=check, probabilities=lcpo.probabilities
)

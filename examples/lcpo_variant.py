"""LCPO with momentum and a KL limit that shrinks: `lcpo train --agent lcpo_variant:agent`."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import anchors, lcpo, on_policy
from lcpo.config import config, traced
from lcpo.core import random
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(lcpo.Config):
    """LCPO's fields and two more."""

    momentum: float = traced(0.5, "share of earlier gradients in a step", low=0.0, high=1.0)
    shrink_after: float = traced(100.0, "updates after which c_anchor has halved", low=1.0)


class State(NamedTuple):
    """LCPO's, and what momentum and limit need."""

    learner: on_policy.State
    memory: anchors.AnchorMemory
    average: Any  # of the gradients
    updates: Array


def init(config: Config, spec: Spec, key: Array) -> State:
    learner, memory = lcpo.init(config, spec, key)
    return State(learner, memory, jax.tree.map(jnp.zeros_like, learner.policy), jnp.float32(0.0))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    add_key, sample_key = random.scan_keys(key, (2,))
    obs, keep = anchors.offered(spec, batch)
    recent, memory = anchors.look_back(state.memory, obs)
    found = anchors.recall(config, spec, memory, recent, len(obs), sample_key)  # line 4
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, batch)
    gradient = on_policy.policy_gradient(config, spec, networks.policy, learner, data)  # line 5
    share, age = config.momentum, state.updates / config.shrink_after
    average = jax.tree.map(lambda m, g: share * m + (1 - share) * g, state.average, gradient.grads)
    limited = dataclasses.replace(config, c_anchor=config.c_anchor / (1.0 + age))
    learner, outcome = lcpo.policy_step(  # lines 6 to 15
        limited, spec, learner, data, found, gradient._replace(grads=average)
    )
    learner, metrics = on_policy.finish(config, spec, networks, learner, data, gradient)
    memory = anchors.remember(memory, obs, keep, add_key, found)  # line 16
    return State(learner, memory, average, state.updates + 1.0), {**metrics, **outcome}


agent = Agent("lcpo-variant", Config, init, on_policy.learner_act, update, check=anchors.check)

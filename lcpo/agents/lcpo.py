"""LCPO: Locally Constrained Policy Optimization (Hamadanian et al., ICLR 2025).

The policy improves on the recent batch B_r while it is anchored on past states S_c whose context
differs from the recent one. Algorithm 1, by its lines:

    1      theta; B_a empty                             `init`
    2-3    for each iteration: B_r <- interactions      the driver: lcpo/run/drive
    4      S_c <- W(B_a, B_r)                           `anchors.recall` (Algorithm 3)
    5      v <- gradient of L(theta; B_r), which is the policy gradient loss - c * entropy
                                                        `on_policy.policy_gradient`
    6-12   S_c is not empty: minimise L subject to      `learn`
               E_{S_c} KL(pi_old || pi) <= c_anchor and E_{B_r} KL(pi_old || pi) <= c_recent
    13-14  else: A2C's step                             `on_policy.adam_step`
    16     B_a <- B_a + B_r                             `anchors.remember` (Algorithm 2)

The anchored step solves the first constraint to second order (conjugate gradient on the Fisher
matrix of S_c), then backtracks until the loss really improves and both constraints really hold.

Deviations from the paper's text, all shared with the code behind its tables: the full step obeys
1/2 s'(F + damping I)s = c_anchor; a failed line search leaves the policy unchanged; Adam's moments
rest during anchored steps; the value function is not anchored. Our buffer takes the batch after
the step, as Algorithm 1 says; the published code adds it before (fault "add-before-sample").
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from lcpo.agents import anchors as past
from lcpo.agents import on_policy, trpo
from lcpo.agents.anchors import ADD_BEFORE_SAMPLE, ROW_SUM_FILTER, AnchorConfig, Anchors
from lcpo.agents.on_policy import Data
from lcpo.config import config, static, traced
from lcpo.core import random, trust_region
from lcpo.core.nets import Network
from lcpo.types import Agent, Array, Metrics, Spec, Transition

DUAL_ALGEBRA = "dual-algebra"
"""Fault: the two slips in the published solution with both constraints (dual=True only)."""


@config
class Config(AnchorConfig):
    """LCPO. Defaults are the paper's."""

    c_anchor: float = traced(1e-4, "KL limit on the anchors (paper: c_anchor)", low=0.0)
    c_recent: float = traced(0.1, "KL limit on the recent batch (paper: c_recent)", low=0.0)
    damping: float = traced(0.1, "added to the Fisher matrix's diagonal", low=0.0)
    dual: bool = static(False, "solve for both constraints, not only for the anchors'")
    faults: tuple[str, ...] = static(
        (), "published faults to repeat",
        choices=(on_policy.TRUNCATION_LEAKS, ADD_BEFORE_SAMPLE, ROW_SUM_FILTER, DUAL_ALGEBRA),
    )  # fmt: skip


class State(NamedTuple):
    """The on-policy learner and past observations."""

    learner: on_policy.State
    memory: past.Memory  # with B_a


def init(config: Config, spec: Spec, key: Array) -> State:
    """Line 1: a fresh learner and an empty reservoir."""
    return State(on_policy.init(config, spec, key), past.memory_init(config, spec))


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy."""
    return on_policy.act(config, spec, state.learner, obs, key)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One iteration of Algorithm 1; the driver has sampled the batch B_r (lines 2 and 3)."""
    add_key, sample_key = random.scan_keys(key, (2,))
    obs, keep = batch.obs.reshape(-1, spec.obs_size), past.may_be_anchors(spec, batch)
    recent, memory = past.look_back(state.memory, obs)
    anchors, reservoir = past.recall(  # line 4
        config, spec, memory.past, obs, recent, add_key, sample_key, keep
    )
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, batch)
    learner, metrics = learn(config, spec, learner, data, anchors)  # lines 5-15
    reservoir = past.remember(config, reservoir, obs, anchors, add_key, keep)  # line 16
    metrics["ood_share"] = jnp.asarray(anchors.share)
    return State(learner, memory._replace(past=reservoir)), metrics


def learn(
    config: Config, spec: Spec, state: on_policy.State, data: Data, anchors: Anchors
) -> tuple[on_policy.State, Metrics]:
    """Lines 5 to 15, then the step of the value function and of the entropy coefficient."""
    networks = on_policy.make_networks(config, spec)
    policy = networks.policy
    gradient = on_policy.policy_gradient(config, policy, state, data)  # line 5: v

    def anchored_step() -> tuple:
        v = ravel_pytree(gradient.grads)[0]
        fisher, old_logits = trust_region.fisher_product(  # line 7: g(x)
            lambda params: policy.apply(params, anchors.obs), state.policy, config.damping
        )
        ratio = jnp.float32(0.0)
        if config.dual:
            v_c, ratio = dual_step(config, policy, state, data, fisher, v)
        else:
            v_c = trust_region.constrained_step(fisher, v, config.c_anchor)  # line 8
        limits = [
            trpo.Limit(data.obs, gradient.logits, config.c_recent),
            trpo.Limit(anchors.obs, old_logits, config.c_anchor),
        ]
        new, search = trpo.backtrack(  # lines 9-12
            config, policy, state, data, gradient, v_c, limits
        )
        outcome = {"step_fraction": search.fraction, "anchor_kl": search.kls[1]}
        return new, state.policy_opt, {**outcome, "dual_ratio": ratio}

    def free_step() -> tuple:
        idle = {k: jnp.float32(0.0) for k in ("step_fraction", "anchor_kl", "dual_ratio")}
        return *on_policy.adam_step(config, policy, state, gradient.grads), idle  # line 14

    new, policy_opt, outcome = jax.lax.cond(anchors.found, anchored_step, free_step)  # lines 6, 13
    state = state._replace(policy=new, policy_opt=policy_opt)
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient)
    return state, {**metrics, **outcome, "constraint_active": anchors.found.astype(jnp.float32)}


def dual_step(
    config: Config,
    policy: Network,
    state: on_policy.State,
    data: Data,
    fisher: trust_region.Product,
    v: Array,
) -> tuple[Array, Array]:
    """The full step for both constraints at once, and the ratio of its two directions."""
    recent_fisher, _ = trust_region.fisher_product(
        lambda params: policy.apply(params, data.obs), state.policy, config.damping
    )
    return trust_region.doubly_constrained_step(
        fisher, recent_fisher, v, config.c_anchor, config.c_recent,
        published_algebra=DUAL_ALGEBRA in config.faults,
    )  # fmt: skip


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K]."""
    return on_policy.probabilities(config, spec, state.learner, obs)


agent = Agent("lcpo", Config, init, act, update, check=past.check, probabilities=probabilities)

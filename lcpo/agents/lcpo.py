"""LCPO: Locally Constrained Policy Optimization (Hamadanian et al., ICLR 2025).

The policy improves on the recent batch B_r while it is anchored on past states S_c whose context
differs from the recent one. Algorithm 1, by its lines:

    1      theta; B_a empty                             `init`
    2-3    for each iteration: B_r <- interactions      the driver: lcpo/run/drive
    4      S_c <- W(B_a, B_r)                           `anchors.recall` (Algorithm 3)
    5      v <- gradient of L(theta; B_r), which is the policy gradient loss - c * entropy
                                                        `on_policy.policy_gradient`
    6-12   S_c is not empty: minimise L subject to      `policy_step`
               E_{S_c} KL(pi_old || pi) <= c_anchor and E_{B_r} KL(pi_old || pi) <= c_recent
    13-15  else: A2C's step                             `on_policy.adam_step`
    16     B_a <- B_a + B_r                             `anchors.remember` (Algorithm 2)

The anchored step solves the first constraint to second order (conjugate gradient on the Fisher
matrix of S_c), then backtracks until the loss really improves and both constraints really hold.

Deviations from the paper's text, all shared with the code behind its tables: the full step obeys
1/2 s'(F + damping I)s = c_anchor; a failed line search leaves the policy unchanged; Adam's moments
rest during anchored steps; the value function is not anchored. The reservoir takes the batch after
the step, as in Algorithm 1; the published code adds it before (fault "add-before-sample").

For a variant, call the parts of `update` with your own gradient, limit or loss:
docs/add_an_agent.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from lcpo.agents import anchors as past
from lcpo.agents import on_policy
from lcpo.agents.anchors import ADD_BEFORE_SAMPLE, ROW_SUM_FILTER, AnchorConfig, Anchors
from lcpo.agents.on_policy import Data, Gradient
from lcpo.config import config, faults, static, traced
from lcpo.core import random, trust_region
from lcpo.core.trust_region import Limit
from lcpo.types import Agent, Array, Metrics, Spec, Transition

DUAL_ALGEBRA = "dual-algebra"
"""Fault: the two slips in the published solution with both constraints (dual=True only)."""


@config
class Config(AnchorConfig):
    """LCPO. Defaults are the paper's."""

    c_anchor: float = traced(1e-4, "KL limit on the anchors (paper: c_anchor)", low=0.0)
    c_recent: float = traced(0.1, "KL limit on the recent batch (paper: c_recent)", low=0.0)
    damping: float = traced(0.1, "added to the Fisher matrix's diagonal", low=0.0)
    cg_iterations: int = static(15, "iterations of conjugate gradient", low=1)
    dual: bool = static(False, "solve for both constraints, not only for the anchors'")
    faults: tuple[str, ...] = faults(
        on_policy.TRUNCATION_LEAKS, ADD_BEFORE_SAMPLE, ROW_SUM_FILTER, DUAL_ALGEBRA
    )


class State(NamedTuple):
    """The on-policy learner and past observations."""

    learner: on_policy.State
    memory: past.AnchorMemory  # with B_a


def init(config: Config, spec: Spec, key: Array) -> State:
    """Line 1: a fresh learner and an empty reservoir."""
    return State(on_policy.init(config, spec, key), past.memory_init(config, spec))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One iteration of Algorithm 1; the driver has sampled the batch B_r (lines 2 and 3)."""
    add_key, sample_key = random.scan_keys(key, (2,))
    obs, keep = past.offered(spec, batch)
    recent, memory = past.look_back(state.memory, obs)
    if ADD_BEFORE_SAMPLE in config.faults:
        memory = past.remember(memory, obs, keep, add_key)
    anchors = past.recall(config, spec, memory, recent, len(obs), sample_key)  # line 4: S_c
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, batch)
    learner, metrics = learn(config, spec, learner, data, anchors)  # lines 5-15
    if ADD_BEFORE_SAMPLE not in config.faults:
        memory = past.remember(memory, obs, keep, add_key, anchors)  # line 16
    return State(learner, memory), {**metrics, "ood_share": jnp.asarray(anchors.share)}


def learn(
    config: Config, spec: Spec, state: on_policy.State, data: Data, anchors: Anchors
) -> tuple[on_policy.State, Metrics]:
    """Lines 5 to 15, then the step of the value function and of the entropy coefficient."""
    networks = on_policy.make_networks(config, spec)
    gradient = on_policy.policy_gradient(config, spec, networks.policy, state, data)  # line 5: v
    state, outcome = policy_step(config, spec, state, data, anchors, gradient)
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient)
    return state, {**metrics, **outcome}


def policy_step(
    config: Config,
    spec: Spec,
    state: on_policy.State,
    data: Data,
    anchors: Anchors,
    gradient: Gradient,
    rehearsal: Callable[[Array], Array] | None = None,
) -> tuple[on_policy.State, Metrics]:
    """Lines 6 to 15: `state` with the new policy.

    `rehearsal(new)`: a second term of the loss, from the policy's outputs on the anchors
    [B, A, P]. Add its gradient to `gradient.grads`.
    """
    actions, policy = spec.actions, on_policy.make_networks(config, spec).policy

    def anchored_step() -> tuple:  # Adam's moments rest
        v = ravel_pytree(gradient.grads)[0]

        def loss(recent: Array, past: Array) -> Array:
            total = on_policy.surrogate(actions, recent, gradient.old, data, gradient.bonus)
            return total if rehearsal is None else total + rehearsal(past)

        def fisher(obs: Array) -> tuple[trust_region.Product, Array]:
            return trust_region.fisher_product(actions, policy, state.policy, obs, config.damping)

        g, old = fisher(anchors.obs)  # line 7: g(x)
        ratio = jnp.float32(0.0)
        if config.dual:
            published, both = DUAL_ALGEBRA in config.faults, (config.c_anchor, config.c_recent)
            v_c, ratio = trust_region.doubly_constrained_step(
                g, fisher(data.obs)[0], v, *both, config.cg_iterations, published
            )
        else:  # line 8
            v_c = trust_region.constrained_step(g, v, config.c_anchor, config.cg_iterations)
        recent = Limit(data.obs, gradient.old, config.c_recent)
        limits = [recent, Limit(anchors.obs, old, config.c_anchor)]
        new, search = trust_region.backtrack(  # lines 9-12
            actions, policy, state.policy, v, v_c, loss, limits
        )
        return new, state.policy_opt, (search.fraction, search.kls[1], ratio)

    def free_step() -> tuple:
        stepped = on_policy.adam_step(config, policy, state, gradient.grads)  # line 14
        return *stepped, (jnp.float32(0.0),) * 3

    new, policy_opt, outcome = jax.lax.cond(anchors.found, anchored_step, free_step)  # lines 6, 13
    fraction, kl, ratio = outcome
    metrics = {"step_fraction": fraction, "anchor_kl": kl, "dual_ratio": ratio}
    metrics["constraint_active"] = anchors.found.astype(jnp.float32)
    return state._replace(policy=new, policy_opt=policy_opt), metrics


agent = Agent(
    "lcpo", Config, init, on_policy.act, update, check=past.check,
    probabilities=on_policy.probabilities,
)  # fmt: skip

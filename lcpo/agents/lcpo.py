"""LCPO: Locally Constrained Policy Optimization (Hamadanian et al., ICLR 2025).

The policy improves on the recent batch B_r while it is anchored on past states S_c whose context
differs from the recent one (Algorithm 1):

    S_c <- W(B_a, B_r)                       past states with an OOD context        `find_anchors`
    minimise   L(theta; B_r) = policy gradient loss - c * entropy               `trpo.surrogate`
    subject to E_{S_c} KL(pi_old || pi) <= c_anchor                                  `anchored_step`
    and        E_{B_r} KL(pi_old || pi) <= c_recent          (checked in the line search)

Where too little of the past is OOD, S_c is empty and the step is A2C's. The anchored step solves
the first constraint to second order (conjugate gradient on the Fisher matrix of S_c), then
backtracks until the loss really improves and both constraints really hold.

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

from lcpo.agents import a2c, trpo
from lcpo.config import config, static, traced
from lcpo.core import buffers, nets, ood, random, trust_region
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition

ADD_BEFORE_SAMPLE = "add-before-sample"
"""Fault: the recent batch enters the reservoir before anchors are drawn from it."""
DUAL_ALGEBRA = "dual-algebra"
"""Fault: the two slips in the published solution with both constraints (dual=True only)."""


@config
class AnchorConfig(a2c.Config):
    """What agents with anchors share."""

    entropy_coef: float = traced(0.03, "entropy coefficient at the start", low=0.0)
    entropy_target: float = traced(
        0.1, "tune the coefficient towards this share of the maximal entropy; 0: keep it fixed",
        low=0.0, high=1.0,
    )  # fmt: skip
    sigma: float = traced(1.0, "a context is OOD beyond this distance (paper: sigma)", low=0.0)
    detector: str = static("l2", "OOD detector, by name or as package.module:function")
    buffer_size: int | None = static(
        None, "reservoir capacity (paper: n_b); None: 1 % of the steps", low=1, share_of_steps=0.01
    )
    sampling_rounds: int = static(5, "draws per anchor wanted, before giving up", low=1)


@config
class Config(AnchorConfig):
    """LCPO. Defaults are the paper's."""

    c_anchor: float = traced(1e-4, "KL limit on the anchors (paper: c_anchor)", low=0.0)
    c_recent: float = traced(0.1, "KL limit on the recent batch (paper: c_recent)", low=0.0)
    damping: float = traced(0.1, "added to the Fisher matrix's diagonal", low=0.0)
    dual: bool = static(False, "solve for both constraints, not only for the anchors'")
    faults: tuple[str, ...] = static(
        (), "published faults to repeat",
        choices=(a2c.TRUNCATION_LEAKS, ADD_BEFORE_SAMPLE, DUAL_ALGEBRA),
    )  # fmt: skip


class State(NamedTuple):
    """A2C's state and the reservoir of past observations."""

    learner: a2c.State
    memory: buffers.Reservoir  # B_a, observations


def init(config: AnchorConfig, spec: Spec, key: Array) -> State:
    """A fresh learner and an empty reservoir."""
    assert config.buffer_size is not None, "resolve the config first: lcpo.config.resolve"
    memory = buffers.reservoir_init(config.buffer_size, (spec.obs_size,))
    return State(a2c.init(config, spec, key), memory)


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy."""
    return a2c.act(config, spec, state.learner, obs, key)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Algorithm 1, one iteration."""
    recent = batch.obs.reshape(-1, spec.obs_size)
    anchors, found, memory = recall(config, spec, state.memory, recent, recent, key)
    learner, data = a2c.estimate(config, state.learner, batch)
    learner, metrics = learn(config, spec, learner, data, anchors, found)
    return State(learner, memory), metrics


def recall(
    config: AnchorConfig,
    spec: Spec,
    memory: buffers.Reservoir,
    batch: Array,
    recent: Array,
    key: Array,
) -> tuple[Array, Array, buffers.Reservoir]:
    """Anchors that are OOD with respect to `recent`, and the memory with the batch [B, D] added.

    Returns (anchors [B, D], whether there were enough, memory).
    """
    add_key, sample_key = random.scan_keys(key, (2,))
    if ADD_BEFORE_SAMPLE in config.faults:
        memory = buffers.reservoir_add(memory, batch, add_key)
    anchors, found = find_anchors(config, spec, memory, recent, batch.shape[0], sample_key)
    if ADD_BEFORE_SAMPLE not in config.faults:
        # The write must depend on what was read: XLA copies a buffer that it may write too early.
        read = jax.lax.bitcast_convert_type(jnp.sum(anchors), jnp.uint32)
        memory = buffers.reservoir_add(memory, batch, jax.random.fold_in(add_key, read))
    return anchors, found, memory


def find_anchors(
    config: AnchorConfig,
    spec: Spec,
    memory: buffers.Reservoir,
    recent: Array,
    count: int,
    key: Array,
) -> tuple[Array, Array]:
    """W(B_a, B_r): `count` states that are OOD, and whether there were enough."""
    distances = ood.detector(config.detector)
    return ood.sample_ood(
        memory,
        lambda data: distances(spec.context, recent, data),
        config.sigma,
        count,
        config.sampling_rounds,
        key,
    )


def learn(
    config: Config, spec: Spec, state: a2c.State, data: a2c.Data, anchors: Array, found: Array
) -> tuple[a2c.State, Metrics]:
    """One update: the anchored step where anchors were found, else A2C's."""
    gradient = a2c.policy_gradient(config, spec, state, data)

    def free() -> tuple:
        idle = {k: jnp.float32(0.0) for k in ("step_fraction", "anchor_kl", "dual_ratio")}
        return *a2c.policy_step(config, state, gradient), idle

    def anchored() -> tuple:
        policy, outcome = anchored_step(config, spec, state, data, gradient, anchors)
        return policy, state.policy_opt, outcome

    policy, policy_opt, outcome = jax.lax.cond(found, anchored, free)
    state, metrics = a2c.finish(config, spec, state, data, gradient, policy, policy_opt)
    return state, {**metrics, **outcome, "constraint_active": found.astype(jnp.float32)}


def anchored_step(
    config: Config,
    spec: Spec,
    state: a2c.State,
    data: a2c.Data,
    gradient: a2c.Gradient,
    anchors: Array,
) -> tuple[nets.Params, Metrics]:
    """Lines 6-11 of Algorithm 1: natural-gradient step on the anchors, then backtrack."""
    descent = ravel_pytree(gradient.grads)[0]
    fisher, anchor_logits = trust_region.fisher_product(
        lambda policy: a2c.logits(spec, policy, anchors), state.policy, config.damping
    )
    ratio = jnp.float32(0.0)
    if config.dual:
        recent_fisher, _ = trust_region.fisher_product(
            lambda policy: a2c.logits(spec, policy, data.obs), state.policy, config.damping
        )
        step, ratio = trust_region.doubly_constrained_step(
            fisher, recent_fisher, descent, config.c_anchor, config.c_recent,
            published_algebra=DUAL_ALGEBRA in config.faults,
        )  # fmt: skip
    else:
        step = trust_region.constrained_step(fisher, descent, config.c_anchor)

    limits = [config.c_recent, config.c_anchor]
    policy, search = trpo.backtrack(
        config, spec, state, data, gradient, step, limits, (anchors, anchor_logits)
    )
    outcome = {
        "step_fraction": search.fraction,
        "anchor_kl": search.kls[1],
        "dual_ratio": ratio,
    }
    return policy, outcome


def check(config: AnchorConfig, spec: Spec) -> None:
    """The detector must exist, and have a context to look at."""
    ood.detector(config.detector)
    if spec.context.size == 0 and config.detector in ("l2", "mahalanobis"):
        raise InputError(
            f"detector {config.detector!r} looks at the context, but the observation has none: "
            "use 'mahalanobis-full', or an agent without anchors"
        )


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K]."""
    return a2c.probabilities(config, spec, state.learner, obs)


agent = Agent("lcpo", Config, init, act, update, check=check, probabilities=probabilities)

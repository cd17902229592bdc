"""LCPO+: LCPO that also learns from the past states on which it is anchored.

The reservoir B_a holds transitions (s, a, r, s') with log mu(a|s), the log-probability of the
action when it was taken. The rows S that are drawn to anchor the policy serve three purposes:

    S     <- rows drawn uniformly from B_a                          `anchors.recall`
    y     = r + gamma^elapsed V(s'),  rho = min(1, pi(a|s) / mu(a|s))        `judge`
            y is clipped to twice the largest value that the rewards so far allow
    c_t   = max(c_anchor, c_0 / (1 + t / tau)),  t the number of updates     `limit`
    theta <- LCPO's step on L(theta; B_r) + w_pi L(theta; S), where S is     `learn`
             the anchors, c_t their limit, and the advantage on S is rho (y - V(s))
    phi   <- `value_steps` Adam steps on E_B_r[ (V - R)^2 ] + w_v E_S[ rho (V - y)^2 ]
    B_a   <- B_a + B_r                                              `anchors.remember`

y, rho and the advantages are computed once, with the policy and the value function before the
update, as R is. A terminated step has y = r. B_r and L are explained in `lcpo.agents.lcpo`.

With w_v = w_pi = c_0 = 0, 15 iterations and one value step, LCPO+ is `lcpo-uniform`, bit for bit.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.agents import anchors as past
from lcpo.agents import common, lcpo, on_policy
from lcpo.agents.anchors import AnchorConfig, Anchors
from lcpo.agents.on_policy import Bonus, Data, Gradient, Networks
from lcpo.config import config, faults, static, traced, with_default
from lcpo.core import random, returns
from lcpo.types import Agent, Array, Metrics, Spec, Transition

MARGIN = 2.0
"""Targets of the past are at most this many times as large as rewards allow. With 1, noise would be
clipped on one side only, and pull the values of the best states down."""


@config
class Config(lcpo.Config):
    """LCPO+: LCPO that also learns from its past, with a limit that shrinks."""

    detector: str = with_default(AnchorConfig, "detector", "everything")
    value_steps: int = with_default(on_policy.Config, "value_steps", 5)
    cg_iterations: int = with_default(lcpo.Config, "cg_iterations", 8)
    c_0: float = traced(3e-3, "first KL limit on the anchors; 0: c_anchor throughout", low=0.0)
    tau: float = traced(333.0, "updates after which that limit has halved", low=1.0)
    w_v: float = traced(4.0, "weight of the past in the value loss; 0: off", low=0.0)
    w_pi: float = traced(0.25, "weight of the past in the policy loss; 0: off", low=0.0)
    entropy_floor: bool = static(
        True, "fixed entropy bonus, only for states below the target; False: LCPO's"
    )
    faults: tuple[str, ...] = faults()

    def bonus(self, spec: Spec, state: on_policy.State) -> Bonus:
        """The entropy floor: a bonus that no state gets above the target."""
        if not self.entropy_floor:
            return super().bonus(spec, state)
        return Bonus(self.entropy_coef, self.entropy_target * spec.actions.max_entropy)


class State(NamedTuple):
    """LCPO's learner, past transitions, and the number of updates."""

    learner: on_policy.State
    memory: past.AnchorMemory  # with B_a, whose rows are packed `Rows`
    updates: Array  # t, int32
    bound: Array  # on |V|: the largest |r| / (1 - gamma^elapsed) so far


class Rows(NamedTuple):
    """Transitions, leaves [B, ...]."""

    obs: Array  # [B, D]
    next_obs: Array  # [B, D]
    action: Array  # [B, A]
    reward: Array  # as the environment gave it: its scale changes
    terminated: Array
    elapsed: Array
    weight: Array
    log_mu: Array


class Lesson(NamedTuple):
    """What the past teaches; B rows."""

    data: Data  # advantage rho (y - V(s)), target y
    rho: Array  # [B]
    pi: Array  # [B, A, P], the policy before the update
    loss: Array  # E_S[ rho (V - y)^2 ] before the update


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh learner and an empty reservoir."""
    width = 2 * spec.obs_size + spec.action_size + 5
    memory = past.memory_init(config, spec, width)
    return State(on_policy.init(config, spec, key), memory, jnp.int32(0), jnp.float32(0.0))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """One iteration; the driver has sampled the batch B_r."""
    add_key, sample_key = random.scan_keys(key, (2,))
    obs, keep = past.offered(spec, batch)
    recent, memory = past.look_back(state.memory, obs)
    anchors = past.recall(config, spec, memory, recent, len(obs), sample_key)
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, batch)
    gradient = on_policy.policy_gradient(config, spec, networks.policy, learner, data)
    bound = jnp.maximum(state.bound, largest_value(config, batch))
    lesson = judge(config, spec, networks, learner, anchors, bound)
    c_t = limit(config, state.updates)
    config = dataclasses.replace(config, c_anchor=c_t)
    learner, metrics = learn(config, spec, networks, learner, data, gradient, anchors, lesson)
    rows = pack(batch, spec.actions.log_prob(gradient.old, data.action))
    memory = past.remember(memory, rows, keep, add_key, anchors)
    metrics |= {
        "ood_share": jnp.asarray(anchors.share),
        "limit": c_t,
        "past_ratio": jnp.mean(lesson.rho),
        "past_value_loss": lesson.loss,
    }
    return State(learner, memory, state.updates + 1, bound), metrics


def limit(config: Config, updates: Array) -> Array:
    """c_t, the KL limit on the anchors after so many updates."""
    t = updates.astype(jnp.float32)
    return jnp.maximum(config.c_anchor, config.c_0 / (1.0 + t / config.tau))


def largest_value(config: Config, batch: Transition) -> Array:
    """The largest |V| that the rewards of a rollout allow, in their units.

    With M the largest |r| / (1 - d), where d is the discount of its step, |r| + d M <= M for every
    step, so no return exceeds M. It is infinite without discounting.
    """
    reward = jnp.abs(batch.reward)
    left = 1.0 - returns.discounts(config.gamma, batch.elapsed)
    return jnp.max(jnp.where(reward > 0.0, reward / left, 0.0))


def judge(
    config: Config,
    spec: Spec,
    networks: Networks,
    state: on_policy.State,
    anchors: Anchors,
    bound: Array,
) -> Lesson:
    """Targets and advantages of the rows. Without anchors their weights and rho are 0.

    A value function that learns from its own predictions on rows of other policies can diverge, so
    targets stay within `MARGIN` times the bound.
    """
    rows = unpack(spec, anchors.rows)
    found = anchors.found.astype(jnp.float32)
    pi = networks.policy.apply(state.policy, rows.obs)
    log_ratio = spec.actions.log_prob(pi, rows.action) - rows.log_mu
    rho = found * jnp.minimum(1.0, jnp.exp(log_ratio))
    values = networks.value.apply(state.value, jnp.stack([rows.obs, rows.next_obs]))[..., 0]
    scale = common.reward_scale(config, state.return_stats)
    discount = returns.discounts(config.gamma, rows.elapsed)
    target = returns.one_step(rows.reward * scale, values[1], discount, rows.terminated)
    largest = MARGIN * bound * scale
    target = jnp.clip(target, -largest, largest)
    error = target - values[0]
    data = Data(rows.obs, rows.action, rho * error, target, found * rows.weight)
    return Lesson(data, rho, pi, jnp.mean(rho * error**2))


def learn(
    config: Config,
    spec: Spec,
    networks: Networks,
    state: on_policy.State,
    data: Data,
    gradient: Gradient,
    anchors: Anchors,
    lesson: Lesson,
) -> tuple[on_policy.State, Metrics]:
    """The steps of the policy, the value function and the entropy coefficient.

    `actor` and `critic` are what the past adds to the losses of the policy and of the value
    function.
    """

    def rehearsed() -> Any:
        found = on_policy.policy_gradient(config, spec, networks.policy, state, lesson.data)
        return jax.tree.map(lambda g, p: g + config.w_pi * p, gradient.grads, found.grads)

    def actor(new: Array) -> Array:
        loss = on_policy.surrogate(spec.actions, new, lesson.pi, lesson.data, gradient.bonus)
        return config.w_pi * loss

    def critic(value: Any) -> Array:
        error = networks.value.apply(value, lesson.data.obs)[:, 0] - lesson.data.target
        return config.w_v * jnp.mean(lesson.rho * error**2)

    # Weights are traced, so that one program serves all. A CPU skips the gradient where w_pi is 0.
    grads = jax.lax.cond(config.w_pi > 0.0, rehearsed, lambda: gradient.grads)
    both = gradient._replace(grads=grads)
    state, outcome = lcpo.policy_step(config, spec, state, data, anchors, both, actor)
    state, metrics = on_policy.finish(config, spec, networks, state, data, gradient, critic)
    return state, {**metrics, **outcome}


def pack(batch: Transition, log_mu: Array) -> Array:
    """Rows [B, W] of the reservoir, from a batch [T, N, ...] and log mu [B]."""
    columns = [*(getattr(batch, name) for name in Rows._fields[:-1]), log_mu]
    flat = [x.reshape(len(log_mu), -1).astype(jnp.float32) for x in columns]
    return jnp.concatenate(flat, axis=1)


def unpack(spec: Spec, rows: Any) -> Rows:
    """The transitions in rows [B, W]."""
    ends = np.cumsum([spec.obs_size, spec.obs_size, spec.action_size])
    obs, next_obs, action, numbers = jnp.split(rows, ends, axis=1)
    return Rows(obs, next_obs, action.astype(spec.actions.dtype), *numbers.T)


agent = Agent(
    "lcpo-plus", Config, init, on_policy.act, update, check=past.check,
    probabilities=on_policy.probabilities,
)  # fmt: skip

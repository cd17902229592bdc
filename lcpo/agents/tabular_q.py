"""Tabular Q-learning (Watkins and Dayan 1992): one value per observation and action.

    target = r + gamma max_b Q(s', b), without the maximum where s' is terminal    `learn`
    Q(s, a) <- Q(s, a) + alpha (target - Q(s, a)), alpha = learning_rate / n^omega
    n: how often (s, a) has been visited, this visit included
    behaviour: the best action, or with probability epsilon any                    `probabilities`

With 0.5 < omega <= 1 and epsilon > 0 it converges to the best policy in every recurring context,
if contexts change between episodes only: docs/theory.md. A batch is learned from step by step, in
temporal order; actions follow the table before the batch, so `rollout_length=1` is the textbook's
order. Steps in which a guard overrides the policy count as any other: learning is off-policy.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import tabular_a2c
from lcpo.config import config, static, traced
from lcpo.core import nets, returns
from lcpo.core.nets import Lookup
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config:
    """Tabular Q-learning."""

    rollout_length: int = static(200, "interactions per update", low=1)
    learning_rate: float = traced(1.0, "learning rate of a first visit", low=0.0, high=1.0)
    omega: float = traced(0.7, "the n-th visit's rate is divided by n^omega; 0: constant", low=0.0)
    epsilon: float = traced(0.1, "probability of a random action", low=0.0, high=1.0)
    gamma: float = traced(0.99, "discount per unit of time", low=0.0, high=1.0)


class State(NamedTuple):
    """Both tables are [*levels, K]."""

    q: Lookup
    visits: Lookup  # int32


def init(config: Config, spec: Spec, key: Array) -> State:
    """Tables of zeros."""
    del config, key
    assert spec.obs_levels is not None, "checked by `check`"
    shape = (*spec.obs_levels, *spec.discrete.counts)
    return State(Lookup(jnp.zeros(shape)), Lookup(jnp.zeros(shape, jnp.int32)))


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Epsilon-greedy."""
    return spec.actions.sample(jnp.log(probabilities(config, spec, state, obs)), key), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learn from each step in turn; worlds take turns within a step."""
    del key
    assert spec.obs_levels is not None, "checked by `check`"
    rows = nets.row_number(jnp.stack([batch.obs, batch.next_obs]), spec.obs_levels)  # [2, T, N]
    discount = returns.discounts(config.gamma, batch.elapsed)
    terminated = batch.terminated.astype(jnp.float32)
    visits = Visit(rows[0], batch.action[..., 0], batch.reward, rows[1], discount, terminated)
    visits = jax.tree.map(jnp.ravel, visits)
    shape = state.q.entries.shape
    flat = jax.tree.map(lambda table: table.reshape(-1, shape[-1]), state)
    flat, (error, rate) = jax.lax.scan(lambda *each: learn(config, *each), flat, visits)
    metrics = {
        "td_error": jnp.mean(jnp.abs(error)),
        "q_learning_rate": jnp.mean(rate),
        "value": jnp.mean(jnp.max(flat.q.entries[visits.row], axis=-1)),
        "visited": jnp.mean(flat.visits.entries > 0),
    }
    return jax.tree.map(lambda table: table.reshape(shape), flat), metrics


class Visit(NamedTuple):
    """A step, by the rows of the table before and after it."""

    row: Array
    action: Array
    reward: Array
    next_row: Array
    discount: Array
    terminated: Array


def learn(config: Config, state: State, visit: Visit) -> tuple[State, tuple[Array, Array]]:
    """One visit, to tables [rows, K]; also its error before the visit, and its learning rate."""
    q, visits, here = state.q.entries, state.visits.entries, (visit.row, visit.action)
    count = visits[here] + 1
    rate = config.learning_rate / count.astype(jnp.float32) ** config.omega
    best = jnp.max(q[visit.next_row])
    error = returns.one_step(visit.reward, best, visit.discount, visit.terminated) - q[here]
    q = q.at[here].add(rate * error)
    return State(Lookup(q), Lookup(visits.at[here].set(count))), (error, rate)


def check(config: Config, spec: Spec) -> None:
    """A table needs finite observations, and one action."""
    tabular_a2c.check(config, spec)
    if spec.action_size != 1:
        raise InputError(
            f"tabular-q: the environment has {spec.action_size} action dimensions "
            f"(spec.num_actions = {spec.discrete.counts}), the table has one: number the "
            "combinations as one action, or use tabular-a2c"
        )


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, 1, K] of the behaviour; among equals the first is best."""
    assert spec.obs_levels is not None, "checked by `check`"
    values = nets.table(spec.obs_levels, spec.discrete.num_outputs).apply(state.q, obs)
    best = jax.nn.one_hot(jnp.argmax(values, axis=-1), values.shape[-1])
    return ((1.0 - config.epsilon) * best + config.epsilon / values.shape[-1])[:, None]


agent = Agent(
    "tabular-q", Config, init, act, update, check=check, probabilities=probabilities, raw=True
)

"""BFDQN: DDQN whose weights have a chain of slower copies behind them (Kaplanis et al. 2018).

Each weight is the first of `chain_length` variables u_0 .. u_n, as in the synapse model of Benna
and Fusi (2016): like vessels of volume C_k in a row, joined by tubes of width g_k, each deeper
vessel is larger and its tube narrower, C_k = 2^k and g_k = flow / 2^k. What a context leaves in the
weights seeps down, and flows back after the weights have moved on. At gradient step t = 0, 1..

    dw    = what Adam does to the weights                                       `ddqn.descend`
    u_0  <- u_0 + dw                          + [t flow > C_0] g_0 (u_1 - u_0) / C_0
    u_k  <- u_k + g_{k-1} (u_{k-1} - u_k) / C_k + [t flow > C_k] g_k (u_{k+1} - u_k) / C_k
                                              u_{n+1} = 0; all from the old values   `seep`
    weights <- u_0, then the target network follows                             `ddqn.follow`

A vessel gives nothing back before step C_k / flow: it must be filled first. The replay is short;
the chain remembers what the replay drops. Everything else is DDQN's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from lcpo.agents import common, ddqn, off_policy
from lcpo.agents.ddqn import target
from lcpo.agents.off_policy import State
from lcpo.config import config, static, traced, with_default
from lcpo.core import stats
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(ddqn.Config):
    """BFDQN. Defaults are the paper's."""

    buffer_size: int | None = with_default(ddqn.Config, "buffer_size", 2000)
    chain_length: int = static(13, "variables per weight, itself included", low=2, high=64)
    flow: float = traced(1e-3, "flow from a weight to the next variable (g_1_2)", low=0.0, high=1.0)


class ChainedQ(NamedTuple):
    """What gradient steps change."""

    q: Any  # parameters of `off_policy.make_network`; flat, they are u_0
    target: Any
    opt: Any
    target_stats: stats.RunningMoments
    deeper: Array  # [chain_length - 1, weights]: u_1 and all behind it
    num_updates: Array  # gradient steps so far, int32


def init(config: Config, spec: Spec, key: Array) -> State:
    """A fresh DDQN with noise of std 2^-k in u_k, and an empty replay."""
    network_key, chain_key = jax.random.split(key)
    learner = ddqn.learner_init(config, spec, network_key)
    num_weights = ravel_pytree(learner.q)[0].size
    noise = jax.random.normal(chain_key, (config.chain_length - 1, num_weights))
    deeper = noise / volumes(config.chain_length)[1:]
    return off_policy.state_init(config, spec, ChainedQ(*learner, deeper, jnp.int32(0)))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    after, metrics = off_policy.learn(config, spec, state, batch, key, step)
    return after, {**metrics, "epsilon": ddqn.epsilon(config, spec, state)}


def step(
    config: Config, spec: Spec, learner: ChainedQ, data: Transition
) -> tuple[ChainedQ, Metrics]:
    """One gradient step on transitions [B], the chain's after it, then the target follows."""
    y = target(config, spec, learner, data)
    network = off_policy.make_network(config, spec)
    moved, opt, metrics = ddqn.descend(config, network, learner.q, learner.opt, data, y)
    (before, unravel), (after, _) = ravel_pytree(learner.q), ravel_pytree(moved)
    chain = jnp.concatenate([before[None], learner.deeper])
    chain = seep(chain, after - before, config.flow, learner.num_updates)
    metrics |= {
        "reward_scale": common.reward_scale(config, learner.target_stats),
        "chain_distance": jnp.linalg.norm(chain[1] - chain[0]),
        "chain_pull": jnp.linalg.norm(chain[0] - after),
    }
    learner = ddqn.follow(config, learner, unravel(chain[0]), opt, y)
    return learner._replace(deeper=chain[1:], num_updates=learner.num_updates + 1), metrics


def seep(chain: Array, change: Array, flow: Array | float, t: Array) -> Array:
    """The variables [length, weights] after step t, in which Adam moved the weights by `change`."""
    volume = volumes(len(chain))
    behind = jnp.concatenate([chain[1:], jnp.zeros_like(chain[:1])])
    lost = flow / volume * (chain - behind)  # g_k (u_k - u_{k+1})
    gained = jnp.concatenate([change[None], lost[:-1]])  # C_0 = 1
    # A product, not C_k / flow: 1 / 1e-3 is less than 1000 in float32.
    is_full = t.astype(jnp.float32) * flow > volume
    return chain + (gained - jnp.where(is_full, lost, 0.0)) / volume


def volumes(length: int) -> Array:
    """C_k = 2^k, as a column."""
    return 2.0 ** jnp.arange(length, dtype=jnp.float32)[:, None]


agent = Agent("bfdqn", Config, init, ddqn.act, update, probabilities=ddqn.probabilities)

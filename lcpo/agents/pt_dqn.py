"""PT-DQN: a permanent and a transient Q-network, whose values add up (Anand and Precup 2023).

    Q(s, a) = P(s, a; theta) + T(s, a; w)                         each additive over dimensions
    y       = r + gamma (1 - terminated) max_a' [P(s', a'; theta) + T(s', a'; w')]      `target`
    L(w)    = E[ (P(s, a) + T(s, a; w) - y)^2 ]                   the fast one, by Adam   `step`

Whenever a multiple of `permanent_period` = K interactions has passed, the slow one takes over what
the fast one has found, and the fast one forgets a little (`consolidate`):

    L(theta) = E[ (P(s, a; theta) - P(s, a; theta_old) - T(s, a))^2 ]
               one pass over the last K transitions, oldest first, a step per `batch_size`
    w       <- forget_factor * w

then, at multiples of `target_period`, w' <- w. The agent does not know when the context changes.
Exploration, replay, gradient steps and reward scale are DDQN's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from lcpo.agents import common, ddqn, off_policy
from lcpo.agents.off_policy import State
from lcpo.config import config, static, traced
from lcpo.core import optim, replay, stats
from lcpo.core.nets import Network
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(ddqn.EpsilonConfig):
    """PT-DQN. Defaults are the paper's."""

    learning_rate: float = traced(1e-3, "transient network's learning rate (Adam)", low=0.0)
    permanent_learning_rate: float = traced(1e-5, "permanent network's learning rate", low=0.0)
    permanent_optimiser: str = static(
        "adam", "optimiser of the permanent network", choices=("adam", "sgd")
    )
    permanent_period: int = static(20_000, "interactions per permanent update (K)", low=1)
    forget_factor: float = traced(0.999, "factor of w at a permanent update", low=0.0, high=1.0)
    target_period: int = static(2000, "interactions between updates of the target network", low=1)

    def values(self, spec: Spec, learner: Any, obs: Array) -> Array:
        """Q [B, A, K] of both networks together. Padding actions stay far below all others."""
        network = off_policy.make_network(self, spec)
        return network.apply(learner.permanent, obs) + network.apply(learner.transient, obs)


class TwoSpeedQ(NamedTuple):
    """What learning changes. All networks are of the kind of `off_policy.make_network`."""

    transient: Any
    permanent: Any
    target: Any  # of the transient network; the permanent one stands still between its updates
    opt: Any
    permanent_opt: Any
    target_stats: stats.RunningMoments


def init(config: Config, spec: Spec, key: Array) -> State:
    """Two fresh networks, a copy of the transient one as its target, and an empty replay."""
    network = off_policy.make_network(config, spec)
    transient, permanent = (network.init(k) for k in jax.random.split(key))
    opt = optim.adam(0.0, 1.0).init(transient)
    permanent_opt = permanent_optimiser(config, network).init(permanent)
    networks = transient, permanent, transient
    learner = TwoSpeedQ(*networks, opt, permanent_opt, stats.moments_init())
    return off_policy.state_init(config, spec, learner)


def permanent_optimiser(config: Config, network: Network) -> optax.GradientTransformation:
    """Adam, or plain gradient descent without weight decay."""
    rate, limit = config.permanent_learning_rate, config.max_grad_norm
    return (optim.sgd if config.permanent_optimiser == "sgd" else network.adam)(rate, limit)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, take the transient steps, then consolidate and copy the target if due."""
    after, metrics = off_policy.learn(config, spec, state, batch, key, step)

    def passed(period: int) -> Array:
        """Whether this update has reached a multiple of `period` interactions."""
        return after.num_steps // period > state.num_steps // period

    due, copies = passed(config.permanent_period), passed(config.target_period)
    learner, metrics["permanent_shift"] = consolidate(config, spec, after, due)
    target = jax.tree.map(
        lambda new, old: jnp.where(copies, new, old), learner.transient, learner.target
    )
    metrics["epsilon"] = ddqn.epsilon(config, spec, state)
    metrics["permanent_update"] = due.astype(jnp.float32)
    return after._replace(learner=learner._replace(target=target)), metrics


def step(
    config: Config, spec: Spec, learner: TwoSpeedQ, data: Transition
) -> tuple[TwoSpeedQ, Metrics]:
    """One gradient step of the transient network on transitions [B]."""
    y = target(config, spec, learner, data)
    network = off_policy.make_network(config, spec)
    constant = off_policy.total_q(network.apply(learner.permanent, data.obs), data.action)
    transient, opt, metrics = ddqn.descend(
        config, network, learner.transient, learner.opt, data, y - constant
    )
    metrics["permanent_value"] = jnp.mean(constant)
    metrics["q_value"] += metrics["permanent_value"]
    metrics["reward_scale"] = common.reward_scale(config, learner.target_stats)
    moments = stats.moments_add(learner.target_stats, y)
    return learner._replace(transient=transient, opt=opt, target_stats=moments), metrics


def target(config: Config, spec: Spec, learner: TwoSpeedQ, data: Transition) -> Array:
    """y [B]: the largest value of the permanent network and the transient one's target together."""
    next_q = config.values(spec, learner._replace(transient=learner.target), data.next_obs)
    next_value = jnp.sum(jnp.max(next_q, axis=-1), axis=-1)
    next_value = off_policy.guarded_value(spec, data.next_obs, next_q, next_value)
    return off_policy.td_target(config, learner.target_stats, data, next_value)


def consolidate(config: Config, spec: Spec, state: State, due: Array) -> tuple[TwoSpeedQ, Array]:
    """Where `due`, the permanent network's pass, after which the transient one forgets.

    Also |change of P| / |T| over the data of the pass, 0 if there was none. Loops of no iterations
    replace `lax.cond`, which would copy the memory and, under vmap, compute both branches.
    """
    learner, network = state.learner, off_policy.make_network(config, spec)
    optimiser = permanent_optimiser(config, network)
    num_steps = jnp.where(due, config.permanent_period // config.batch_size, 0)

    def look(i: Array) -> tuple[Transition, Array, Array]:
        """Minibatch i of the pass, and P and T on it before the pass."""
        first = state.num_steps - config.permanent_period + i * config.batch_size
        visit = first + jnp.arange(config.batch_size)  # in the order of the steps
        row = visit // spec.num_worlds % state.memory.num_rows
        data = replay.replay_rows(state.memory, spec, row, visit % spec.num_worlds)
        before = (learner.permanent, learner.transient)
        old, found = (off_policy.total_q(network.apply(p, data.obs), data.action) for p in before)
        return data, old, found

    def descend(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        data, old, found = look(i)
        permanent, opt = carry
        _, _, grads = ddqn.gradient(network, permanent, data, old + found)
        return optim.apply(optimiser, grads, opt, permanent)

    start = (learner.permanent, learner.permanent_opt)
    permanent, permanent_opt = jax.lax.fori_loop(0, num_steps, descend, start)

    def measure(i: Array, sums: Array) -> Array:
        data, old, found = look(i)
        new = off_policy.total_q(network.apply(permanent, data.obs), data.action)
        return sums + jnp.stack([jnp.sum((new - old) ** 2), jnp.sum(found**2)])

    moved, all_of_it = jax.lax.fori_loop(0, num_steps, measure, jnp.zeros(2))
    kept = jnp.where(due, config.forget_factor, 1.0)
    learner = learner._replace(
        transient=jax.tree.map(lambda w: kept * w, learner.transient),
        permanent=permanent,
        permanent_opt=permanent_opt,
    )
    return learner, jnp.sqrt(moved / jnp.maximum(all_of_it, 1e-30))


def check(config: Config, spec: Spec) -> None:
    """A permanent update needs all its transitions in the replay, and at least one minibatch."""
    del spec
    period, size = config.permanent_period, config.buffer_size
    if size is not None and size < period:
        raise InputError(
            f"permanent_period = {period}: a permanent update reads that many, but the replay "
            f"holds {size} transitions; give a shorter permanent_period, a larger buffer_size or, "
            "where buffer_size is all of the run, a longer run"
        )
    if period < config.batch_size:
        raise InputError(
            f"permanent_period = {period}: less than a minibatch of {config.batch_size}, so the "
            "permanent network would never learn; give a longer period, or a smaller batch_size"
        )


agent = Agent(
    "pt-dqn", Config, init, ddqn.act, update, check=check, probabilities=ddqn.probabilities
)

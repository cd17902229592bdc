"""Online EWC: SAC with a penalty on changes of important weights (Schwarz et al. 2018).

Elastic weight consolidation (Kirkpatrick et al. 2017) without task labels, for the policy and for
each critic by itself:

    L(theta)  + alpha/2 sum_k F_k (theta_k - theta*_k)^2          alpha = `penalty_coef`    `pull`
    F        <- (1 - beta) F      + beta F_now                    beta = `averaging_rate`
    theta*   <- (1 - beta) theta* + beta theta                    after each gradient step  `follow`
    F_now     = E[ (d/dtheta log pi(a|s))^2 ],  a ~ pi(s)         of the policy: its Fisher matrix
    F_now     = E[ (d/dphi (Q(s, a) - y)^2)^2 ]                   of a critic   (`importances`)

All expectations are over the batch of the step, with the networks after it. The first step has no
penalty, and sets F = F_now and theta* = theta. Everything else is SAC's. The published code has
three faults of its own (`FAULTS`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from lcpo.agents import off_policy, sac
from lcpo.agents.off_policy import State
from lcpo.agents.sac import ActorCritics
from lcpo.config import config, faults, traced
from lcpo.core import optim
from lcpo.core.nets import Layer, Layers, Network
from lcpo.distributions import inverse_cdf
from lcpo.types import Agent, Array, Metrics, Spec, Transition

IMPORTANCE_OF_SUMS = "importance-of-sums"
"""Fault: a critic's F_now is E_i[ (g_1 + ... + g_i)^2 ], of running sums of the gradients g_i."""
FREE_CRITIC = "free-critic"
"""Fault: the second critic has no penalty."""
DECAY_TWICE = "decay-twice"
"""Fault: the penalty is multiplied by 1 - beta, which F has in it already."""
FAULTS = (sac.TARGET_AT_S, IMPORTANCE_OF_SUMS, FREE_CRITIC, DECAY_TWICE)


@config
class Config(sac.Config):
    """Online EWC. Defaults are the paper's."""

    penalty_coef: float = traced(0.1, "weight of the penalty (alpha)", low=0.0)
    averaging_rate: float = traced(7e-5, "rate of the averages F, theta* (beta)", low=0.0, high=1.0)
    faults: tuple[str, ...] = faults(*FAULTS)

    def optimisers(self, network: Network) -> sac.Optimisers:
        """SAC's, with the gradient of the penalty added first."""
        return sac.adams(self, network, [pull(coef) for coef in coefficients(self)])


class Past(NamedTuple):
    """The optax state of `pull`, the first part of a network's optimiser state."""

    weights: Any  # theta*
    importance: Any  # F
    num_updates: Array  # gradient steps so far, int32


def coefficients(config: Config) -> tuple[Array | float, Array | float, Array | float]:
    """alpha, for the policy and each critic."""
    alpha = config.penalty_coef
    if DECAY_TWICE in config.faults:
        alpha = alpha * (1.0 - config.averaging_rate)
    return alpha, alpha, 0.0 if FREE_CRITIC in config.faults else alpha


def pull(coefficient: Array | float) -> optax.GradientTransformation:
    """Add the gradient of the penalty."""

    def fresh(params: Any) -> Past:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Past(zeros, zeros, jnp.int32(0))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        def add(gradient: Array, importance: Array, now: Array, old: Array) -> Array:
            return gradient + coefficient * importance * (now - old)

        return jax.tree.map(add, updates, state.importance, params, state.weights), state

    return optax.GradientTransformation(fresh, update)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, then `updates_per_rollout` gradient steps."""
    shape = (config.updates_per_rollout, config.batch_size, spec.action_size)
    uniform = jax.random.uniform(jax.random.fold_in(key, 1), shape)
    return off_policy.learn(config, spec, state, batch, key, step, uniform)


def step(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition, uniform: Array
) -> tuple[ActorCritics, Metrics]:
    """One gradient step on transitions [B]; uniform numbers [B, A] draw the actions of F_now."""
    before = penalties(config, learner)
    learner, y, metrics = sac.descend(config, spec, learner, data)
    learner = follow(config, learner, importances(config, spec, learner, data, y, uniform))
    learner, more = sac.finish(config, spec, learner, data.obs, y)
    past = learner.policy_opt[0]
    drift = jax.tree.map(lambda now, old: now - old, learner.policy, past.weights)
    metrics["penalty"] = before[0]
    metrics["value_penalty"] = 0.5 * (before[1] + before[2])
    metrics["drift"] = optax.tree.norm(drift)
    metrics["importance"] = jnp.sum(ravel_pytree(past.importance)[0])
    return learner, metrics | more


def penalties(config: Config, learner: ActorCritics) -> list[Array]:
    """alpha/2 sum F (theta - theta*)^2, of the policy and each critic."""

    def penalty(coefficient: Array | float, opt: Any, params: Any) -> Array:
        trees = (opt[0].importance, params, opt[0].weights)
        importance, now, old = (ravel_pytree(tree)[0] for tree in trees)
        return 0.5 * coefficient * jnp.sum(importance * (now - old) ** 2)

    opts = (learner.policy_opt, *learner.critic_opts)
    params = (learner.policy, *learner.critics)
    return [penalty(*each) for each in zip(coefficients(config), opts, params, strict=True)]


def importances(
    config: Config, spec: Spec, learner: ActorCritics, data: Transition, y: Array, uniform: Array
) -> tuple[Any, Any, Any]:
    """F_now of the policy and each critic, with targets y [B] and uniform numbers [B, A]."""
    network = off_policy.make_network(config, spec)
    logits = network.apply(learner.policy, data.obs)
    drawn = jax.nn.one_hot(inverse_cdf(logits, uniform), logits.shape[-1])
    score = drawn - jax.nn.softmax(logits)  # d log pi(a|s) / d logits
    policy = mean_square_gradient(network, learner.policy, data.obs, score)
    square = running_sums if IMPORTANCE_OF_SUMS in config.faults else mean_square_gradient

    def of_critic(critic: Any) -> Any:
        q = network.apply(critic, data.obs)
        error = off_policy.total_q(q, data.action) - y
        deltas = 2.0 * error[:, None, None] * jax.nn.one_hot(data.action, q.shape[-1])
        return square(network, critic, data.obs, deltas)

    one, other = learner.critics
    return policy, of_critic(one), of_critic(other)


def mean_square_gradient(network: Network, params: Any, x: Array, deltas: Array) -> Any:
    """1/B sum_i g_i^2 of the samples' gradients g_i, given those in the outputs, deltas [B, ...].

    In an MLP, g_i of a weight matrix is the outer product of the layer's inputs a_i and of the
    gradient d_i in its outputs, so that the result is 1/B (a^2)' (d^2), as cheap as the gradient
    of the mean. Other networks need the gradient of each sample.
    """
    if network.layer_inputs is None:
        grads = sample_gradients(network, params, x, deltas)
        return jax.tree.map(lambda g: jnp.mean(g**2, axis=0), grads)

    def mean_square(seen: Array, delta: Array) -> Layer:
        a, d = seen**2, delta**2
        product = jnp.dot(a.T, d, precision=jax.lax.Precision.HIGHEST)
        return Layer(product / len(a), jnp.mean(d, axis=0))

    seen = network.layer_inputs(params, x)
    back = _layer_deltas(network, params, x, deltas)
    return tuple(mean_square(a, d) for a, d in zip(seen, back, strict=True))


def sample_gradients(network: Network, params: Any, x: Array, deltas: Array) -> Any:
    """g_i of each sample, leaves [B, ...]: B times the memory of the parameters."""

    def gradient(x: Array, delta: Array) -> Any:
        _, pull = jax.vjp(lambda params: network.apply(params, x), params)
        return pull(delta)[0]

    return jax.vmap(gradient)(x, deltas)


def _layer_deltas(network: Network, params: Layers, x: Array, deltas: Array) -> list[Array]:
    """d_i [B, outputs] of each layer: the gradient in a separate bias for each sample."""

    def apply(biases: list[Array], x: Array) -> Array:
        layers = zip(params, biases, strict=True)
        return network.apply(tuple(Layer(layer.w, b) for layer, b in layers), x)

    alone = [jnp.broadcast_to(layer.b[None], (len(x), *layer.b.shape)) for layer in params]
    _, pull = jax.vjp(lambda biases: jax.vmap(apply)(biases, x), alone)
    return pull(deltas)[0]


CHUNK = 8
"""Samples whose gradients are held at a time: as many as fit in a core's cache."""


def running_sums(network: Network, params: Any, x: Array, deltas: Array) -> Any:
    """1/B sum_i (g_1 + ... + g_i)^2."""
    size = next(n for n in range(CHUNK, 0, -1) if len(x) % n == 0)

    def add(carry: tuple[Any, Any], samples: tuple[Array, Array]) -> tuple[tuple[Any, Any], None]:
        total, squares = carry
        grads = sample_gradients(network, params, *samples)
        for i in range(size):
            total = jax.tree.map(lambda t, g, i=i: t + g[i], total, grads)
            squares = jax.tree.map(lambda s, t: s + t**2, squares, total)
        return (total, squares), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    xs, ds = (v.reshape(-1, size, *v.shape[1:]) for v in (x, deltas))
    (_, squares), _ = jax.lax.scan(add, (zeros, zeros), (xs, ds))
    return jax.tree.map(lambda s: s / len(x), squares)


def follow(config: Config, learner: ActorCritics, found: tuple[Any, Any, Any]) -> ActorCritics:
    """`learner` with its past moved towards its weights and the importances `found`."""

    def move(opt: Any, params: Any, importance: Any) -> Any:
        past: Past = opt[0]
        rate = jnp.where(past.num_updates == 0, 1.0, config.averaging_rate)
        weights = optim.polyak(past.weights, params, rate)
        importance = optim.polyak(past.importance, importance, rate)
        return (Past(weights, importance, past.num_updates + 1), *opt[1:])

    opts, params = (learner.policy_opt, *learner.critic_opts), (learner.policy, *learner.critics)
    policy_opt, *critics = map(move, opts, params, found)
    return learner._replace(policy_opt=policy_opt, critic_opts=(critics[0], critics[1]))


agent = Agent("online-ewc", Config, sac.init, sac.act, update, probabilities=sac.probabilities)

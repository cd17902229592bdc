"""A learned model of an environment: an ensemble of networks that predict normal distributions
(MBPO, MBCD).

    x        = [obs, features of the action], standardised by the draws of the last training
    y        = [reward, next_obs - obs]
    mu, v    = member e's mean and log variance of y, v softly held between two learned bounds
    L        = mean[ (y - mu)^2 exp(-v) + v ] + 0.01 (mean upper bound - mean lower bound)
                                                            over members, draws and outputs  `loss`

All members learn from the same draws; they differ in their initial weights (Chua et al. 2018).
`mixture` combines them into one distribution, whose variance includes their disagreement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.core import nets, optim
from lcpo.core.nets import Network
from lcpo.types import Array, Spec, Transition

LEARNING_RATE = 1e-3
BOUND_WEIGHT = 0.01
"""How strongly the bounds of the log variance are pulled together."""
UPPER, LOWER = 0.5, -10.0
"""Initial values of these bounds."""
VARIANCE_FLOOR = 1e-6
"""Added to the variance of the mixture."""


class Params(NamedTuple):
    """What training changes: the stacked members, and the bounds that they share."""

    members: Any  # of `make_network`: leaves [E, ...]
    upper: Array  # [O]
    lower: Array  # [O]


class Model(NamedTuple):
    """An ensemble, its optimiser, and the scale of its inputs at the last training."""

    params: Params
    opt: Any
    mean: Array  # [I]
    std: Array  # [I]


class Normal(NamedTuple):
    """Means and variances of y, one per member or of the mixture: [..., O]."""

    mean: Array
    var: Array


def sizes(spec: Spec) -> tuple[int, int]:
    """I and O, the sizes of x and y."""
    return spec.obs_size + spec.actions.num_features, 1 + spec.obs_size


def make_network(spec: Spec, hidden: Sequence[int], count: int) -> Network:
    """`count` members: [..., I] -> [count, ..., 2 O], means and then log variances of y."""
    num_inputs, num_outputs = sizes(spec)
    return nets.ensemble(nets.mlp((num_inputs, *hidden, 2 * num_outputs)), count)


def model_init(network: Network, spec: Spec, key: Array) -> Model:
    """Fresh members; inputs are not scaled yet."""
    num_inputs, num_outputs = sizes(spec)
    bound = jnp.ones(num_outputs)
    params = Params(network.init(key), UPPER * bound, LOWER * bound)
    opt = _optimiser(network).init(params)
    return Model(params, opt, jnp.zeros(num_inputs), jnp.ones(num_inputs))


def inputs(spec: Spec, obs: Array, action: Array) -> Array:
    """x before it is standardised: obs [..., D], action [..., A] -> [..., I]."""
    return jnp.concatenate([obs, spec.actions.features(action)], axis=-1)


def outputs(data: Transition) -> Array:
    """y of transitions: [..., O]."""
    return jnp.concatenate([data.reward[..., None], data.next_obs - data.obs], axis=-1)


def train(
    network: Network, spec: Spec, model: Model, data: Transition, passes: int, batches: int
) -> tuple[Model, Array]:
    """`passes` times over transitions [n] in `batches` parts; the mean loss of the last pass.

    From now on inputs are standardised by these transitions, which are draws with replacement.
    """
    x, y = inputs(spec, data.obs, data.action), outputs(data)
    std = jnp.std(x, axis=0)
    model = model._replace(mean=jnp.mean(x, axis=0), std=jnp.where(std < 1e-12, 1.0, std))
    return descend(network, model, x, y, passes, batches)


def descend(
    network: Network, model: Model, x: Array, y: Array, passes: int, batches: int
) -> tuple[Model, Array]:
    """The gradient steps of `train`, with the model's scale of the inputs x [n, I]."""
    x = _scale(model, x)
    parts = [values.reshape(batches, -1, values.shape[-1]) for values in (x, y)]
    optimiser = _optimiser(network)

    def step(carry: tuple[Params, Any], index: Array) -> tuple[tuple[Params, Any], Array]:
        params, opt = carry
        x, y = (part[index % batches] for part in parts)
        value, grads = jax.value_and_grad(lambda p: loss(network, p, x, y))(params)
        return optim.apply(optimiser, grads, opt, params), value

    carry, losses = jax.lax.scan(step, (model.params, model.opt), jnp.arange(passes * batches))
    return model._replace(params=carry[0], opt=carry[1]), jnp.mean(losses[-batches:])


def loss(network: Network, params: Params, x: Array, y: Array) -> Array:
    """L for standardised inputs [B, I] and outputs [B, O]."""
    mean, log_var = _members(network, params, x)
    fit = jnp.mean(jnp.square(mean - y[None]) * jnp.exp(-log_var)) + jnp.mean(log_var)
    return fit + BOUND_WEIGHT * (jnp.mean(params.upper) - jnp.mean(params.lower))


def predict(network: Network, spec: Spec, model: Model, obs: Array, action: Array) -> Normal:
    """Each member's prediction of y, [E, ..., O]."""
    x = _scale(model, inputs(spec, obs, action))
    mean, log_var = _members(network, model.params, x)
    return Normal(mean, jnp.exp(log_var))


def one_member(model: Model, index: Array) -> Model:
    """The model of member `index` alone, for use with a network of one member; no optimiser."""
    members = jax.tree.map(
        lambda x: jax.lax.dynamic_index_in_dim(x, index, keepdims=True), model.params.members
    )
    return model._replace(params=model.params._replace(members=members), opt=())


def imagine(normal: Normal, obs: Array, noise: Array) -> tuple[Array, Array]:
    """Reward [...] and next_obs [..., D] after `obs`, from standard normal `noise` [..., O]."""
    y = normal.mean + jnp.sqrt(normal.var) * noise
    return y[..., 0], obs + y[..., 1:]


def mixture(each: Normal) -> tuple[Normal, Array]:
    """The members [E, ..., O] as one normal distribution, and how much their means disagree [...].

    Mean and variance are those of a random member; the disagreement is the norm of the standard
    deviations of the means.
    """
    mean = jnp.mean(each.mean, axis=0)
    var = jnp.mean(jnp.square(each.mean) + each.var, axis=0) - jnp.square(mean) + VARIANCE_FLOOR
    return Normal(mean, var), jnp.linalg.norm(jnp.std(each.mean, axis=0), axis=-1)


def log_density(normal: Normal, y: Array) -> Array:
    """Log density of y [..., O], with independent outputs: [...]."""
    terms = jnp.log(normal.var) + jnp.square(y - normal.mean) / normal.var
    return -0.5 * jnp.sum(terms + math.log(2.0 * math.pi), axis=-1)


def _members(network: Network, params: Params, x: Array) -> tuple[Array, Array]:
    """Mean and log variance of every member, [E, ..., O]."""
    mean, log_var = jnp.split(network.apply(params.members, x), 2, axis=-1)
    upper, lower = (jnp.expand_dims(b, range(mean.ndim - 1)) for b in (params.upper, params.lower))
    log_var = upper - jax.nn.softplus(upper - log_var)
    return mean, lower + jax.nn.softplus(log_var - lower)


def _scale(model: Model, x: Array) -> Array:
    shape = [1] * (x.ndim - 1) + [-1]
    return (x - model.mean.reshape(shape)) / model.std.reshape(shape)


def _optimiser(network: Network) -> Any:
    return network.adam(LEARNING_RATE, eps=1e-8)

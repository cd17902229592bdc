"""What actions are drawn from: each family keeps its promises, and agents take any of them.

`Gaussian` is here to show that a second family needs nothing but itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.flatten_util import ravel_pytree
from small_agents import T, random_batch, small_config, updater

from lcpo.agents import AGENTS, on_policy
from lcpo.core import nets, replay, trust_region
from lcpo.distributions import Categorical, Distribution
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.plan.check import check_agent, check_spec
from lcpo.types import Transition

KEY = jax.random.key(0)
close = np.testing.assert_allclose
MIN_LOG_STD, MAX_LOG_STD = -3.0, 1.0


@dataclasses.dataclass(frozen=True)
class Gaussian(Distribution):
    """Independent normals. Parameters are means and log standard deviations, [..., A, 2]."""

    dims: int
    dtype = stored_dtype = jnp.float32

    def __post_init__(self) -> None:
        entropy = MAX_LOG_STD + 0.5 * math.log(2 * math.pi * math.e)
        vars(self).update(
            size=self.dims,
            num_outputs=2 * self.dims,
            num_features=self.dims,
            max_entropy=self.dims * entropy,
        )

    def params(self, outputs: Array) -> Array:
        mean, x = jnp.split(outputs.reshape(*outputs.shape[:-1], self.size, 2), 2, axis=-1)
        log_std = MIN_LOG_STD + (MAX_LOG_STD - MIN_LOG_STD) * jax.nn.sigmoid(x)
        return jnp.concatenate([mean, log_std], axis=-1)

    def sample(self, params: Array, key: Array) -> Array:
        mean, log_std = jnp.moveaxis(params, -1, 0)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

    def random(self, uniform: Array) -> Array:
        return 2.0 * uniform - 1.0

    def log_prob(self, params: Array, action: Array) -> Array:
        mean, log_std = jnp.moveaxis(params, -1, 0)
        z = (action - mean) / jnp.exp(log_std)
        return jnp.sum(-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self, params: Array) -> Array:
        return jnp.sum(params[..., 1] + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def kl(self, old: Array, new: Array) -> Array:
        (m0, s0), (m1, s1) = jnp.moveaxis(old, -1, 0), jnp.moveaxis(new, -1, 0)
        spread = (jnp.exp(2 * s0) + (m0 - m1) ** 2) / (2 * jnp.exp(2 * s1))
        return jnp.sum(s1 - s0 + spread - 0.5, axis=-1)

    def curvature(self, params: Array) -> Callable[[Array], Array]:
        precision = jnp.exp(-2.0 * params[..., 1])
        diagonal = jnp.stack([precision, jnp.full_like(precision, 2.0)], axis=-1)
        return lambda tangent: diagonal * tangent

    def contains(self, action: np.ndarray) -> bool:
        return action.shape == (self.size,) and bool(np.isfinite(action).all())

    def features(self, action: Array) -> Array:
        return action

    def __str__(self) -> str:
        return f"{self.size} real numbers"

    def mode(self, summary: Array) -> Array:
        return summary[..., 0]


FAMILIES = [Categorical((4, 3)), Gaussian(2)]
each_family = pytest.mark.parametrize("actions", FAMILIES, ids=["categorical", "gaussian"])
REAL = Pendulum().spec._replace(num_actions=(), distribution=Gaussian(2))
"""The Pendulum's observations with other actions."""


def outputs_of(actions: Distribution, *lead: int) -> Array:
    return jax.random.normal(KEY, (*lead, actions.num_outputs))


@each_family
def test_shapes_and_kinds(actions: Distribution) -> None:
    params = actions.params(outputs_of(actions, 5, 7))
    action = actions.sample(params, KEY)
    mode, random = (
        actions.mode(actions.summary(params)),
        actions.random(jnp.full(action.shape, 0.9)),
    )
    for found in (action, mode, random):
        assert (found.shape, found.dtype) == ((5, 7, actions.size), actions.dtype)
    for found in (actions.log_prob(params, action), actions.entropy(params)):
        assert found.shape == (5, 7)
    assert actions.features(action).shape == (5, 7, actions.num_features)
    assert actions.contains(np.asarray(action[0, 0]))
    assert not actions.contains(np.asarray(action[0]))
    assert hash(actions) == hash(dataclasses.replace(actions))  # pyright: ignore


@each_family
def test_the_largest_entropy_is_the_largest(actions: Distribution) -> None:
    params = actions.params(3.0 * outputs_of(actions, 1000))
    entropy = np.asarray(actions.entropy(params))
    assert entropy.max() <= actions.max_entropy + 1e-5
    drawn = actions.sample(jnp.broadcast_to(params[:1], (20_000, *params.shape[1:])), KEY)
    close(-actions.log_prob(params[:1], drawn).mean(), entropy[0], atol=0.05)


@each_family
def test_the_curvature_is_the_hessian_of_the_kl(actions: Distribution) -> None:
    params = actions.params(outputs_of(actions, 6))
    one = params.shape[1:]

    def dense(old: Array) -> Array:
        return jax.hessian(lambda new: actions.kl(old[None], new.reshape(1, *one))[0])(old.ravel())

    tangents = jnp.eye(params[0].size)
    found = jax.vmap(
        lambda t: actions.curvature(params)(jnp.broadcast_to(t.reshape(one), params.shape)),
        out_axes=-1,
    )(tangents)
    close(found.reshape(6, len(tangents), -1), jax.vmap(dense)(params), rtol=1e-4, atol=1e-5)


@each_family
def test_the_fisher_product_is_the_hessian_through_a_network(actions: Distribution) -> None:
    network = nets.per_action(nets.mlp((3, 4, actions.num_outputs)), actions)
    policy, obs = network.init(KEY), jax.random.normal(KEY, (10, 3))
    product, old = trust_region.fisher_product(actions, network, policy, obs, 0.0)
    flat, unravel = ravel_pytree(policy)
    dense = jax.hessian(
        lambda x: jnp.mean(actions.kl(old, network.apply(unravel(x), obs)))
    )(flat)  # fmt: skip
    close(jax.vmap(product)(jnp.eye(flat.size)), dense, rtol=1e-3, atol=1e-5)


def real_batch(key: Array) -> Transition:
    batch = random_batch(Pendulum().spec, key)
    return batch._replace(action=jax.random.normal(key, (T, 1, REAL.action_size)))


@pytest.mark.parametrize(
    "name", ["a2c", "trpo", "ppo", "lcpo", "lcpo-p", "lcpo-plus", "clear", "random"]
)
def test_agents_take_any_family(name: str) -> None:
    agent = AGENTS[name]
    check_agent(agent, small_config(agent), REAL)


def test_lcpo_holds_a_gaussian_policy_on_its_anchors() -> None:
    agent = AGENTS["lcpo-uniform"]
    config = jax.tree.map(jnp.float32, small_config(agent, c_anchor=1e-3, damping=1e-3))
    state = agent.init(config, REAL, KEY)
    policy = on_policy.make_networks(config, REAL).policy
    active, before = [], state
    for number in range(4):
        key, before = jax.random.key(number), state
        state, metrics = updater(agent)(config, REAL, state, real_batch(key), key)
        active.append(float(metrics["constraint_active"]))
        assert all(np.isfinite(v) for v in metrics.values())
        assert metrics["anchor_kl"] <= 1e-3
    assert active == [0.0, 1.0, 1.0, 1.0]
    obs = real_batch(KEY).obs[:, 0]
    old, new = (policy.apply(s.learner.policy, obs) for s in (before, state))
    assert np.any(np.asarray(old) != np.asarray(new)), "the last step was refused"
    action, _ = agent.act(config, REAL, state, obs, KEY)
    assert action.dtype == jnp.float32
    summary = agent.probabilities(config, REAL, state, obs)  # pyright: ignore
    close(REAL.actions.mode(summary), new[..., 0])


def test_a_replay_stores_real_actions() -> None:
    ring = replay.replay_init(REAL, 3 * T, T)
    batch = real_batch(KEY)
    ring = replay.replay_add(ring, REAL, batch)
    found = replay.replay_rows(ring, REAL, jnp.arange(T), jnp.zeros(T, int))
    np.testing.assert_array_equal(found.action, batch.action[:, 0])
    np.testing.assert_array_equal(found.terminated, batch.terminated[:, 0])
    np.testing.assert_array_equal(found.truncated, batch.truncated[:, 0])


@pytest.mark.parametrize("name", ["ddqn", "sac", "constant", "mbpo"])
def test_agents_that_need_numbers_of_actions_say_so(name: str) -> None:
    agent = AGENTS[name]
    with pytest.raises(InputError, match="has 2 real numbers: this needs discrete actions"):
        check_agent(agent, small_config(agent), REAL)


def test_a_spec_names_one_family() -> None:
    check_spec(REAL)
    for odd in (REAL._replace(num_actions=(3,)), REAL._replace(distribution=3)):  # pyright: ignore
        with pytest.raises(InputError, match="needs either num_actions or"):
            check_spec(odd)

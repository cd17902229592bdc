"""Agents and their networks: the spec chooses the kind, and hooks see the gradients."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_agents import RULES, assert_close, random_batch, small_config

from lcpo import config as configs
from lcpo.agents import AGENTS, ddqn, off_policy, on_policy, presets, sac
from lcpo.core import optim
from lcpo.core.nets import Network
from lcpo.straggler.task import Straggler
from lcpo.types import ContextSlice, Spec, Transition

KEY = jax.random.key(0)
SPEC = Spec(9, ContextSlice(7, 2, 1), (4, 3), elements=(3, 2))
"""Three elements of two numbers, one other entry, a context of two."""


SACS = ("mbpo", "ideal-mbpo", "mbcd")
"""Their policies and critics are SAC's."""
WITH_NETWORKS = [
    name
    for name, agent in AGENTS.items()
    if not agent.parent and "tabular" not in name and name not in (*SACS, *RULES)
]


SOON = ("ddqn", "sac")
"""Two ways to make networks; the others wait for `make test-slow`."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in SOON else [pytest.mark.learn]) for n in WITH_NETWORKS],
)
def test_every_agent_can_have_a_deep_set(name: str) -> None:
    """After an update the order of the elements still does not matter."""
    agent, obs = AGENTS[name], jax.random.normal(KEY, (5, 9))
    config = small_config(agent, random_steps=0) if name == "sac" else small_config(agent)
    state = agent.init(config, SPEC, KEY)
    update = jax.jit(agent.update, static_argnums=1)
    state, metrics = update(config, SPEC, state, random_batch(SPEC, KEY), KEY)
    assert all(np.isfinite(v) for v in metrics.values())
    assert agent.probabilities is not None
    swapped = jnp.concatenate([obs[:, 2:6], obs[:, :2], obs[:, 6:]], axis=1)
    one, other = (agent.probabilities(config, SPEC, state, x) for x in (obs, swapped))
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", ["a2c", "sac"])
def test_servers_may_change_their_order(name: str) -> None:
    """On the straggler task, any order of the ten: the same policy, and the same values."""
    agent, spec = AGENTS[name], Straggler().spec
    config = agent.config(**presets.settings(agent, "straggler", Straggler))
    more = {"random_steps": 0, "buffer_size": 512} if name == "sac" else {}
    config = dataclasses.replace(config, **more)
    state: Any = agent.init(config, spec, KEY)
    obs = jnp.abs(jax.random.normal(KEY, (20, spec.obs_size))) * 10.0
    order = jax.random.permutation(jax.random.key(1), 10)
    servers = obs[:, :20].reshape(20, 10, 2)[:, order].reshape(20, 20)
    assert agent.probabilities is not None
    if name == "sac":
        network, params = off_policy.make_network(config, spec), state.learner.critics[0]
    else:
        network, params = on_policy.make_networks(config, spec).value, state.value
    both = (obs, jnp.concatenate([servers, obs[:, 20:]], axis=1))
    one, other = (
        (agent.probabilities(config, spec, state, x), network.apply(params, x)) for x in both
    )
    assert_close(one, other, 1e-6)
    assert np.ptp(np.asarray(one[0]), axis=0).max() > 1e-2


def remember_and_drop() -> optax.GradientTransformation:
    """Its state is the gradient that it saw last; it gives none on."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del state, params
        return jax.tree.map(jnp.zeros_like, updates), updates

    return optax.GradientTransformation(lambda params: jax.tree.map(jnp.zeros_like, params), update)


@configs.config
class Hooked(sac.Config):
    def optimisers(self, network: Network) -> sac.Optimisers:
        return sac.adams(self, network, [remember_and_drop()] * 3)


def sac_data() -> Transition:
    return jax.tree.map(lambda x: x[:, 0], random_batch(SPEC, KEY))


@pytest.mark.learn
def test_hooks_see_and_change_the_gradients_of_sac() -> None:
    """They come before the norm limit, L2 and Adam, which then get what the hook gives."""
    config = configs.make(Hooked, configs.to_json(small_config(sac.agent)))
    network = off_policy.make_network(config, SPEC)
    before = jax.jit(lambda key: sac.learner_init(config, SPEC, key))(KEY)
    data = sac_data()
    after, metrics = jax.jit(lambda learner: sac.step(config, SPEC, learner, data))(before)
    moved = before._replace(policy=after.policy)

    @jax.jit
    def expected(before: Any, moved: Any) -> Any:
        y = sac.target(config, SPEC, moved, data)
        seen = [ddqn.gradient(network, critic, data, y)[2] for critic in before.critics]
        return sac.policy_gradient(config, SPEC, before, data)[1], seen

    grads, seen = expected(before, moved)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)  # noqa: E731
    jax.tree.map(close, after.policy_opt[0], grads)
    jax.tree.map(close, [opt[0] for opt in after.critic_opts], seen)
    assert metrics["grad_norm"] > 1e-3

    @partial(jax.jit, static_argnums=1)
    def with_no_gradient(params: Any, rate: float) -> Any:
        adam = optim.adam(rate, config.max_grad_norm)
        zeros = jax.tree.map(jnp.zeros_like, params)
        return optim.apply(adam, zeros, adam.init(params), params)[0]

    jax.tree.map(close, after.policy, with_no_gradient(before.policy, config.learning_rate))
    for critic, old in zip(after.critics, before.critics, strict=True):
        jax.tree.map(close, critic, with_no_gradient(old, config.value_learning_rate))


def test_without_hooks_the_optimisers_are_as_ever() -> None:
    config = small_config(sac.agent)
    learner = sac.learner_init(config, SPEC, KEY)
    plain = optim.adam(0.0, 1.0).init(learner.policy)
    assert jax.tree.structure(learner.policy_opt) == jax.tree.structure(plain)

"""Online EWC beyond the golden vectors: what is averaged, and what holds which network."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import assert_close, random_batch, small_config

from lcpo import distributions as dists
from lcpo.agents import off_policy, online_ewc, sac
from lcpo.agents.online_ewc import Past
from lcpo.core import nets, replay
from lcpo.types import ContextSlice, Spec, Transition

SPEC = Spec(4, ContextSlice(4, 0, 0), (5, 3))
KEY = jax.random.key(0)
step = jax.jit(online_ewc.step, static_argnums=1)


def started(**values: Any) -> tuple[Any, sac.ActorCritics, Transition, jax.Array]:
    """A config, a fresh learner, transitions [16] and uniform numbers [16, 2]."""
    config = small_config(online_ewc.agent, batch_size=16, **values)
    learner = online_ewc.agent.init(config, SPEC, KEY).learner
    data = jax.tree.map(lambda x: x[:, 0], random_batch(SPEC, KEY))
    return config, learner, data, jax.random.uniform(KEY, (16, 2))


def opts(learner: sac.ActorCritics) -> tuple:
    return (learner.policy_opt, *learner.critic_opts)


def test_the_first_step_is_taken_whole_and_then_averages_follow() -> None:
    """F: 3, then 3 + (5 - 3) / 10; theta*: the weights, then a tenth of the way to others."""
    config, learner, *_ = started(averaging_rate=0.1)
    each = (learner.policy, *learner.critics)

    def fill(value: float) -> tuple[Any, Any, Any]:
        one, two, three = (jax.tree.map(lambda x: jnp.full_like(x, value), net) for net in each)
        return one, two, three

    first = online_ewc.follow(config, learner, fill(3.0))
    for opt, net in zip(opts(first), each, strict=True):
        assert_close(opt[0].weights, net, 0.0)
        assert_close(opt[0].importance, fill(3.0)[0], 0.0)
        assert opt[0].num_updates == 1
    policy, *critics = fill(2.0)
    moved = first._replace(policy=policy, critics=tuple(critics))
    for opt, net in zip(opts(online_ewc.follow(config, moved, fill(5.0))), each, strict=True):
        assert_close(opt[0].weights, jax.tree.map(lambda x: 0.9 * x + 0.2, net), 1e-6)
        assert_close(opt[0].importance, fill(3.2)[0], 1e-6)


@pytest.mark.learn
def test_importances_are_mean_squares_of_each_sample_s_gradient() -> None:
    """Of log pi of the drawn actions, and of each critic's squared error."""
    config, learner, data, uniform = started()
    network = off_policy.make_network(config, SPEC)
    y = sac.target(config, SPEC, learner, data)
    drawn = dists.sample(network.apply(learner.policy, data.obs), uniform)

    def log_prob(params: Any, i: jax.Array) -> jax.Array:
        return dists.log_prob(network.apply(params, data.obs[i]), drawn[i])

    def error(params: Any, i: jax.Array) -> jax.Array:
        q = network.apply(params, data.obs[i])
        return (off_policy.total_q(q, data.action[i]) - y[i]) ** 2

    found = online_ewc.importances(config, SPEC, learner, data, y, uniform)
    each = (learner.policy, *learner.critics)
    for mine, params, function in zip(found, each, (log_prob, error, error), strict=True):
        gradient = jax.jit(jax.grad(function))
        grads = [ravel_pytree(gradient(params, jnp.int32(i)))[0] for i in range(16)]
        expected = np.mean(np.square(grads), axis=0)
        np.testing.assert_allclose(ravel_pytree(mine)[0], expected, rtol=1e-4, atol=1e-7)


def test_the_fault_squares_running_sums_of_gradients() -> None:
    """Over more samples than are summed at a time."""
    network = nets.mlp((3, 2))
    params, x = network.init(KEY), jax.random.normal(KEY, (2 * online_ewc.CHUNK, 3))
    deltas = jax.random.normal(jax.random.key(1), (len(x), 2))
    found = online_ewc.running_sums(network, params, x, deltas)
    outer = np.asarray(x, np.float64)[:, :, None] * np.asarray(deltas)[:, None]
    for mine, grads in zip(found[0], (outer, np.asarray(deltas)), strict=True):
        expected = np.mean(np.cumsum(grads, axis=0) ** 2, axis=0)
        np.testing.assert_allclose(mine, expected, rtol=1e-4)


@pytest.mark.parametrize("faults", [(), (online_ewc.FREE_CRITIC,)], ids=["all", "free critic"])
def test_which_networks_are_held(faults: tuple[str, ...]) -> None:
    """A strong pull brings a network nearer to its past than no pull; both critics are held."""
    config, learner, data, uniform = started(faults=faults, penalty_coef=100.0)
    each = (learner.policy, *learner.critics)

    def distances(importance: float) -> list[float]:
        """Of each network to the past, after a step."""
        pasts = [
            Past(
                jax.tree.map(lambda x: x + 0.1, net),
                jax.tree.map(lambda x: jnp.full_like(x, importance), net),
                jnp.int32(1),
            )
            for net in each
        ]
        held = [(past, *opt[1:]) for past, opt in zip(pasts, opts(learner), strict=True)]
        start = learner._replace(policy_opt=held[0], critic_opts=(held[1], held[2]))
        after, _ = step(config, SPEC, start, data, uniform)
        ends = (after.policy, *after.critics)
        flat = [[ravel_pytree(x)[0] for x in pair] for pair in zip(ends, each, strict=True)]
        return [float(jnp.sum(old + 0.1 - end)) for end, old in flat]

    nearer = [held < free for held, free in zip(distances(1.0), distances(0.0), strict=True)]
    assert nearer == [True, True, not faults]


@pytest.mark.learn
def test_every_gradient_step_draws_actions_of_its_own() -> None:
    """Two steps of an update, and the same two by hand."""
    config = small_config(
        online_ewc.agent, batch_size=16, updates_per_rollout=2, averaging_rate=0.5
    )
    state, batch = online_ewc.agent.init(config, SPEC, KEY), random_batch(SPEC, KEY)
    after, _ = jax.jit(online_ewc.update, static_argnums=1)(config, SPEC, state, batch, KEY)
    drawn = replay.replay_sample(replay.replay_add(state.memory, SPEC, batch), SPEC, 32, KEY)
    uniform = jax.random.uniform(jax.random.fold_in(KEY, 1), (2, 16, 2))
    learner = state.learner
    for i in range(2):
        data = jax.tree.map(lambda x, i=i: x[16 * i : 16 * (i + 1)], drawn)
        learner, _ = step(config, SPEC, learner, data, uniform[i])
    assert_close(after.learner, learner, 1e-4)

"""CLEAR: what its two blocks are, what is kept of the past, and what the faults change."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import T, random_batch, small_config, started, updater

from lcpo import distributions as dists
from lcpo.agents import AGENTS, clear, on_policy
from lcpo.core import replay
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.types import Guard, Transition

close = np.testing.assert_allclose
AGENT = AGENTS["clear"]
SPEC = Pendulum().spec


@pytest.fixture(scope="module")
def blocks() -> tuple[Any, on_policy.State, Transition, Transition]:
    """A config, a learner, and two blocks.

    In the past one another policy, which was surer of itself, took its favourite actions.
    """
    config, spec, state = started(AGENT, scale_rewards=False)
    networks = on_policy.make_networks(config, spec)
    others = on_policy.init(config, spec, jax.random.key(9))
    others = others._replace(policy=jax.tree.map(lambda x: 2.0 * x, others.policy))
    fresh, past = (random_batch(spec, jax.random.key(k)) for k in (3, 4))
    fresh = fresh._replace(extra=clear.behaviour(SPEC, networks, state.learner, fresh.obs))
    favourite = jnp.argmax(networks.policy.apply(others.policy, past.obs), axis=-1)
    past = past._replace(action=favourite, extra=clear.behaviour(SPEC, networks, others, past.obs))
    return config, state.learner, fresh, past


def estimate(config: Any, learner: on_policy.State, fresh: Transition, past: Transition) -> Any:
    return clear.estimate(config, SPEC, learner, fresh, past)


@pytest.mark.learn
def test_what_a_guard_did_is_no_evidence_of_the_policy(blocks: Any) -> None:
    """It would have done the same under any: ratio 1; and its states are not cloned."""
    config, learner, fresh, past = blocks
    past = past._replace(weight=jnp.where(jnp.arange(T) < 9, 0.0, 1.0)[:, None])
    spec = SPEC._replace(guard=Guard(0, (1,)))
    networks = on_policy.make_networks(config, spec)
    data, ratio = clear.estimate(config, spec, learner, fresh, past)
    ruled = np.asarray(data.weight == 0.0)
    np.testing.assert_array_equal(ratio[ruled], 1.0)
    plain = estimate(config, learner, fresh, past)[1]
    np.testing.assert_array_equal(ratio[~ruled], plain[~ruled])
    assert np.abs(plain[ruled] - 1.0).max() > 0.1
    elsewhere = data._replace(obs=jnp.where(ruled[:, None], 5.0, data.obs))
    losses = [
        clear.policy_loss(learner.policy, config, SPEC, networks, d, jnp.float32(0.1))
        for d in (data, elsewhere)
    ]
    close(*losses, rtol=1e-5)


def test_what_is_kept_is_what_the_policy_and_value_said(blocks: Any) -> None:
    config, learner, fresh, _ = blocks
    networks = on_policy.make_networks(config, SPEC)
    log_mu, value_mu = fresh.extra[..., :-1], fresh.extra[..., -1]
    expected = on_policy.probabilities(config, SPEC, learner, fresh.obs[:, 0])
    close(jnp.exp(log_mu[:, 0]), expected.reshape(T, -1), rtol=1e-5, atol=1e-6)
    close(value_mu, networks.value.apply(learner.value, fresh.obs)[..., 0], rtol=1e-5, atol=1e-6)


def test_an_update_keeps_the_policy_that_acted_not_the_one_it_makes() -> None:
    config, spec, state = started(AGENT)
    batch = random_batch(spec, jax.random.key(5))
    after, _ = updater(AGENT)(config, spec, state, batch, jax.random.key(6))
    first = int(state.memory.added)
    rows = (first + jnp.arange(T)) % state.memory.num_rows
    kept = replay.replay_rows(after.memory, spec, rows, 0 * rows).extra
    networks = on_policy.make_networks(config, spec)
    old, new = (clear.behaviour(spec, networks, s.learner, batch.obs)[:, 0] for s in (state, after))
    close(kept, old, rtol=1e-5, atol=1e-5)
    assert np.abs(kept - new).max() > 1e-4


def test_the_newest_block_is_on_policy_and_blocks_do_not_meet(blocks: Any) -> None:
    """Ratios of 1 in the newest block; what the past one holds does not reach it, but by fault."""
    config, learner, fresh, past = blocks
    data, ratio = estimate(config, learner, fresh, past)
    is_past = np.asarray(data.is_past, bool)
    close(ratio[~is_past], 1.0, rtol=1e-5)
    assert np.abs(ratio[is_past] - 1.0).max() > 0.1
    changed = past._replace(reward=past.reward + 5.0)
    target = estimate(config, learner, fresh, changed)[0].target
    np.testing.assert_array_equal(target[~is_past], data.target[~is_past])
    assert np.abs(target - data.target)[is_past].min() > 1.0

    faulty = dataclasses.replace(config, faults=(clear.BLOCKS_LEAK,))
    fresh = fresh._replace(terminated=fresh.terminated & False, truncated=fresh.truncated & False)
    one, other = (estimate(faulty, learner, fresh, block)[0].target for block in (past, changed))
    assert np.abs(one - other)[:T].min() > 0.1


def test_a_step_that_lasted_is_discounted_for_as_long(blocks: Any) -> None:
    """Steps of length 3 at gamma are steps of length 1 at gamma^3, in both blocks."""
    config, learner, fresh, past = blocks
    lasting = [block._replace(elapsed=3.0 * block.elapsed) for block in (fresh, past)]
    found = estimate(config, learner, *lasting)[0]
    cubed = dataclasses.replace(config, gamma=config.gamma**3)
    expected = estimate(cubed, learner, fresh, past)[0]
    close(found.target, expected.target, rtol=1e-4, atol=1e-5)
    close(found.advantage, expected.advantage, rtol=1e-4, atol=1e-5)
    apart = np.abs(found.target - estimate(config, learner, fresh, past)[0].target)
    is_past = np.asarray(found.is_past, bool)
    assert min(apart[is_past].max(), apart[~is_past].max()) > 1e-2


def test_losses_are_those_of_the_docstring(blocks: Any) -> None:
    config, learner, fresh, past = blocks
    networks = on_policy.make_networks(config, SPEC)
    data, _ = estimate(config, learner, fresh, past)
    is_past = np.asarray(data.is_past, bool)
    assert is_past.sum() == T == (~is_past).sum()
    config = dataclasses.replace(config, value_clone_coef=0.7, policy_clone_coef=0.3)

    value = np.asarray(networks.value.apply(learner.value, data.obs)[:, 0])
    expected = ((value - data.target) ** 2).mean()
    expected += 0.7 * ((value - data.value_mu)[is_past] ** 2).mean()
    close(clear.value_loss(learner.value, config, networks, data), expected, rtol=1e-5)

    log_pi = np.asarray(jax.nn.log_softmax(networks.policy.apply(learner.policy, data.obs)))
    log_mu = np.asarray(data.mu)
    kl = (np.exp(log_mu) * (log_mu - log_pi)).sum((1, 2))
    chosen = np.asarray(dists.log_prob(jnp.asarray(log_pi), data.action))
    entropy = -(np.exp(log_pi) * log_pi).sum((1, 2))
    expected = -(data.advantage * chosen + 0.2 * entropy).mean() + 0.3 * kl[is_past].mean()
    loss, clone = clear.policy_loss(learner.policy, config, SPEC, networks, data, jnp.float32(0.2))
    close(loss, expected, rtol=1e-5)
    close(clone, kl[is_past].mean(), rtol=1e-5)


def test_cloning_attracts_and_the_published_one_repels(blocks: Any) -> None:
    """A step down the cloning loss alone makes what was done in the past more likely, or less."""
    config, learner, fresh, past = blocks
    networks = on_policy.make_networks(config, SPEC)
    data, _ = estimate(config, learner, fresh, past)
    data = data._replace(advantage=jnp.zeros_like(data.advantage))
    is_past = np.asarray(data.is_past, bool)

    def gain(faults: tuple[str, ...]) -> float:
        chosen = dataclasses.replace(config, policy_clone_coef=jnp.float32(1.0), faults=faults)

        def loss(policy: Any) -> Any:
            return clear.policy_loss(policy, chosen, SPEC, networks, data, jnp.float32(0.0))[0]

        policy = jax.tree.map(
            lambda p, g: p - 1e-3 * g, learner.policy, jax.grad(loss)(learner.policy)
        )
        said = [
            dists.log_prob(networks.policy.apply(p, data.obs), data.action)[is_past]
            for p in (learner.policy, policy)
        ]
        return float(jnp.mean(said[1] - said[0]))

    assert gain(()) > 0.0 > gain((clear.CLONING_REPELS,))


def test_a_replay_smaller_than_a_block_is_refused() -> None:
    config = small_config(AGENT, buffer_size=T - 1)
    with pytest.raises(InputError, match=f"buffer_size = {T - 1}: needs at least one rollout, {T}"):
        clear.check(config, SPEC)

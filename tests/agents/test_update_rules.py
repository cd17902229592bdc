"""What updates promise where the golden vectors do not look: scales, entropy, moments, weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import T, assert_close, assert_same, random_batch, small_config

from lcpo import distributions as dists
from lcpo.agents import (
    a2c,
    anchors,
    common,
    ddqn,
    lcpo,
    lcpo_p,
    off_policy,
    on_policy,
    ppo,
    sac,
    tabular_a2c,
    trpo,
)
from lcpo.agents.anchors import Anchors
from lcpo.core import buffers, ood, trust_region
from lcpo.core.trust_region import Limit
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.types import AnyAgent, ContextSlice, Spec, Transition

SPEC = Pendulum().spec
KEY = jax.random.key(0)
close = np.testing.assert_allclose
estimate = jax.jit(
    lambda config, spec, state, batch: on_policy.estimate(
        config, on_policy.make_networks(config, spec), state, batch
    ),
    static_argnums=1,
)


def started(agent: AnyAgent, spec: Spec = SPEC, **overrides: Any) -> tuple[Any, on_policy.State]:
    """A config and a fresh on-policy learner."""
    config = jax.tree.map(jnp.float32, small_config(agent, **overrides))
    return config, on_policy.init(config, spec, KEY)


def prepared(agent: AnyAgent, **overrides: Any) -> tuple[Any, on_policy.State, on_policy.Data]:
    """A config, a fresh learner, and the data of one batch."""
    config, state = started(agent, **overrides)
    return config, *estimate(config, SPEC, state, random_batch(SPEC, KEY))


def ended(batch: Transition, terminated: int, truncated: int) -> Transition:
    """The batch with one end of each kind, at these steps."""
    none = jnp.zeros_like(batch.terminated)
    flags = {"terminated": none.at[terminated].set(True), "truncated": none.at[truncated].set(True)}
    return batch._replace(**flags)


def test_rewards_are_scaled_by_returns_that_include_the_batch() -> None:
    """By hand, over two batches: the running return starts anew after either kind of end."""
    config, state = started(a2c.agent)
    state = state._replace(value=jax.tree.map(jnp.zeros_like, state.value))  # no bootstrap
    plain = dataclasses.replace(config, scale_rewards=False)
    running, seen = 0.0, np.array([])
    for number, ends in enumerate([(3, 9), (5, T - 1), (2, 7)]):
        batch = ended(random_batch(SPEC, jax.random.key(number)), *ends)
        for t in range(T):
            running = 0.99 * running + float(batch.reward[t, 0])
            seen = np.append(seen, running)
            running = 0.0 if t in ends else running
        unscaled = estimate(plain, SPEC, state, batch)[1]
        state, data = estimate(config, SPEC, state, batch)
        close(data.target, unscaled.target / np.sqrt(seen.var() + 1.0), rtol=1e-4)
        close(data.advantage, unscaled.advantage / np.sqrt(seen.var() + 1.0), rtol=1e-4, atol=1e-6)
        close(state.running_return, [running], rtol=1e-5, atol=1e-6)


def test_entropy_is_tuned_by_the_new_policy() -> None:
    """A learning rate so large that the entropies before and after the step differ."""
    config, state = started(a2c.agent, learning_rate=0.1, entropy_coef=0.1, entropy_target=0.5)
    batch = random_batch(SPEC, KEY)
    after, metrics = jax.jit(a2c.update, static_argnums=1)(config, SPEC, state, batch, KEY)
    obs = batch.obs.reshape(-1, SPEC.obs_size)
    policy = on_policy.make_networks(config, SPEC).policy
    old, new = (jnp.mean(dists.entropy(policy.apply(s.policy, obs))) for s in (state, after))
    assert abs(old - new) > 0.02
    close(metrics["entropy"], new, rtol=1e-5)
    assert_close(after.entropy, common.tune_entropy(config, SPEC, state.entropy, new), 1e-4)


def test_sacs_entropy_is_that_of_the_states_it_learned_from() -> None:
    """On s and not on s', with the new policy."""
    config = sac.agent.config(
        hidden=(8,), buffer_size=64, rollout_length=8, learning_rate=0.1, entropy_target=0.5
    )
    learner = sac.learner_init(config, SPEC, KEY)
    batch = random_batch(SPEC, KEY)
    data: Transition = jax.tree.map(lambda x: x[:, 0], batch)
    after, metrics = jax.jit(sac.step, static_argnums=1)(config, SPEC, learner, data)
    logits = off_policy.make_network(config, SPEC).apply(after.policy, data.obs)
    entropy = jnp.mean(dists.entropy(logits))
    close(metrics["entropy"], entropy, rtol=1e-5)
    assert_close(after.entropy, common.tune_entropy(config, SPEC, learner.entropy, entropy), 1e-4)


def test_the_target_entropy_is_a_share_of_the_largest() -> None:
    """Summed over dimensions of unequal size: no step at the target, and no step without one."""
    spec = SPEC._replace(num_actions=(4, 2))
    config = a2c.agent.config(entropy_coef=0.1, entropy_target=0.25)
    tuner = on_policy.init(small_config(a2c.agent), SPEC, KEY).entropy
    at_target = common.tune_entropy(config, spec, tuner, jnp.float32(0.25 * np.log(8)))
    assert abs(float(at_target.log_scale)) < 1e-4
    above = common.tune_entropy(config, spec, tuner, jnp.float32(0.3 * np.log(8)))
    close(above.log_scale, -1e-3, rtol=1e-3)  # Adam's first step
    fixed = dataclasses.replace(config, entropy_target=0.0)
    assert_same(common.tune_entropy(fixed, spec, tuner, jnp.float32(1.0)), tuner)


@pytest.mark.learn
def test_adams_moments_rest_while_steps_are_anchored() -> None:
    """And only then: a step without anchors is A2C's."""
    config, state, data = prepared(lcpo.agent)
    obs = jax.random.normal(jax.random.key(1), data.obs.shape)
    learn = jax.jit(lcpo.learn, static_argnums=1)
    free, metrics = learn(config, SPEC, state, data, Anchors(obs, jnp.bool_(False)))
    assert metrics["constraint_active"] == 0.0
    policy = on_policy.make_networks(config, SPEC).policy
    gradient = on_policy.policy_gradient(config, SPEC, policy, state, data)
    stepped, moments = on_policy.adam_step(config, policy, state, gradient.grads)
    assert_close((free.policy, free.policy_opt), (stepped, moments), 1e-5)
    held, metrics = learn(config, SPEC, free, data, Anchors(obs, jnp.bool_(True)))
    assert metrics["step_fraction"] > 0.0
    assert np.any(ravel_pytree(held.policy)[0] != ravel_pytree(free.policy)[0])
    assert_same(held.policy_opt, free.policy_opt)


def kl_on(config: Any, obs: jax.Array, old: Any, new: Any) -> float:
    """Mean KL(old || new) of two policies' parameters."""
    policy = on_policy.make_networks(config, SPEC).policy
    return float(jnp.mean(dists.kl(policy.apply(old, obs), policy.apply(new, obs))))


def test_lcpo_obeys_each_of_its_limits() -> None:
    """Hardly any damping, so that full steps reach for the limits; one binds at a time."""
    config, state, data = prepared(lcpo.agent, damping=1e-3)
    obs = jax.random.normal(jax.random.key(1), data.obs.shape)
    learn = jax.jit(lcpo.learn, static_argnums=1)

    def update(c_anchor: float, c_recent: float) -> tuple[float, float, float]:
        values = {"c_anchor": jnp.float32(c_anchor), "c_recent": jnp.float32(c_recent)}
        limited = dataclasses.replace(config, **values)
        after, metrics = learn(limited, SPEC, state, data, Anchors(obs, jnp.bool_(True)))
        on_anchors = kl_on(config, obs, state.policy, after.policy)
        on_recent = kl_on(config, data.obs, state.policy, after.policy)
        return on_anchors, on_recent, float(metrics["step_fraction"])

    for c_anchor in np.logspace(-4, -1, 7):
        on_anchors, on_recent, fraction = update(c_anchor, 10.0)
        assert fraction > 0.0
        assert on_anchors <= c_anchor * 1.001
        assert on_anchors > 0.1 * c_anchor, "the limit is out of reach: this tests nothing"
        held = update(c_anchor, 0.3 * on_recent)
        assert held[1] <= 0.3 * on_recent * 1.001
        assert 0.0 < held[2] < fraction


def test_the_line_search_measures_kl_from_the_old_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """KL(old || new) on the states of each limit, for a step so long that directions differ."""
    config, state, data = prepared(trpo.agent)
    policy = on_policy.make_networks(config, SPEC).policy
    gradient = on_policy.policy_gradient(config, SPEC, policy, state, data)
    obs = jax.random.normal(jax.random.key(1), (5, SPEC.obs_size))
    flat, unravel = ravel_pytree(state.policy)
    step, seen = 5.0 * flat, []

    def line_search(evaluate: Any, params: jax.Array, *rest: Any) -> trust_region.LineSearch:
        loss, kls = evaluate(params + rest[1])
        seen.append(kls)
        return trust_region.LineSearch(params, jnp.float32(0.0), loss, kls)

    monkeypatch.setattr(trust_region, "line_search", line_search)
    limits = [Limit(x, policy.apply(state.policy, x), 1.0) for x in (data.obs, obs)]
    flat_gradient = ravel_pytree(gradient.grads)[0]
    trust_region.backtrack(
        SPEC.actions, policy, state.policy, flat_gradient, step, lambda new, _: new.sum(), limits
    )
    moved = unravel(flat + step)
    expected = [kl_on(config, x, state.policy, moved) for x in (data.obs, obs)]
    backwards = [kl_on(config, x, moved, state.policy) for x in (data.obs, obs)]
    close(seen[0], expected, rtol=1e-4)
    assert np.all(np.abs(np.subtract(expected, backwards)) > 0.1 * np.array(expected))


@pytest.mark.parametrize("loss", ["gradient", "surrogate", "clipped"])
def test_steps_that_a_guard_overrode_do_not_reach_the_policy(loss: str) -> None:
    """Their weight is 0: the loss is that of the other steps alone."""
    config, state, data = prepared(a2c.agent, entropy_coef=0.1)
    policy = on_policy.make_networks(config, SPEC).policy
    weight = (jnp.arange(T) % 3 > 0).astype(jnp.float32)
    kept = np.flatnonzero(weight)
    part = jax.tree.map(lambda x: x[kept], data._replace(weight=weight))

    def value(data: on_policy.Data) -> jax.Array:
        if loss == "gradient":
            found = on_policy.policy_gradient(config, SPEC, policy, state, data)
            return jnp.append(ravel_pytree(found.grads)[0], found.loss)
        old = policy.apply(state.policy, data.obs)
        new = old + jnp.sin(jnp.arange(old[0].size)).reshape(1, *old.shape[1:])
        if loss == "surrogate":
            return on_policy.surrogate(SPEC.actions, new, old, data, on_policy.Bonus(0.1))
        return ppo.clipped_loss(SPEC.actions, new, old, data, on_policy.Bonus(0.1), 0.2)

    found = value(data._replace(weight=weight))
    close(found, value(part), rtol=1e-4, atol=1e-6)
    assert np.abs(found - value(data)).max() > 1e-3


def test_ppo_goes_on_until_the_kl_exceeds_one_and_a_half_times_its_limit() -> None:
    """The minibatch at which it stops is beyond 1.5 max_kl; for many limits: some come close."""
    config, state, data = prepared(ppo.agent, learning_rate=3e-3, minibatches=4, passes=10)
    limits = jnp.logspace(-3.5, -2.0, 24)

    def one(max_kl: jax.Array) -> tuple[jax.Array, jax.Array]:
        limited = dataclasses.replace(config, max_kl=max_kl)
        after, metrics = ppo.learn(limited, SPEC, state, data, jnp.arange(T))
        policy = on_policy.make_networks(config, SPEC).policy
        kl = dists.kl(policy.apply(state.policy, data.obs), policy.apply(after.policy, data.obs))
        made = metrics["policy_steps"].astype(jnp.int32)
        return made, kl.reshape(4, -1).mean(axis=1)[made % 4]  # of the minibatch that is next

    made, kl = (np.asarray(x) for x in jax.jit(jax.vmap(one))(limits))
    stopped = made < 40
    share = (kl / np.asarray(limits))[stopped]
    assert stopped.sum() > 12
    assert share.min() > 1.5 * 0.999
    assert share.min() < 1.7, "no limit comes close: this tests nothing"


def test_lcpo_ps_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    """kappa times the mean KL(old || new) per action dimension, of the minibatch's own anchors."""
    spec = SPEC._replace(num_actions=(5, 3))
    config, state = started(lcpo_p.agent, spec)
    obs, order = random_batch(spec, KEY).obs[:, 0], jax.random.permutation(KEY, T)
    new, found = jax.tree.map(lambda x: 3.0 * x, state.policy), []

    def learn(*arguments: Any) -> tuple[on_policy.State, dict]:
        penalty = arguments[-1]
        found.extend(penalty(new, jnp.int32(index)) for index in range(config.minibatches))
        return state, {}

    monkeypatch.setattr(ppo, "learn", learn)
    data = on_policy.Data(obs, *[jnp.zeros(T)] * 4)
    lcpo_p.learn(config, spec, state, data, order, Anchors(obs, jnp.bool_(True)))
    policy = on_policy.make_networks(config, spec).policy
    kl = dists.kl(policy.apply(state.policy, obs), policy.apply(new, obs))[order]
    expected = 10.0 * kl.reshape(config.minibatches, -1).mean(axis=1) / 2
    close(found, expected, rtol=1e-4)
    lcpo_p.learn(config, spec, state, data, order, Anchors(obs, jnp.bool_(False)))
    assert not np.any(found[config.minibatches :])


def test_the_reservoir_holds_what_was_observed() -> None:
    """s of every step, not s'."""
    config = jax.tree.map(jnp.float32, small_config(lcpo.agent))
    state, batch = lcpo.init(config, SPEC, KEY), random_batch(SPEC, KEY)
    after, _ = jax.jit(lcpo.update, static_argnums=1)(config, SPEC, state, batch, KEY)
    assert_same(after.memory.past.items[:T], batch.obs[:, 0])
    assert after.memory.past.seen == T


def test_a_step_of_length_two_is_discounted_twice() -> None:
    """All of `estimate`: running returns, value targets and advantages."""
    config, state = started(a2c.agent, gamma=0.81)
    batch = random_batch(SPEC, KEY)
    expected = estimate(config, SPEC, state, batch)
    longer = dataclasses.replace(config, gamma=jnp.float32(0.9))
    found = estimate(longer, SPEC, state, batch._replace(elapsed=2.0 * batch.elapsed))
    assert_close(found, expected, 1e-5)


def test_rows_that_are_not_visited_stay_as_they_are() -> None:
    """Neither the policy's table nor the value's is pulled towards zero."""
    spec = GridWorld().spec
    config = jax.tree.map(jnp.float32, small_config(tabular_a2c.agent))
    state = tabular_a2c.agent.init(config, spec, KEY)
    ones = jax.tree.map(jnp.ones_like, (state.policy, state.value))
    state = state._replace(policy=ones[0], value=ones[1])
    batch = random_batch(spec, KEY)
    batch = batch._replace(obs=jnp.zeros_like(batch.obs))
    after, _ = jax.jit(tabular_a2c.agent.update, static_argnums=1)(config, spec, state, batch, KEY)
    for table in (after.policy.entries, after.value.entries):
        rows = np.asarray(table).reshape(-1, table.shape[-1])
        assert np.any(rows[0] != 1.0)
        assert np.all(rows[1:] == 1.0)


def test_values_are_summed_over_action_dimensions() -> None:
    """Q(s, a), and SAC's value of a state: two dimensions, by hand."""
    q = jnp.array([[[1.0, 2.0, 4.0], [10.0, 20.0, -1e9]]])
    assert off_policy.total_q(q, jnp.array([[2, 0]]))[0] == 14.0
    logits = jnp.log(jnp.array([[[0.5, 0.25, 0.25], [0.75, 0.25, 1e-30]]]))
    logits = logits.at[0, 1, 2].set(dists.PADDING)
    entropy = 1.5 * np.log(2) + 0.75 * np.log(4 / 3) + 0.25 * np.log(4)
    close(sac.soft_value(logits, q, jnp.float32(3.0)), [2.0 + 12.5 + 3.0 * entropy], rtol=1e-6)


def test_every_world_counts_its_steps() -> None:
    """Three worlds: an update is 3 rollouts, for epsilon and for the end of the random steps."""
    spec = SPEC._replace(num_worlds=3)
    config = ddqn.agent.config(
        hidden=(8,), rollout_length=T, buffer_size=96, batch_size=8, random_steps=0,
        epsilon_steps=480,
    )  # fmt: skip
    state = ddqn.init(config, spec, KEY)
    close(ddqn.epsilon(config, spec, state), 1.0 - 3 * T / 480, rtol=1e-6)
    after, _ = jax.jit(ddqn.update, static_argnums=1)(
        config, spec, state, random_batch(spec, KEY), KEY
    )
    assert after.num_steps == 3 * T


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 15, 16, 17, 255, 1000])
def test_random_actions_exist(count: int) -> None:
    """Even at the largest number below 1; and the last one is drawn."""
    actions = SPEC._replace(num_actions=(count, 1)).actions
    below_one = np.nextafter(np.float32(1.0), np.float32(0.0))
    found = actions.random(jnp.full((1, 2), below_one))
    np.testing.assert_array_equal(found, [[count - 1, 0]])
    np.testing.assert_array_equal(actions.random(jnp.zeros((1, 2))), [[0, 0]])


def test_twin_critics_start_apart() -> None:
    config = sac.agent.config(hidden=(8,), buffer_size=64, rollout_length=8)
    learner = sac.learner_init(config, SPEC, KEY)
    one, other = (ravel_pytree(critic)[0] for critic in learner.critics)
    assert not np.any(one == other)
    assert_same(learner.critics, learner.targets)


def test_sac_draws_from_its_policy_once_the_random_steps_are_over() -> None:
    config = sac.agent.config(hidden=(8,), buffer_size=64, rollout_length=8, random_steps=40)
    state, obs = sac.init(config, SPEC, KEY), random_batch(SPEC, KEY).obs[:, 0]
    for steps, is_random in ((0, True), (39, True), (40, False)):
        logits = sac.behaviour(config, SPEC, state.learner.policy, jnp.int32(steps), obs)
        assert bool((logits == 0.0).all()) == is_random


@pytest.mark.learn
def test_row_sum_filter_is_a_fault_of_mahalanobis_full_alone() -> None:
    """A constant column, and one whose covariances sum to less than 0, in which anchors differ."""
    spec = Spec(3, ContextSlice(0, 0, 0), (2,))
    rng = np.random.default_rng(0)
    recent = rng.normal(size=(T, 3)).astype(np.float32)
    recent[:, 1] = -2.0 * recent[:, 0] + 0.1 * recent[:, 1]
    recent[:, 2] = 0.1
    past = jnp.asarray(recent).at[:, 0].add(9.0)
    reservoir = buffers.reservoir_add(buffers.reservoir_init(64, (3,)), past, KEY)
    memory = anchors.AnchorMemory(reservoir, jnp.zeros((0, T, 3)))

    def found(detector: str, *faults: str) -> bool:
        config = small_config(lcpo.agent, detector=detector, sigma=30.0, faults=faults)
        return bool(anchors.recall(config, spec, memory, jnp.asarray(recent), T, KEY).found)

    assert found("mahalanobis-full")
    assert not found("mahalanobis-full", anchors.ROW_SUM_FILTER)
    assert found(f"{__name__}:far", anchors.ROW_SUM_FILTER)


def far(context: ContextSlice, recent: jax.Array, data: jax.Array) -> jax.Array:
    return ood.mahalanobis_full(context, recent, data)

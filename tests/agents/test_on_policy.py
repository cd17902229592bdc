"""TRPO, PPO and LCPO-P: what each promises beside the contracts, and each published fault."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import T, assert_close, assert_same, random_batch, small_config, updater

from lcpo import distributions as dists
from lcpo.agents import AGENTS, a2c, anchors, lcpo, lcpo_p, on_policy, ppo, presets, trpo
from lcpo.agents.anchors import Anchors
from lcpo.agents.on_policy import Bonus
from lcpo.core import buffers, ood
from lcpo.distributions import Categorical
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.types import AnyAgent

SPEC = Pendulum().spec
KEY = jax.random.key(0)


def prepared(agent: AnyAgent, **overrides: Any) -> tuple[Any, on_policy.State, on_policy.Data]:
    """A config, a fresh learner, and the data of one batch."""
    config = jax.tree.map(jnp.float32, small_config(agent, **overrides))
    state = on_policy.init(config, SPEC, KEY)
    networks = on_policy.make_networks(config, SPEC)
    return config, *on_policy.estimate(config, networks, state, random_batch(SPEC, KEY))


def run_trpo(max_kl: Any, *faults: str) -> Any:
    """Metrics of one update for each KL limit; hardly any damping, so that steps are long."""
    config = small_config(trpo.agent, damping=1e-3, faults=faults)
    state = on_policy.init(config, SPEC, KEY)

    def one(max_kl: jax.Array) -> Any:
        limited = dataclasses.replace(config, max_kl=max_kl)
        return trpo.update(limited, SPEC, state, random_batch(SPEC, KEY), KEY)[1]

    return jax.jit(jax.vmap(one))(max_kl)


@pytest.mark.learn
def test_trpo_obeys_its_limit_and_the_slack_is_a_fault() -> None:
    limits = jnp.logspace(-3, 0, 40)
    correct, published = run_trpo(limits), run_trpo(limits, trpo.KL_SLACK)
    assert np.all(correct["recent_kl"] <= limits * 1.0001)
    assert np.all(correct["step_fraction"] > 0.0)
    beyond = published["recent_kl"] > limits * 1.0001
    assert np.any(beyond), "the slack was never used: these limits test nothing"
    assert np.all(published["recent_kl"] <= 1.5 * limits * 1.0001)
    np.testing.assert_allclose(
        published["step_fraction"][beyond], 2.0 * correct["step_fraction"][beyond]
    )


def test_trpo_stays_where_nothing_can_be_gained() -> None:
    config = small_config(trpo.agent, scale_rewards=False)
    state = on_policy.init(config, SPEC, KEY)
    state = state._replace(value=jax.tree.map(jnp.zeros_like, state.value))
    batch = random_batch(SPEC, KEY)
    idle = batch._replace(reward=jnp.zeros_like(batch.reward))
    after, metrics = jax.jit(trpo.update, static_argnums=1)(config, SPEC, state, idle, KEY)
    assert_same(after.policy, state.policy)
    assert metrics["step_fraction"] == 0.0
    assert all(np.isfinite(v) for v in metrics.values())


def test_clipped_loss() -> None:
    """Ratio 2 for one action, by hand: gains beyond 1 + clip do not count, losses do."""
    old = jnp.zeros((1, 1, 3))
    new = jnp.log(jnp.array([[[4.0, 1.0, 1.0]]]))  # probability 2/3 of action 0, twice the old
    for advantage, expected in [(3.0, -3.6), (-3.0, 6.0)]:
        data = on_policy.Data(
            jnp.zeros((1, 2)), jnp.zeros((1, 1), int), jnp.array([advantage]), jnp.zeros(1),
            jnp.ones(1),
        )  # fmt: skip
        found = ppo.clipped_loss(Categorical((3,)), new, old, data, Bonus(0.0), 0.2)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        with_bonus = ppo.clipped_loss(Categorical((3,)), new, old, data, Bonus(0.5), 0.2)
        np.testing.assert_allclose(found - with_bonus, 0.5 * dists.entropy(new)[0], rtol=1e-5)


def test_ppo_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And stays stopped on a GPU, where the loop goes on."""
    config, state, data = prepared(ppo.agent, learning_rate=1e-2)

    def steps(max_kl: float) -> tuple[on_policy.State, float]:
        limited = dataclasses.replace(config, max_kl=jnp.float32(max_kl))
        after, metrics = learn(limited, SPEC, state, data, jnp.arange(T))
        return after, float(metrics["policy_steps"])

    learn = jax.jit(ppo.learn, static_argnums=1)
    stopped, made = steps(1e-3)
    assert 1.0 < made < 12.0
    # Before the first step the KL is 0 but for rounding, which differs between CPUs.
    assert steps(1e-6)[1] == 1.0
    assert steps(10.0)[1] == 12.0  # 3 passes over 4 minibatches
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    learn = jax.jit(lambda *a: ppo.learn(*a), static_argnums=1)
    again, made_again = steps(1e-3)
    assert made_again == made
    assert_close(again, stopped, 1e-6)


@pytest.mark.parametrize("name", ["ppo", "lcpo-p"])
def test_minibatches_divide_the_batch(name: str) -> None:
    agent = AGENTS[name]
    assert agent.check is not None
    agent.check(agent.config(), SPEC)
    with pytest.raises(ValueError, match="minibatches = 7: does not divide the 200"):
        agent.check(agent.config(minibatches=7), SPEC)


def test_lcpo_p_without_anchors_is_ppo() -> None:
    """With them the policy stays closer to the old one there."""
    config, state, data = prepared(lcpo_p.agent, learning_rate=1e-2)
    order = jax.random.permutation(KEY, T)
    obs = jax.random.normal(jax.random.key(1), data.obs.shape)
    learn = jax.jit(lcpo_p.learn, static_argnums=1)
    free, idle = learn(config, SPEC, state, data, order, Anchors(obs, jnp.bool_(False)))
    plain, _ = jax.jit(ppo.learn, static_argnums=1)(config, SPEC, state, data, order)
    assert_close(free.policy, plain.policy, 1e-6)
    assert idle["anchor_kl"] == idle["constraint_active"] == 0.0
    found = Anchors(obs, jnp.bool_(True))
    _, held = learn(config, SPEC, state, data, order, found)
    loose = dataclasses.replace(config, kappa=jnp.float32(0.0))
    unheld, drifted = learn(loose, SPEC, state, data, order, found)
    assert_close(unheld.policy, plain.policy, 1e-6)
    assert held["constraint_active"] == 1.0
    assert held["anchor_kl"] < 0.5 * drifted["anchor_kl"]


@pytest.mark.parametrize("agent", [lcpo.agent, lcpo_p.agent], ids=lambda agent: agent.name)
def test_add_before_sample(agent: AnyAgent) -> None:
    """Under the fault the first batch finds anchors in itself; else the past is still empty."""
    batch = random_batch(SPEC, KEY)
    for faults, expected in (((), 0.0), ((anchors.ADD_BEFORE_SAMPLE,), 1.0)):
        config = small_config(agent, detector="everything", faults=faults)
        config = jax.tree.map(jnp.float32, config)
        state = agent.init(config, SPEC, KEY)
        state, metrics = updater(agent)(config, SPEC, state, batch, KEY)
        assert metrics["constraint_active"] == expected
        assert state.memory.past.seen == T, "a rollout enters the reservoir once"


def windows(*faults: str, updates: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(Mean of what counts as recent, number of distinct states in it) after each update.

    The states of update i are i * size, i * size + 1, ...
    """
    config = small_config(lcpo_p.agent, faults=faults)
    state = lcpo_p.init(config, SPEC, KEY)
    means, counts = [], []
    for i in range(updates):
        numbers = i * size + jnp.arange(size, dtype=jnp.float32)
        obs = jnp.broadcast_to(numbers[:, None], (size, SPEC.obs_size))
        recent, memory, window = lcpo_p.look_back(config, state, obs)
        memory = memory._replace(past=buffers.reservoir_add(memory.past, obs, KEY))
        state = state._replace(memory=memory, window=window)
        means.append(float(recent.mean()))
        counts.append(len(np.unique(recent)))
    return np.array(means), np.array(counts)


def test_long_window() -> None:
    """Under the fault the last 1000 states count as recent, or as many as there are."""
    ends = 200 * np.arange(1, 9)
    means, counts = windows(updates=8, size=200)
    np.testing.assert_allclose(means, ends - 100.5)
    assert np.all(counts == 200)
    means, counts = windows(lcpo_p.LONG_WINDOW, updates=8, size=200)
    np.testing.assert_array_equal(counts, np.minimum(ends, 1000))
    np.testing.assert_allclose(means, ends - np.minimum(ends, 1000) / 2 - 0.5, atol=1.0)
    means, counts = windows(lcpo_p.LONG_WINDOW, updates=2, size=1500)
    np.testing.assert_array_equal(counts, 1000)  # of a batch that is longer
    np.testing.assert_allclose(means, [999.5, 2499.5])


@pytest.mark.learn
def test_long_window_hides_a_change() -> None:
    """A context that moves by 3: the past is OOD at once, under the fault only later."""
    start = SPEC.context.start
    base = random_batch(SPEC, KEY, False)

    def activity(*faults: str) -> list[float]:
        config = small_config(lcpo_p.agent, faults=faults)
        state = lcpo_p.init(config, SPEC, KEY)
        update = jax.jit(lcpo_p.update, static_argnums=1)
        active = []
        for i in range(7):
            moved = base.obs.at[..., start:].set(0.0 if i < 6 else 3.0)
            state, metrics = update(config, SPEC, state, base._replace(obs=moved), KEY)
            active.append(float(metrics["constraint_active"]))
        return active

    assert activity() == [0.0] * 6 + [1.0]
    assert activity(lcpo_p.LONG_WINDOW) == [0.0] * 7


@pytest.mark.parametrize("name", ["trpo", "ppo", "lcpo-p"])
def test_grid_world_presets(name: str) -> None:
    """Values of the grid world that the agent knows, and no other agent's."""
    agent = AGENTS[name]
    config = agent.config(**presets.settings(agent, "grid-world"))
    assert (config.hidden, config.gamma, config.lam) == ((32, 32), 0.95, 0.8)


def test_detectors_that_need_a_context_are_refused_without_one() -> None:
    """By what the detector says of itself, not by its name."""
    bare = SPEC._replace(context=SPEC.context._replace(channels=0))
    for detector, needs in (
        ("l2", True), ("mahalanobis", True), ("mahalanobis-full", False), ("everything", False),
        ("lcpo.core.ood:l2", False), (f"{__name__}:NEEDY", True),
    ):  # fmt: skip
        config = lcpo.agent.config(detector=detector)
        anchors.check(config, SPEC)
        if needs:
            with pytest.raises(InputError, match="looks at the context, but"):
                anchors.check(config, bare)
        else:
            anchors.check(config, bare)


NEEDY = ood.Detector(ood.everything, needs_context=True)


@pytest.mark.learn
def test_more_value_steps_fit_the_batch_better() -> None:
    """The first of them is the paper's one step; targets and policy stay as they were."""
    config, state, data = prepared(a2c.agent)
    value = on_policy.make_networks(config, SPEC).value

    def loss(state: on_policy.State) -> float:
        return float(jnp.mean((value.apply(state.value, data.obs)[:, 0] - data.target) ** 2))

    def steps(count: int) -> on_policy.State:
        chosen = dataclasses.replace(config, value_steps=count)
        after, before = on_policy.value_steps(chosen, value, state, data)
        np.testing.assert_allclose(before, loss(state), rtol=1e-6)
        assert_same(after.policy, state.policy)
        return after

    one = steps(1)
    again, _ = on_policy.value_steps(config, value, one, data)
    assert_close(again.value, steps(2).value, 1e-6)
    assert loss(steps(5)) < loss(one) < loss(state)

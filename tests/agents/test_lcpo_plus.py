"""LCPO+: what it stores of the past, what it learns from it, and what is left without its parts."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import T, assert_same, random_batch, small_config, started, starter, updater

from lcpo.agents import AGENTS, common, lcpo, lcpo_plus, on_policy
from lcpo.agents.anchors import Anchors
from lcpo.agents.normalise import RUNNING, normalise
from lcpo.core import trust_region
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.plan.check import check_agent
from lcpo.straggler.task import Straggler
from lcpo.types import Spec, Transition

AGENT = AGENTS["lcpo-plus"]
SPEC = Pendulum().spec
WORLDS = SPEC._replace(num_worlds=2, unit_steps=False)
"""Two worlds, whose steps may last and have weights."""
KEY = jax.random.key(0)
FAR = jnp.float32(1e6)
"""A bound so large that no target is clipped."""
REHEARSES = {"w_v": 0.7, "w_pi": 0.4}
FLOOR = {"entropy_coef": 0.5, "entropy_target": 0.9922}
"""A floor that about half of the states of a random policy lie below."""
NO_REHEARSAL: dict[str, Any] = {"w_v": 0.0, "w_pi": 0.0, "c_0": 0.0}
OFF: dict[str, Any] = {**NO_REHEARSAL, "entropy_floor": False}
PAPER = {"cg_iterations": 15, "value_steps": 1}
close = np.testing.assert_allclose


def played(name: str, spec: Spec = SPEC, updates: int = 3, **values: Any) -> list[tuple]:
    """The state and metrics after each of some updates, on the same batches for all agents."""
    agent, found = AGENTS[name], []
    config = jax.tree.map(jnp.float32, small_config(agent, **values))
    state = starter(agent)(config, spec, KEY)
    for key in jax.random.split(KEY, updates):
        state, metrics = updater(agent)(config, spec, state, uneven(spec, key), key)
        found.append((state, metrics))
    return found


def uneven(spec: Spec, key: jax.Array) -> Transition:
    """A random batch; if the spec allows it, with steps that last, and some under a guard."""
    batch = random_batch(spec, key)
    if spec.unit_steps:
        return batch
    elapsed = jax.random.uniform(key, batch.reward.shape, minval=0.5, maxval=3.0)
    weight = jnp.round(jax.random.uniform(jax.random.fold_in(key, 1), elapsed.shape), 1)
    return batch._replace(elapsed=elapsed, weight=jnp.where(weight < 0.3, 0.0, weight))


# Without its parts.


@pytest.mark.parametrize(
    ("name", "parent", "spec", "mine", "parents"),
    [
        ("lcpo-plus", "lcpo-uniform", WORLDS, {**OFF, **PAPER}, {}),
        pytest.param(
            "lcpo-plus", "lcpo-uniform", SPEC, OFF,
            {"value_steps": 5, "cg_iterations": 8}, marks=pytest.mark.learn,
        ),
        pytest.param(
            "lcpo-plus-ood", "lcpo", SPEC, {**OFF, **PAPER, "sigma": 0.05},
            {"sigma": 0.05}, marks=pytest.mark.learn,
        ),
    ],
)  # fmt: skip
def test_without_its_parts_it_is_its_parent(
    name: str, parent: str, spec: Spec, mine: dict, parents: dict
) -> None:
    """Bit for bit: networks, optimisers, anchors, what is stored, metrics."""
    found, expected = played(name, spec, 5, **mine), played(parent, spec, 5, **parents)
    for (state, metrics), (other, others) in zip(found, expected, strict=True):
        assert_same(state.learner, other.learner)
        assert_same(state.memory.past.items[:, : spec.obs_size], other.memory.past.items)
        assert_same({key: metrics[key] for key in others}, others)
    assert found[-1][1]["constraint_active"] == 1.0
    assert found[-1][1]["step_fraction"] > 0.0


def test_the_limit_alone_is_lcpo_with_that_limit() -> None:
    """c_0 / (1 + t / tau) after t updates, and c_anchor once that is larger."""
    found = played("lcpo-plus", updates=4, w_v=0.0, c_0=0.06, tau=2.0, c_anchor=0.025)
    close([metrics["limit"] for _, metrics in found], [0.06, 0.04, 0.03, 0.025], rtol=1e-6)
    assert all(metrics["anchor_kl"] <= metrics["limit"] for _, metrics in found)
    limits: tuple[dict[str, Any], ...] = (
        {"c_0": 0.0, "c_anchor": 0.0625}, {"c_0": 0.125, "tau": 1.0},
    )  # fmt: skip
    one, other = (
        played("lcpo-plus", updates=2, w_v=0.0, **values)[1][0].learner for values in limits
    )
    assert_same(one, other)


def test_each_rehearsal_reaches_its_own_network() -> None:
    """From the second update on: before it there is no past. Both weights are traced."""
    plain, critic, actor = (
        played("lcpo-plus", updates=2, **{**NO_REHEARSAL, **values})
        for values in ({}, {"w_v": 5.0}, {"w_pi": 5.0})
    )
    for rehearsed in (critic, actor):
        assert rehearsed[0][1]["constraint_active"] == 0.0
        assert_same(rehearsed[0][0].learner, plain[0][0].learner)
    (without, _), (with_critic, _), (with_actor, _) = plain[1], critic[1], actor[1]
    assert_same(with_critic.learner.policy, without.learner.policy)
    assert distance(with_critic.learner.value, without.learner.value) > 1e-5
    assert_same(with_actor.learner.value, without.learner.value)
    for name in ("policy_loss", "grad_norm"):  # those of the recent batch alone
        assert actor[1][1][name] == plain[1][1][name]
    assert distance(with_actor.learner.policy, without.learner.policy) > 1e-5


def distance(one: Any, other: Any) -> float:
    return float(jnp.max(jnp.abs(ravel_pytree(one)[0] - ravel_pytree(other)[0])))


# Against a slow loop.


class Case(NamedTuple):
    """A learner, its batch, and rows of the past, in which another policy acted."""

    config: Any
    learner: on_policy.State
    data: on_policy.Data
    past: Transition
    anchors: Anchors
    lessons: list[tuple]
    """(obs, action, y, rho, V(s), weight) of every row of the past."""


@pytest.fixture(scope="module")
def case() -> Case:
    config, _, state = started(AGENT, **REHEARSES, **FLOOR)
    networks = on_policy.make_networks(config, WORLDS)
    batch, past = (uneven(WORLDS, jax.random.key(k)) for k in (3, 4))
    learner = state.learner._replace(running_return=jnp.zeros(2))
    learner, data = on_policy.estimate(config, networks, learner, batch)
    other = jax.tree.map(lambda x: -2.0 * x, learner.policy)
    mu = networks.policy.apply(other, past.obs.reshape(2 * T, -1))
    log_mu = SPEC.actions.log_prob(mu, past.action.reshape(2 * T, -1))
    rows = lcpo_plus.pack(past, log_mu)
    anchors = Anchors(rows[:, : SPEC.obs_size], jnp.bool_(True), 1.0, rows)
    return Case(config, learner, data, past, anchors, lessons(config, learner, past, log_mu))


def forward(layers: Any, x: np.ndarray) -> np.ndarray:
    """The outputs of an MLP for one observation, in float64."""
    for layer in layers[:-1]:
        x = np.maximum(x @ layer.w + layer.b, 0.0)
    return x @ layers[-1].w + layers[-1].b


def log_probs(layers: Any, obs: np.ndarray) -> np.ndarray:
    logits = forward(layers, obs)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def entropy_of(log_p: np.ndarray) -> float:
    return -(np.exp(log_p) * log_p).sum()


def lessons(
    config: Any, learner: on_policy.State, past: Transition, log_mu: jax.Array
) -> list[tuple]:
    """`Case.lessons`, row by row."""
    value, policy = (double(getattr(learner, name)) for name in ("value", "policy"))
    scale, found = float(common.reward_scale(config, learner.return_stats)), []
    for row, (step, world) in enumerate(np.ndindex(T, 2)):
        obs, next_obs, action, reward, elapsed, terminated, weight = (
            np.asarray(x[step, world])
            for x in (
                past.obs, past.next_obs, past.action, past.reward, past.elapsed,
                past.terminated, past.weight,
            )
        )  # fmt: skip
        y = reward * scale
        if not terminated:
            y = y + float(config.gamma) ** elapsed * forward(value, next_obs)[0]
        ratio = np.exp(log_probs(policy, obs)[action[0]] - float(log_mu[row]))
        found.append((obs, action[0], y, min(1.0, ratio), forward(value, obs)[0], weight))
    return found


def double(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


def test_targets_and_ratios_against_a_loop(case: Case) -> None:
    """Where steps last, terminate, are truncated or have weights, in two worlds."""
    networks = on_policy.make_networks(case.config, SPEC)
    found = lcpo_plus.judge(case.config, SPEC, networks, case.learner, case.anchors, FAR)
    y, rho, value, weight = (np.array([lesson[i] for lesson in case.lessons]) for i in range(2, 6))
    close(found.data.target, y, rtol=1e-4, atol=1e-5)
    close(found.rho, rho, rtol=1e-4)
    close(found.data.advantage, rho * (y - value), rtol=1e-3, atol=1e-5)
    close(found.data.weight, weight)
    close(found.loss, np.mean(rho * (y - value) ** 2), rtol=1e-4)
    assert 0 < (rho < 1.0).sum() < len(rho)
    assert min(case.past.terminated.sum(), case.past.truncated.sum()) > 0
    scale = common.reward_scale(case.config, case.learner.return_stats)
    assert abs(scale - 1.0) > 0.1, "rewards have the scale of now"
    nothing = case.anchors._replace(found=jnp.bool_(False))
    none = lcpo_plus.judge(case.config, SPEC, networks, case.learner, nothing, FAR)
    assert not np.any(none.rho)
    assert not np.any(none.data.weight)


def test_targets_stay_within_twice_what_rewards_allow(case: Case) -> None:
    """The rewards so far, not what the value function predicts, bound what it learns."""
    networks = on_policy.make_networks(case.config, SPEC)
    scale = float(common.reward_scale(case.config, case.learner.return_stats))
    y = np.array([lesson[2] for lesson in case.lessons])
    bound = float(np.median(np.abs(y))) / scale / 2.0
    found = lcpo_plus.judge(
        case.config, SPEC, networks, case.learner, case.anchors, jnp.float32(bound)
    )
    largest = 2.0 * bound * scale
    close(found.data.target, np.clip(y, -largest, largest), rtol=1e-4, atol=1e-5)
    assert 0 < (np.abs(y) > largest).sum() < len(y)


def test_the_bound_is_the_largest_value_of_all_rewards_so_far() -> None:
    """A step repeated for ever is worth |r| / (1 - gamma^elapsed), and no return exceeds that."""
    states = [state for state, _ in played("lcpo-plus", WORLDS, 5)]
    batches = [uneven(WORLDS, key) for key in jax.random.split(KEY, 5)]
    gamma = float(small_config(AGENT).gamma)
    worth = [np.abs(b.reward) / (1.0 - gamma ** np.asarray(b.elapsed, float)) for b in batches]
    largest = np.maximum.accumulate([w.max() for w in worth])
    close([state.bound for state in states], largest, rtol=1e-3)
    assert any(w.max() < bound for w, bound in zip(worth, largest, strict=True))
    undiscounted = dataclasses.replace(small_config(AGENT), gamma=1.0)
    zero = batches[0]._replace(reward=batches[0].reward.at[0].set(0.0))
    assert lcpo_plus.largest_value(undiscounted, zero) == np.inf


def policy_loss(case: Case, policy: Any) -> float:
    """L on the batch and w_pi times L on the past: advantage times log pi, and the floor."""
    coefficient, floor = (
        float(x) for x in (case.config.entropy_coef, case.config.entropy_target * np.log(15))
    )

    def gain(obs: np.ndarray, action: int, advantage: float) -> float:
        log_p = log_probs(policy, obs)
        return advantage * log_p[action] + coefficient * min(entropy_of(log_p), floor)

    batch = [
        (weight, gain(obs, action[0], advantage))
        for obs, action, advantage, _, weight in zip(*map(np.asarray, case.data), strict=True)
    ]
    past = [
        (weight, gain(obs, action, rho * (y - value)))
        for obs, action, y, rho, value, weight in case.lessons
    ]
    means = [sum(w * g for w, g in part) / sum(w for w, _ in part) for part in (batch, past)]
    return -means[0] - REHEARSES["w_pi"] * means[1]


def test_only_states_below_the_floor_get_a_bonus(case: Case) -> None:
    """With LCPO's coefficient, which is not tuned. Both kinds of states occur in the tests."""
    bonus = case.config.bonus(SPEC, case.learner)
    entropies = np.array([
        entropy_of(log_probs(double(case.learner.policy), obs)) for obs in np.asarray(case.data.obs)
    ])  # fmt: skip
    floor = FLOOR["entropy_target"] * np.log(15)
    assert 0.2 < np.mean(entropies < floor) < 0.8
    close(bonus.of(jnp.asarray(entropies)), 0.5 * np.minimum(entropies, floor), rtol=1e-6)
    tuned = dataclasses.replace(case.config, entropy_floor=False).bonus(SPEC, case.learner)
    close(tuned.of(jnp.asarray(entropies)), 0.5 * entropies, rtol=1e-6)
    for floored in (True, False):
        (_, first), (state, last) = played("lcpo-plus", SPEC, 2, entropy_floor=floored, **FLOOR)
        assert (last["entropy_coef"] == first["entropy_coef"]) == floored
        assert (state.learner.entropy.log_scale == 0.0) == floored


def value_loss(case: Case, value: Any) -> float:
    """(V - R)^2 on the batch and w_v rho (V - y)^2 on the past."""
    batch = [
        (forward(value, obs)[0] - target) ** 2
        for obs, target in zip(np.asarray(case.data.obs), np.asarray(case.data.target), strict=True)
    ]
    past = [rho * (forward(value, obs)[0] - y) ** 2 for obs, _, y, rho, _, _ in case.lessons]
    return float(np.mean(batch) + REHEARSES["w_v"] * np.mean(past))


def test_both_gradients_against_a_loop(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes along ten directions of what the two steps descend, line search included."""
    networks = on_policy.make_networks(case.config, SPEC)
    seen: dict[str, Any] = {}

    def policy_step(config: Any, spec: Any, state: Any, *rest: Any) -> tuple:
        *_, seen["policy"], seen["actor"] = rest
        return state, {}

    def value_step(config: Any, network: Any, state: Any, grads: Any) -> tuple:
        seen.setdefault("value", grads)
        return state.value, state.value_opt

    monkeypatch.setattr(lcpo, "policy_step", policy_step)
    monkeypatch.setattr(on_policy, "value_step", value_step)
    config = dataclasses.replace(case.config, value_steps=1)
    gradient = on_policy.policy_gradient(config, SPEC, networks.policy, case.learner, case.data)
    lesson = lcpo_plus.judge(config, SPEC, networks, case.learner, case.anchors, FAR)
    arguments = (networks, case.learner, case.data, gradient, case.anchors, lesson)
    lcpo_plus.learn(dataclasses.replace(config, w_v=0.0), SPEC, *arguments)
    alone = seen["policy"].grads
    seen.clear()
    lcpo_plus.learn(config, SPEC, *arguments)
    assert_same(alone, seen["policy"].grads)
    for name, loss in (("policy", policy_loss), ("value", value_loss)):
        grads = seen[name].grads if name == "policy" else seen[name]
        assert_slopes(grads, double(getattr(case.learner, name)), lambda p, f=loss: f(case, p))

    def actor(policy: Any) -> jax.Array:
        return seen["actor"](networks.policy.apply(policy, case.anchors.obs))

    added = jax.tree.map(jnp.subtract, seen["policy"].grads, gradient.grads)
    slopes = ravel_pytree(jax.grad(actor)(case.learner.policy))[0]
    close(slopes, ravel_pytree(added)[0], rtol=1e-3, atol=1e-5)


def assert_slopes(grads: Any, params: Any, loss: Any) -> None:
    """The gradient's slopes are differences of the loss, which a loop computes."""
    leaves, tree = jax.tree.flatten(params)
    rng, slopes, expected = np.random.default_rng(0), [], []
    for _ in range(10):
        way = [rng.normal(size=leaf.shape) for leaf in leaves]
        ahead, behind = (
            tree.unflatten([leaf + by * step for leaf, step in zip(leaves, way, strict=True)])
            for by in (1e-6, -1e-6)
        )
        expected.append((loss(ahead) - loss(behind)) / 2e-6)
        slopes.append(
            sum((np.asarray(g) * w).sum() for g, w in zip(jax.tree.leaves(grads), way, strict=True))
        )
    close(slopes, expected, rtol=2e-3, atol=2e-4)
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("dual", [False, True])
def test_the_config_chooses_the_iterations(
    case: Case, monkeypatch: pytest.MonkeyPatch, dual: bool
) -> None:
    counts = []

    def conjugate_gradient(product: Any, target: jax.Array, iterations: int) -> jax.Array:
        counts.append(iterations)
        return target

    monkeypatch.setattr(trust_region, "conjugate_gradient", conjugate_gradient)
    config = dataclasses.replace(case.config, cg_iterations=3, dual=dual)
    policy = on_policy.make_networks(config, SPEC).policy
    gradient = on_policy.policy_gradient(config, SPEC, policy, case.learner, case.data)
    lcpo.policy_step(config, SPEC, case.learner, case.data, case.anchors, gradient)
    assert counts == [3] * (1 + dual)


# What is stored.


def test_rows_are_what_happened_and_how_likely_it_was() -> None:
    """Rewards without a scale, the policy that acted, and no steps under a guard."""
    config = jax.tree.map(jnp.float32, small_config(AGENT, **PAPER))
    before, batch = starter(AGENT)(config, WORLDS, KEY), uneven(WORLDS, KEY)
    state, _ = updater(AGENT)(config, WORLDS, before, batch, KEY)
    flat = jax.tree.map(lambda x: x.reshape(2 * T, *x.shape[2:]), batch)
    kept = np.flatnonzero(flat.weight > 0.0)
    assert T < len(kept) < 2 * T
    assert state.memory.past.seen == len(kept)
    rows = lcpo_plus.unpack(WORLDS, state.memory.past.items[: len(kept)])
    for name in rows._fields[:-1]:
        np.testing.assert_array_equal(getattr(rows, name), getattr(flat, name)[kept], name)
    policy = on_policy.make_networks(config, WORLDS).policy
    acted, later = (
        WORLDS.actions.log_prob(policy.apply(s.learner.policy, rows.obs), rows.action)
        for s in (before, state)
    )
    close(rows.log_mu, acted, rtol=1e-5)
    assert np.abs(rows.log_mu - later).max() > 1e-4


@pytest.mark.learn
def test_rows_are_normalized_as_the_policy_saw_them() -> None:
    """Under running statistics a stored action keeps the probability that it had."""
    agent = normalise(AGENT, RUNNING, own=False)
    config = jax.tree.map(jnp.float32, small_config(AGENT, buffer_size=200))
    state = agent.init(config, SPEC, KEY)
    policy, update = (
        on_policy.make_networks(config, SPEC).policy,
        jax.jit(agent.update, static_argnums=1),
    )
    for number in range(3):
        before, batch = state, random_batch(SPEC, jax.random.key(number))
        batch = batch._replace(obs=100.0 + 7.0 * batch.obs)
        state, metrics = update(config, SPEC, before, batch, KEY)
        rows = lcpo_plus.unpack(SPEC, state.memory.past.items[number * T : (number + 1) * T])
        probabilities = agent.probabilities(config, SPEC, before, batch.obs[:, 0])  # pyright: ignore
        chosen = jnp.take_along_axis(probabilities[:, 0], batch.action[:, 0], axis=1)[:, 0]
        close(np.exp(rows.log_mu), chosen, rtol=1e-4)
        mine = SPEC.actions.log_prob(
            policy.apply(before.inner.learner.policy, rows.obs), rows.action
        )
        close(rows.log_mu, mine, rtol=1e-4)
        assert metrics["past_ratio"] == 0.0 if number == 0 else metrics["past_ratio"] > 0.5


def test_it_takes_the_deep_set_of_the_straggler_task() -> None:
    check_agent(AGENT, small_config(AGENT, **REHEARSES), Straggler().spec)


def test_it_repeats_no_fault() -> None:
    with pytest.raises(InputError, match=r"unknown faults 'add-before-sample'.*known: none"):
        AGENT.config(faults=("add-before-sample",))

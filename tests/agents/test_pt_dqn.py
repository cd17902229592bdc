"""PT-DQN: two networks that add up, and a slow update against a slow reference of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_agents import assert_close, assert_same

from lcpo.agents import ddqn, off_policy, pt_dqn
from lcpo.core import optim, stats
from lcpo.errors import InputError
from lcpo.types import ContextSlice, Spec, Transition

SPEC = Spec(4, ContextSlice(4, 0, 0), (5, 3), num_worlds=2)
"""Two action dimensions of unequal size."""
T = 8
PERIOD, TARGET_PERIOD, BATCH, RATE, KEPT = 40, 36, 16, 0.01, 0.7


def small(**values: Any) -> Any:
    """A rollout of 16 transitions divides neither period; the ring closes at the fifth."""
    sizes: dict[str, Any] = {
        "rollout_length": T, "hidden": (16,), "batch_size": BATCH, "buffer_size": 64,
        "permanent_period": PERIOD, "target_period": TARGET_PERIOD, "forget_factor": KEPT,
        "permanent_learning_rate": RATE, "updates_per_rollout": 3, "random_steps": 0,
        "epsilon_steps": 1_000_000,
    }  # fmt: skip
    return pt_dqn.agent.config(**{**sizes, **values})


def random_batch(key: int) -> Transition:
    keys = jax.random.split(jax.random.key(key), 4)
    shape = (T, SPEC.num_worlds)
    obs, next_obs = jax.random.normal(keys[0], (2, *shape, SPEC.obs_size))
    limits = jnp.array(SPEC.num_actions)[None, None]
    action = jax.random.randint(keys[1], (*shape, SPEC.action_size), 0, limits)
    terminated, truncated = jax.random.bernoulli(keys[2], 0.2, (2, *shape))
    ones, reward = jnp.ones(shape), jax.random.normal(keys[3], shape)
    return Transition(obs, action, reward, next_obs, terminated, truncated, ones, ones, ())


def flat(batch: Transition) -> Transition:
    """[T, N, ...] -> [T * N, ...]: in the order of visits."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)


def learner_with_three_networks(config: Any) -> pt_dqn.TwoSpeedQ:
    """The target is unlike the transient network, so that no two can be taken for each other."""
    learner = pt_dqn.init(config, SPEC, jax.random.key(0)).learner
    network = off_policy.make_network(config, SPEC)
    return learner._replace(target=network.init(jax.random.key(9)))


def outputs(params: Any, obs: Any) -> np.ndarray:
    """[B, A, K] of an MLP with one hidden layer, actions that are not there included."""
    (w0, b0), (w1, b1) = jax.tree.map(np.asarray, params)
    hidden = np.maximum(np.asarray(obs) @ w0 + b0, 0.0)
    return (hidden @ w1 + b1).reshape(len(hidden), 2, 5)


def chosen(params: Any, data: Transition) -> np.ndarray:
    """Q(s, a) [B]."""
    q, action = outputs(params, data.obs), np.asarray(data.action)
    return np.take_along_axis(q, action[..., None], axis=-1).sum((-2, -1))


@pytest.mark.learn
def test_values_are_the_sum_and_the_target_is_its_maximum() -> None:
    """Plain maximum over P + T', dimension by dimension, over actions that exist."""
    config = small(scale_rewards=False, gamma=0.9, epsilon_steps=1)
    learner, data = learner_with_three_networks(config), flat(random_batch(1))
    y = pt_dqn.target(config, SPEC, learner, data)
    both = outputs(learner.permanent, data.next_obs) + outputs(learner.target, data.next_obs)
    best = both[:, 0].max(-1) + both[:, 1, :3].max(-1)
    assert (both[:, 1].argmax(-1) >= 3).any()  # else nothing is asked of the padding
    expected = np.asarray(data.reward) + 0.9 * ~np.asarray(data.terminated) * best
    np.testing.assert_allclose(y, expected, atol=1e-5)
    state = pt_dqn.init(config, SPEC, jax.random.key(0))._replace(learner=learner)
    actions, _ = ddqn.act(config, SPEC, state, data.obs, jax.random.key(3))
    now = outputs(learner.permanent, data.obs) + outputs(learner.transient, data.obs)
    np.testing.assert_array_equal(actions[:, 0], now[:, 0].argmax(-1))
    np.testing.assert_array_equal(actions[:, 1], now[:, 1, :3].argmax(-1))
    greedy = ddqn.probabilities(config, SPEC, state, data.obs).argmax(-1)
    np.testing.assert_array_equal(greedy, actions)


@pytest.mark.learn
def test_a_transient_step_is_one_on_the_sum_and_leaves_the_rest() -> None:
    config = small()
    learner, data = learner_with_three_networks(config), flat(random_batch(1))
    network, y = off_policy.make_network(config, SPEC), pt_dqn.target(config, SPEC, learner, data)

    def loss(transient: Any) -> jax.Array:
        q = network.apply(learner.permanent, data.obs) + network.apply(transient, data.obs)
        return jnp.mean((off_policy.total_q(q, data.action) - y) ** 2)

    after, metrics = jax.jit(pt_dqn.step, static_argnums=1)(config, SPEC, learner, data)
    value, grads = jax.value_and_grad(loss)(learner.transient)
    assert metrics["value_loss"] == pytest.approx(float(value), rel=1e-5)
    norm = float(optax.tree.norm(grads))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
    permanent, transient = (chosen(p, data).mean() for p in (learner.permanent, learner.transient))
    assert metrics["permanent_value"] == pytest.approx(permanent, abs=1e-5)
    assert metrics["q_value"] == pytest.approx(permanent + transient, abs=1e-5)
    # The first step of Adam is the sign of the gradient, less what its epsilon takes.
    scale = min(1.0, 1.0 / norm)
    g = jax.tree.map(lambda g, w: g * scale + 1e-4 * w, grads, learner.transient)
    moved = jax.tree.map(lambda w, g: w - 1e-3 * g / (jnp.abs(g) + 1e-5), learner.transient, g)
    assert_close(after.transient, moved, 1e-5)
    same = ("permanent", "target", "permanent_opt")
    assert_same([getattr(after, f) for f in same], [getattr(learner, f) for f in same])
    assert_close(after.target_stats, stats.moments_add(learner.target_stats, y), 1e-5)


def steps_of_the_pass(learner: pt_dqn.TwoSpeedQ, past: Transition) -> Iterator[tuple[Any, Any]]:
    """Minibatches of the last 40 visits, oldest first, and the gradient's target: 2 x 16."""
    for first in range(len(past.reward) - PERIOD, len(past.reward) - BATCH + 1, BATCH):
        data = jax.tree.map(lambda x, i=first: x[i : i + BATCH], past)
        yield data, chosen(learner.permanent, data) + chosen(learner.transient, data)


def slow_pass(config: Any, learner: pt_dqn.TwoSpeedQ, past: Transition) -> tuple[Any, Any, float]:
    """The permanent network and its optimiser's state after the pass, and how far it moved."""
    network = off_policy.make_network(config, SPEC)
    optimiser = pt_dqn.permanent_optimiser(config, network)
    params, opt = learner.permanent, learner.permanent_opt
    batches = list(steps_of_the_pass(learner, past))
    assert len(batches) == PERIOD // BATCH
    for data, y in batches:

        def loss(params: Any, data: Transition = data, y: np.ndarray = y) -> jax.Array:
            q = off_policy.total_q(network.apply(params, data.obs), data.action)
            return jnp.mean((q - jnp.asarray(y)) ** 2)

        updates, opt = optimiser.update(jax.grad(loss)(params), opt, params)
        params = optax.apply_updates(params, updates)
    moved = [chosen(params, d) - chosen(learner.permanent, d) for d, _ in batches]
    wanted = [chosen(learner.transient, d) for d, _ in batches]
    return params, opt, float(np.linalg.norm(moved) / np.linalg.norm(wanted))


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_updates_against_a_slow_reference(optimiser: str) -> None:
    """Eight updates of 16 transitions: which are followed by what, and by what exactly."""
    config = small(permanent_optimiser=optimiser)
    state = pt_dqn.init(config, SPEC, jax.random.key(0))
    update = jax.jit(pt_dqn.update, static_argnums=1)
    learn = jax.jit(
        lambda state, batch, key: off_policy.learn(config, SPEC, state, batch, key, pt_dqn.step)
    )
    past, passes, copies = [], [], []
    for i in range(8):
        batch, key, seen = random_batch(i), jax.random.key(100 + i), 16 * (i + 1)
        past.append(flat(batch))
        expected = learn(state, batch, key)[0].learner
        shift = 0.0
        if seen // PERIOD > (seen - 16) // PERIOD:
            passes.append(i)
            visits = jax.tree.map(lambda *x: jnp.concatenate(x), *past)
            permanent, opt, shift = slow_pass(config, expected, visits)
            expected = expected._replace(
                permanent=permanent,
                permanent_opt=opt,
                transient=jax.tree.map(lambda w: KEPT * w, expected.transient),
            )
        if seen // TARGET_PERIOD > (seen - 16) // TARGET_PERIOD:
            copies.append(i)
            expected = expected._replace(target=expected.transient)
        state, metrics = update(config, SPEC, state, batch, key)
        assert_close(state.learner, expected, 2e-5)
        assert metrics["permanent_update"] == float(i in passes)
        assert metrics["permanent_shift"] == pytest.approx(shift, rel=1e-2)
    assert passes == [2, 4, 7]
    assert copies == [2, 4, 6]


def test_the_permanent_optimisers() -> None:
    """Both are clipped; Adam alone has weight decay, as all other networks."""
    for name, expected in (("sgd", [-0.6, -0.8, 0.0]), ("adam", [-1.0, -1.0, -1.0])):
        config = small(permanent_optimiser=name, permanent_learning_rate=1.0)
        optimiser = pt_dqn.permanent_optimiser(config, off_policy.make_network(config, SPEC))
        params = jnp.array([0.0, 0.0, 1000.0])
        grads = jnp.array([30.0, 40.0, 0.0])
        moved, _ = optim.apply(optimiser, grads, optimiser.init(params), params)
        np.testing.assert_allclose(moved - params, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("values", "needs"),
    [
        ({"buffer_size": 39}, "the replay holds 39 transitions"),
        ({"batch_size": 41}, "less than a minibatch of 41"),
    ],
)
def test_a_pass_that_cannot_be_is_refused(values: dict[str, int], needs: str) -> None:
    with pytest.raises(InputError, match=rf"permanent_period = 40: .*{needs}"):
        pt_dqn.check(small(**values), SPEC)
    pt_dqn.check(small(buffer_size=40, batch_size=40), SPEC)

"""MBPO and ideal MBPO: what is imagined, from where, and what SAC makes of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import T, random_batch, small_config, started, updater

from lcpo import distributions as dists
from lcpo.agents import AGENTS, ideal_mbpo, mbpo, off_policy
from lcpo.core import dynamics
from lcpo.core.replay import replay_rows
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum, state_at
from lcpo.errors import InputError
from lcpo.types import Spec, Transition

SPEC = Pendulum().spec
IDEAL = AGENTS["ideal-mbpo"]


def numbered(first: int) -> Transition:
    """A rollout whose speeds are the numbers of the steps; every third step terminates."""
    batch = random_batch(SPEC, jax.random.key(first), False)
    step = first + jnp.arange(T)
    return batch._replace(
        obs=batch.obs.at[..., 2].set(step[:, None].astype(jnp.float32)),
        terminated=(step % 3 == 0)[:, None],
        truncated=(step % 4 == 0)[:, None],
    )


def run(batches: list[Transition], **overrides: Any) -> tuple[Any, list[dict[str, float]]]:
    """Ideal MBPO after these rollouts, and the metrics of each update."""
    config = jax.tree.map(jnp.float32, small_config(IDEAL, **overrides))
    state, found = IDEAL.init(config, SPEC, jax.random.key(0)), []
    for i, batch in enumerate(batches):
        state, metrics = updater(IDEAL)(config, SPEC, state, batch, jax.random.key(i))
        found.append({name: float(value) for name, value in metrics.items()})
    return state, found


@pytest.mark.learn
def test_imagined_steps_start_where_real_ones_did_and_end_as_they_did() -> None:
    """And SAC's draws are older than those of replay: 3/4 of the run, not 1/2."""
    updates = 40
    state, metrics = run(
        [numbered(T * i) for i in range(updates)],
        model_samples=64, buffer_size=64 * updates, batch_size=512,
    )  # fmt: skip
    imagined = state.memory.imagined
    rows = jnp.arange(64 * updates)
    found = replay_rows(imagined, mbpo.imagined_spec(SPEC), rows, 0 * rows)
    step = np.asarray(found.extra[:, 0]).astype(int)
    np.testing.assert_array_equal(found.obs[:, 2], step)
    np.testing.assert_array_equal(found.terminated, step % 3 == 0)
    np.testing.assert_array_equal(found.truncated, step % 4 == 0)
    real = replay_rows(state.memory.real, SPEC, jnp.asarray(step), 0 * rows)
    np.testing.assert_array_equal(found.obs[:, :3], real.obs[:, :3])
    assert np.mean(np.asarray(found.action != real.action)) > 0.5
    made = np.repeat(np.arange(updates), 64)
    assert (step < T * (made + 1)).all()
    assert np.mean(step / (T * (made + 1))) == pytest.approx(0.5, abs=0.02)
    ages = [found["sample_age"] for found in metrics[-10:]]
    assert np.mean(ages) == pytest.approx(0.75, abs=0.02)
    assert metrics[0]["sample_age"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.learn
def test_one_member_imagines_at_a_time_and_each_takes_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that is drawn anew at each update, among all of them."""
    used: list[int] = []
    one_member = dynamics.one_member

    def noted(model: dynamics.Model, index: jax.Array) -> dynamics.Model:
        jax.debug.callback(lambda i: used.append(int(i)), index)
        return one_member(model, index)

    monkeypatch.setattr(dynamics, "one_member", noted)
    monkeypatch.setattr(mbpo, "learn", lambda config, spec, state, *rest: (state, {}))
    agent = AGENTS["mbpo"]
    config = jax.tree.map(jnp.float32, small_config(agent, ensemble_size=3))
    state = agent.init(config, SPEC, jax.random.key(0))
    update = jax.jit(mbpo.update, static_argnums=1)
    for number in range(24):
        batch = random_batch(SPEC, jax.random.key(number))
        state, _ = update(config, SPEC, state, batch, jax.random.key(100 + number))
    jax.effects_barrier()
    assert len(used) == 24
    assert np.bincount(used, minlength=3).min() >= 3


@pytest.mark.learn
def test_the_second_replay_closes_and_entropy_is_that_of_real_states() -> None:
    """The real replay holds the newest rollout alone, the second half of what was before it."""
    others = [random_batch(SPEC, jax.random.key(i), False) for i in range(2)]
    batches = [
        batch._replace(
            obs=jnp.full_like(batch.obs, value), next_obs=jnp.full_like(batch.obs, value)
        )
        for batch, value in zip(others, (-2.0, 2.0), strict=True)
    ]
    sizes = {"model_samples": T // 2, "buffer_size": T, "learning_rate": 0.5}
    state, metrics = run([batches[0], *batches], **sizes)
    imagined = state.memory.imagined
    assert (int(imagined.added), imagined.num_rows) == (3 * T // 2, T)
    np.testing.assert_array_equal(
        imagined.rows.floats[:, 0, 0], np.repeat([2.0, -2.0], T // 2), "the oldest give way"
    )
    config = small_config(IDEAL, **sizes)
    network = off_policy.make_network(config, SPEC)
    entropies = [
        float(jnp.mean(dists.entropy(network.apply(state.learner.policy, batch.obs))))
        for batch in batches
    ]
    assert abs(entropies[0] - entropies[1]) > 0.01
    assert metrics[-1]["entropy"] == pytest.approx(entropies[1], abs=1e-4)


def test_the_true_dynamics_are_the_environment_s() -> None:
    env, keys = Pendulum(), jax.random.split(jax.random.key(0), 4)
    angle = jax.random.uniform(keys[0], (256,), minval=-3.1, maxval=3.1)
    speed = jax.random.uniform(keys[1], (256,), minval=-8.0, maxval=8.0)
    action = jax.random.randint(keys[2], (256, 1), 0, 15)
    wind = 3.0 * jax.random.normal(keys[3], (256, 6))
    states = state_at(angle, speed, jnp.zeros(256, jnp.int32))
    newest = wind.reshape(256, 2, 3)[..., 0]
    _, step = jax.vmap(env.step, in_axes=(0, 0, 0, None))(states, action, newest, keys[0])
    obs = jnp.concatenate([jnp.cos(angle)[:, None], jnp.sin(angle)[:, None], speed[:, None]], 1)
    real = jnp.concatenate([jnp.zeros((256, 3)), wind], axis=1)
    no, ones = jnp.zeros(256, bool), jnp.ones(256)
    data = Transition(
        jnp.concatenate([obs, jnp.roll(wind, -1, 1)], 1), action, ones, real, no, no, ones, ones, ()
    )
    reward, next_obs = ideal_mbpo.predict(SPEC, data)
    np.testing.assert_allclose(reward, step.reward, 1e-5, 1e-5)
    np.testing.assert_allclose(next_obs, jnp.concatenate([step.obs, wind], 1), 1e-5, 1e-5)


@pytest.mark.parametrize(
    "spec", [GridWorld().spec, SPEC._replace(num_actions=(15, 15)), SPEC._replace(obs_size=10)]
)
def test_ideal_mbpo_needs_the_windy_pendulum(spec: Spec) -> None:
    ideal_mbpo.check(ideal_mbpo.Config(), SPEC)
    with pytest.raises(InputError, match=r"needs the windy Pendulum.*--env pendulum"):
        ideal_mbpo.check(ideal_mbpo.Config(), spec)


@pytest.mark.learn
def test_errors_of_the_model_are_shares_of_what_varied() -> None:
    """By hand; and where nothing varies they are squares, not infinite."""
    config, _, state = started(AGENTS["mbpo"])
    network = config.model(SPEC)
    batch, draws = (random_batch(SPEC, jax.random.key(i)) for i in (1, 2))
    draws = jax.tree.map(lambda x: x[:, 0], draws)
    found = mbpo.errors(SPEC, network, state.model, batch, draws)
    members = dynamics.predict(network, SPEC, state.model, batch.obs, batch.action).mean
    squares = np.square(np.mean(members, 0) - dynamics.outputs(batch)).mean((0, 1))
    spread = np.var(np.asarray(dynamics.outputs(draws)), 0)
    share = squares / spread
    np.testing.assert_allclose(found["model_reward_error"], share[0], 1e-4)
    np.testing.assert_allclose(found["model_obs_error"], share[1:4].mean(), 1e-4)
    still = draws._replace(reward=0.0 * draws.reward, next_obs=draws.obs)
    found = mbpo.errors(SPEC, network, state.model, batch, still)
    np.testing.assert_allclose(found["model_reward_error"], squares[0], 1e-4)

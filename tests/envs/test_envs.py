"""The windy Pendulum against Gymnasium's, its wind, its observation; the probes' contract."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import a2c
from lcpo.core.pendulum import LAGS
from lcpo.envs import probes
from lcpo.envs.pendulum import Pendulum, PlainPendulum, State, state_at
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.rollout import init_run, load_contexts, rollout
from lcpo.run.plan.check import check_env
from lcpo.types import Transition

KEY = jax.random.key(0)


def stepped(env: Pendulum, state: State, action: Any, wind: Any) -> tuple[State, Any]:
    """One step of many worlds."""
    keys = jax.random.split(KEY, len(state.angle))
    wind = jnp.broadcast_to(jnp.asarray(wind, jnp.float32), (len(keys), len(wind)))
    return jax.vmap(env.step)(state, jnp.asarray(action)[:, None], wind, keys)


def random_states(count: int, seed: int = 0) -> tuple[State, np.ndarray]:
    """All angles, all speeds that can occur, and random actions."""
    rng = np.random.default_rng(seed)
    angle, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(-8.0, 8.0, count)
    state = state_at(
        jnp.asarray(angle, jnp.float32), jnp.asarray(speed, jnp.float32), jnp.zeros(count, int)
    )
    return state, rng.integers(15, size=count)


@pytest.mark.parametrize(
    ("env", "calm"), [(Pendulum(), (0.0, 0.0)), (PlainPendulum(), ())], ids=["windy", "plain"]
)
def test_no_wind_is_gymnasium(env: Pendulum, calm: tuple[float, ...]) -> None:
    """State transfer: 1000 states, actions; successor, reward and observation to float32."""
    states, actions = random_states(1000)
    after, step = stepped(env, states, actions, calm)
    theirs: Any = gymnasium.make("Pendulum-v1").unwrapped
    theirs.reset(seed=0)
    expected = []
    for angle, speed, action in zip(states.angle, states.speed, actions, strict=True):
        theirs.state = np.array([angle, speed], np.float64)
        torque = np.linspace(-2.0, 2.0, 15)[action]
        obs, reward, terminated, truncated, _ = theirs.step(np.array([torque]))
        assert not terminated
        assert not truncated
        expected.append((*obs, theirs.state[1], reward))
    found = np.column_stack([step.obs, after.speed, step.reward])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channel", [0, 1])
def test_every_wind_entry_changes_the_trajectory(channel: int) -> None:
    """Except where its lever arm is 0 or the torque is saturated either way."""
    states, actions = random_states(1000)
    still, _ = stepped(Pendulum(), states, actions, (0.0, 0.0))
    windy, step = stepped(Pendulum(), states, actions, 0.5 * np.eye(2)[channel])
    assert np.mean(windy.speed != still.speed) > 0.8
    assert np.isfinite(step.obs).all()


def test_wind_pushes_with_its_lever_arm() -> None:
    """Torque wx cos(angle) + wy sin(angle): wx acts on an upright pendulum, wy on a level one."""
    upright_and_level = state_at(jnp.array([0.0, jnp.pi / 2]), jnp.zeros(2), jnp.zeros(2, int))
    zero_torque = [7, 7]
    still, _ = stepped(Pendulum(), upright_and_level, zero_torque, (0.0, 0.0))
    for wind, pushed in [((0.5, 0.0), [0.5, 0.0]), ((0.0, 0.5), [0.0, 0.5])]:
        after, step = stepped(Pendulum(), upright_and_level, zero_torque, wind)
        np.testing.assert_allclose(
            after.speed - still.speed, 3 * 0.05 * np.array(pushed), atol=1e-6
        )
        np.testing.assert_allclose(step.reward, [0.0, -((np.pi / 2) ** 2)], atol=1e-6)


def test_wind_and_action_share_the_torque_limit_but_only_the_action_costs() -> None:
    upright = state_at(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1, int))
    strong, step = stepped(Pendulum(), upright, [14], (1.0, 0.0))
    alone, _ = stepped(Pendulum(), upright, [14], (0.0, 0.0))
    assert strong.speed == alone.speed
    np.testing.assert_allclose(step.reward, -0.001 * 2.0**2, rtol=1e-6)
    against, _ = stepped(Pendulum(), upright, [14], (-5.0, 0.0))
    np.testing.assert_allclose(against.speed, -3 * 0.05 * 2.0, rtol=1e-6)


def test_truncated_exactly_at_200_and_step_never_resets() -> None:
    env = Pendulum()
    state, _ = env.reset(KEY)
    action, calm = jnp.array([3]), jnp.zeros(2)

    def one(state: State, _: None) -> tuple[State, tuple]:
        state, step = env.step(state, action, calm, KEY)
        return state, (state.time, step.truncated, step.terminated, step.obs)

    _, (time, truncated, terminated, obs) = jax.lax.scan(one, state, length=210)
    np.testing.assert_array_equal(time, np.arange(1, 211))
    np.testing.assert_array_equal(truncated, np.arange(1, 211) >= 200)
    assert not terminated.any()
    # No jump at the limit: the speed changes by at most (15 + 3 * 2) * 0.05 a step.
    assert np.abs(np.diff(obs[:, 2])).max() <= 1.06


def random_walk(env: Any, trace: np.ndarray, steps: int) -> Transition:
    """One rollout of an untrained policy through the driver, from step 0."""
    config = a2c.Config(rollout_length=steps, hidden=(8,))
    contexts = load_contexts(trace, 0, len(trace), env.spec.context.lags)
    program, run = Program(a2c.agent, env.spec), Run(config, env, jnp.int32(0))
    state = init_run(program, run, contexts)
    collect = jax.jit(lambda state: rollout(program, run, state, contexts, jnp.int32(0), KEY)[1])
    return jax.tree.map(lambda x: np.asarray(x)[:, 0], collect(state))


def numbered(rows: int) -> np.ndarray:
    """A trace whose entries tell their row and channel: wx = row, wy = 1000 + row."""
    return np.stack([np.arange(rows), 1000 + np.arange(rows)], axis=1).astype(np.float32)


def test_plain_pendulum_has_no_context() -> None:
    """Through the driver: three features, and episodes of 200 steps that are reset."""
    batch = random_walk(PlainPendulum(), np.zeros((1, 0)), 410)
    assert batch.obs.shape == (410, 3)
    np.testing.assert_array_equal(np.flatnonzero(batch.truncated), [199, 399])
    np.testing.assert_array_equal(batch.next_obs[:199], batch.obs[1:200])
    assert np.abs(batch.next_obs[199] - batch.obs[200]).max() > 1e-3
    assert PlainPendulum().spec.context.size == 0


def history(cursor: int | np.integer) -> np.ndarray:
    """Context entries when row `cursor` of the numbered trace is the newest."""
    rows = np.maximum([cursor - lag for lag in range(LAGS)], 0)
    return np.concatenate([rows, 1000 + rows])


def test_observation_layout() -> None:
    """[cos, sin, speed, wx_t, wx_{t-1}, wx_{t-2}, wy_t, wy_{t-1}, wy_{t-2}]."""
    steps = 12
    batch = random_walk(Pendulum(), numbered(steps + 1), steps)
    for t in range(steps):
        np.testing.assert_array_equal(batch.obs[t, 3:], history(t))
        # The wind of a transition is seen only after it.
        np.testing.assert_array_equal(batch.next_obs[t, 3:], history(t + 1))
    np.testing.assert_allclose(batch.obs[:, 0] ** 2 + batch.obs[:, 1] ** 2, 1.0, rtol=1e-5)
    np.testing.assert_allclose(batch.obs[0, 3:], [0, 0, 0, 1000, 1000, 1000])
    np.testing.assert_allclose(batch.obs[5, 3:], [5, 4, 3, 1005, 1004, 1003])


def test_context_goes_on_across_a_reset() -> None:
    """An episode ends and begins at the same row; the state is new, the history is not."""
    steps = 23
    batch = random_walk(Pendulum(max_steps=5), numbered(steps + 1), steps)
    ends = np.flatnonzero(batch.truncated)
    np.testing.assert_array_equal(ends, [4, 9, 14, 19])
    for t in ends:
        np.testing.assert_array_equal(batch.next_obs[t, 3:], history(t + 1))
        np.testing.assert_array_equal(batch.obs[t + 1, 3:], history(t + 1))
        assert np.abs(batch.next_obs[t, :3] - batch.obs[t + 1, :3]).max() > 1e-3
    inside = np.setdiff1d(np.arange(steps - 1), ends)
    np.testing.assert_array_equal(batch.next_obs[inside], batch.obs[inside + 1])


def test_the_wind_of_a_transition_is_the_row_it_ends_at() -> None:
    """Rows 0 and 2 blow, row 1 does not: step 1, which ends at row 2, feels the wind again."""
    env, trace = Pendulum(), np.array([[2.0, 2.0], [0.0, 0.0], [2.0, 2.0]])
    batch = random_walk(env, trace, 2)
    for t, wind in enumerate(trace[1:]):
        angle = np.arctan2(batch.obs[t, 1], batch.obs[t, 0])
        state = state_at(jnp.array([angle]), jnp.array([batch.obs[t, 2]]), jnp.zeros(1, int))
        _, step = stepped(env, state, batch.action[t], wind)
        np.testing.assert_allclose(step.obs[0], batch.next_obs[t, :3], rtol=1e-5, atol=1e-5)


def test_resets_cover_the_circle() -> None:
    states, obs = jax.vmap(Pendulum().reset)(jax.random.split(KEY, 2000))
    np.testing.assert_allclose(obs[:, 0], np.cos(states.angle), atol=1e-6)
    for values, bound in [(states.angle, np.pi), (states.speed, 1.0)]:
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.99 * bound
        assert abs(np.std(values) - bound / 3**0.5) < 0.05 * bound


PROBES = [
    probes.ConstantReward(), probes.Bandit(), probes.Rooms(), probes.Rooms(end="terminated"),
    probes.DelayedReward(), probes.TwoContexts(),
]  # fmt: skip


@pytest.mark.parametrize(
    "env", [Pendulum(), PlainPendulum(), *PROBES], ids=lambda env: type(env).__name__
)
def test_contract(env: Any) -> None:
    check_env(env)


@pytest.mark.parametrize(
    ("env", "length"), [(PROBES[0], None), (PROBES[1], 1), (PROBES[2], 4), (PROBES[3], 4),
                        (PROBES[4], 5), (PROBES[5], 1)], ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_probe_episodes(env: Any, length: int | None) -> None:
    """Episodes have the length that they say, and end once, in one way."""
    batch = random_walk(env, np.ones((41, 1)), 40)
    assert not (batch.terminated & batch.truncated).any()
    ended = batch.terminated | batch.truncated
    expected = np.zeros(40, bool) if length is None else (np.arange(40) + 1) % length == 0
    np.testing.assert_array_equal(ended, expected)
    assert batch.truncated.any() == (env == probes.Rooms())


def test_two_contexts_contradict_each_other() -> None:
    env = probes.TwoContexts()
    for sign in (-1.0, 1.0):
        rewards = [
            [float(env.step(jnp.float32(sign), jnp.array([a]), jnp.array([c]), KEY)[1].reward)
             for a in (0, 1)]
            for c in (-1.0, 1.0)
        ]  # fmt: skip
        np.testing.assert_array_equal(np.sum(rewards, axis=0), [1.0, 1.0])
        np.testing.assert_array_equal(np.sum(rewards, axis=1), [1.0, 1.0])

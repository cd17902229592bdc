"""The grid world's two readings, its schedule, and the tables that walk it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import on_policy, tabular_a2c
from lcpo.contexts.paper import trap_schedule
from lcpo.core import nets
from lcpo.envs.gridworld import GridWorld, State
from lcpo.envs.pendulum import Pendulum
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.compiled import make_chunk, make_init
from lcpo.run.drive.rollout import init_run, load_contexts, rollout
from lcpo.types import Step, Transition

LEFT, UP, RIGHT, DOWN = range(4)
KEY = jax.random.key(0)


def move(
    env: GridWorld, cell: tuple[int, int], action: int, *, trap: bool = False
) -> tuple[tuple[int, int], Step]:
    state = State(jnp.int32(cell[0]), jnp.int32(cell[1]), jnp.bool_(False), jnp.int32(0))
    state, step = env.step(state, jnp.array([action]), jnp.array([0.0, float(trap)]), KEY)
    return (int(state.row), int(state.col)), step


def walk(env: GridWorld, actions: list[int], *, trap: bool) -> tuple[float, int, Step]:
    """Return, length and last step of an episode, the last action repeated."""
    state, _ = env.reset(KEY)
    total, context = 0.0, jnp.array([0.0, float(trap)])
    for t in range(env.max_steps):
        action = jnp.array([actions[min(t, len(actions) - 1)]])
        state, step = env.step(state, action, context, KEY)
        total += float(step.reward)
        if step.terminated or step.truncated:
            return total, t + 1, step
    raise AssertionError("the episode has no end")


SHORT, LONG = [LEFT, UP, UP, RIGHT], [LEFT, LEFT, UP, UP, RIGHT, RIGHT]


@pytest.mark.parametrize("as_described", [False, True])
def test_returns_of_the_two_paths(as_described: bool) -> None:
    env = GridWorld(as_described=as_described)
    for actions, trap, expected in [
        (SHORT, False, -3.0), (SHORT, True, -13.0), (LONG, False, -5.0), (LONG, True, -5.0),
        ([RIGHT], True, -20.0),
    ]:  # fmt: skip
        total, length, last = walk(env, actions, trap=trap)
        assert total == expected
        at_exit = as_described and len(actions) > 1
        assert length == (len(actions) if at_exit else 20)
        assert bool(last.terminated) == at_exit
        assert bool(last.truncated) != at_exit


def test_trap_catches_once_an_episode() -> None:
    back_and_forth = [LEFT, UP, DOWN, UP, UP, RIGHT]
    assert walk(GridWorld(), back_and_forth, trap=True)[0] == -15.0
    assert walk(GridWorld(), back_and_forth, trap=False)[0] == -5.0


def test_wall() -> None:
    """Solid from all sides as described; as coded only from above and below."""
    into = {(2, 2): UP, (0, 2): DOWN, (1, 1): RIGHT}
    for cell, action in into.items():
        assert move(GridWorld(as_described=True), cell, action)[0] == cell
        assert (move(GridWorld(), cell, action)[0] == (1, 2)) == (cell == (1, 1))
    assert move(GridWorld(), (1, 2), UP)[0] == (0, 2)


def test_exit_can_be_left_only_as_coded() -> None:
    cell, step = move(GridWorld(), (0, 2), LEFT)
    assert cell == (0, 1)
    assert step.reward == -1.0
    assert move(GridWorld(as_described=True), (0, 1), RIGHT)[1].terminated
    assert not move(GridWorld(), (0, 1), RIGHT)[1].terminated


def test_schedule_of_another_length() -> None:
    trap = trap_schedule(50)[:, 1]
    np.testing.assert_array_equal(np.flatnonzero(trap), np.arange(9, 39))
    assert not trap_schedule(50)[:, 0].any()


@pytest.mark.parametrize("as_described", [False, True])
def test_observations_are_within_their_levels(as_described: bool) -> None:
    """Every observation indexes the tables, and the context moves with the episode only."""
    env, trace = GridWorld(as_described=as_described), trap_schedule(50)
    batch = random_walk(env, trace)
    obs = np.concatenate([batch.obs, batch.next_obs]).reshape(-1, 4)
    levels = env.spec.obs_levels
    assert levels is not None
    assert len(levels) == env.spec.obs_size
    assert (obs >= 0).all()
    assert (obs < np.array(levels)).all()
    np.testing.assert_array_equal(obs, np.round(obs))
    ended = np.asarray(batch.terminated | batch.truncated)[:, 0]
    episode = np.concatenate([[0], np.cumsum(ended)[:-1]])
    assert trace[episode, 1].min() < trace[episode, 1].max()
    np.testing.assert_array_equal(batch.obs[:, 0, 2:], trace[episode])
    np.testing.assert_array_equal(batch.next_obs[:, 0, 2:], trace[episode])


def random_walk(env: GridWorld, trace: np.ndarray) -> Transition:
    """One rollout of a fresh table."""
    agent, config = tabular_a2c.agent, tabular_a2c.Config(rollout_length=400)
    contexts = load_contexts(trace, 0, len(trace), 1)
    program, run = Program(agent, env.spec), Run(config, env, jnp.int32(0))
    state = init_run(program, run, contexts)
    collect = jax.jit(lambda state: rollout(program, run, state, contexts, jnp.int32(0), KEY)[1])
    return collect(state)


def test_tabular_agent_needs_levels() -> None:
    tabular_a2c.check(tabular_a2c.Config(), GridWorld().spec)
    with pytest.raises(ValueError, match="obs_levels"):
        tabular_a2c.check(tabular_a2c.Config(), Pendulum().spec)


def test_table_looks_up_rows() -> None:
    entries = jnp.arange(36.0 * 4).reshape(3, 3, 2, 2, 4)
    obs = np.moveaxis(np.indices((3, 3, 2, 2)), 0, -1).astype(np.float32)
    np.testing.assert_array_equal(
        nets.table((3, 3, 2, 2), 4).apply(nets.Lookup(entries), jnp.asarray(obs)), entries
    )


@pytest.mark.parametrize("value", ["table", pytest.param("mlp", marks=pytest.mark.learn)])
def test_a_table_keeps_what_it_does_not_visit(value: str) -> None:
    """Learns the short path in 300 updates; rows with the trap stay uniform."""
    env, config = GridWorld(), tabular_a2c.Config(value=value, value_learning_rate=0.01)
    agent, spec = tabular_a2c.agent, env.spec
    contexts = load_contexts(np.zeros((3000, 2)), 0, 3000, 1)
    program, run = Program(agent, spec), Run(config, env, jnp.int32(0))
    state = make_init(program)(run, contexts)
    chunk = make_chunk(program, 300)
    state, metrics = chunk(run, state, contexts, jnp.int32(0), jnp.int32(300))
    last = metrics["episode_return_sum"][-20:].sum() / metrics["episodes"][-20:].sum()
    assert last > -3.5
    policy = on_policy.make_networks(config, spec).policy.apply(
        state.agent.policy, jnp.array([[2.0, 2.0, 0.0, 0.0]])
    )
    assert policy.argmax() == LEFT
    assert not np.any(state.agent.policy.entries[:, :, :, 1])
    assert (value == "table") == isinstance(state.agent.value, nets.Lookup)

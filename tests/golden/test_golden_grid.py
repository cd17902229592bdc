"""The grid world and tabular A2C against the published code's."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from golden_files import assert_params, batch_of, cases, load, mlp_params, settings

from lcpo.agents import on_policy, tabular_a2c
from lcpo.contexts.paper import trap_schedule
from lcpo.core import nets, ood, optim
from lcpo.envs.gridworld import GridWorld, State
from lcpo.run.drive.rollout import load_contexts
from lcpo.types import ContextSlice, Spec

close = np.testing.assert_allclose
same = np.testing.assert_array_equal

step = jax.jit(jax.vmap(GridWorld().step, in_axes=(0, 0, 0, None)))


@cases("grid_table")
def test_every_move(case: Path) -> None:
    """All cells, actions, modes, caught or not, in mid-episode and at its last step."""
    g = load(case)
    shape = g["reward"].shape
    row, col, action, mode, caught = (x.ravel() for x in np.indices(shape))
    for time, truncated in ((3, "truncated_midepisode"), (19, "truncated_at_20th_step")):
        state = State(*map(jnp.asarray, (row, col, caught.astype(bool), np.full_like(row, time))))
        context = np.stack([0 * mode, mode], axis=1).astype(np.float32)
        after, found = step(state, action[:, None], context, jax.random.key(0))
        same(after.row.reshape(shape), g["next_row"])
        same(after.col.reshape(shape), g["next_col"])
        same(after.caught.reshape(shape), g["trap_triggered_after"])
        same(found.reward.reshape(shape), g["reward"])
        same(found.terminated.reshape(shape), g["terminated"])
        same(found.truncated.reshape(shape), g[truncated])
        same(jnp.concatenate([found.obs, context], 1).reshape(g["next_obs"].shape), g["next_obs"])


@cases("grid_table")
def test_schedule(case: Path) -> None:
    """Episode n, counted from 1, has row n - 1, because a run starts at row 0."""
    g = load(case)
    trace = trap_schedule(int(g["schedule_trace_length"]))
    rows = (g["schedule_episode_number"] - 1) % len(trace)
    same(trace[rows], np.stack([0 * rows, g["schedule_mode_of_episode"]], axis=1))


@cases("grid_traj_*")
def test_walk(case: Path) -> None:
    """400 steps across resets and a change of the context, in one free run."""
    g = load(case)
    first = int(g["start_trace_index_before_reset"])  # the reset moves it on: row first, ours
    contexts = load_contexts(trap_schedule(), first, 100, 1)
    env = GridWorld()
    state, features = env.reset(jax.random.key(0))
    cursor = first
    advance = jax.jit(env.step)
    for t in range(len(g["action"])):
        context = contexts.history(jnp.int32(cursor), 1)[0]
        same(np.concatenate([features, context]), g["obs"][t])
        state, found = advance(state, jnp.asarray(g["action"][t]), context, jax.random.key(0))
        same(np.concatenate([found.obs, context]), g["next_obs"][t])
        same([found.reward, found.terminated], [g["reward"][t], g["terminated"][t]])
        assert found.truncated == g["truncated"][t]
        features = found.obs
        if found.truncated:
            state, features = env.reset(jax.random.key(0))
            cursor += 1


@cases("grid_ood_*")
def test_ood(case: Path) -> None:
    """The published threshold stands for the squared distance."""
    g = load(case)
    distance = ood.l2(GridWorld().spec.context, jnp.asarray(g["base"]), jnp.asarray(g["data"]))
    same(distance > jnp.square(jnp.sqrt(jnp.float32(g["threshold"]))), g["mask"])


@cases("grid_tabular_a2c_*", later=("grid_tabular_a2c_0",))
def test_tabular_update(case: Path) -> None:
    """The published agent: a table for the policy, an MLP for the value."""
    g = load(case)
    config = settings(g, tabular_a2c.Config, value="mlp", faults=(on_policy.TRUNCATION_LEAKS,))
    *levels, dims, width = g["init_table"].shape
    spec = Spec(len(levels), ContextSlice(2, 2, 1), (width,) * dims, obs_levels=tuple(levels))
    state = on_policy.init(config, spec, jax.random.key(0))
    assert state.policy.entries.size == g["init_table"].size
    assert not np.any(state.policy.entries)
    policy = nets.Lookup(jnp.asarray(g["init_table"]).reshape(*levels, dims * width))
    value = jax.tree.map(jnp.asarray, mlp_params(g, "init_value"))
    state = state._replace(policy=policy, value=value, value_opt=optim.adam(0.0, 1.0).init(value))
    update = jax.jit(tabular_a2c.agent.update, static_argnums=1)
    networks = on_policy.make_networks(config, spec)
    for k in range(len(g["obs"])):
        _, data = on_policy.estimate(config, networks, state, batch_of(g, k))
        close(data.target, g["returns"][k], rtol=1e-5, atol=2e-5)
        close(data.advantage, g["advantages"][k], rtol=1e-5, atol=2e-5)
        state, metrics = update(config, spec, state, batch_of(g, k), jax.random.key(0))
        close(metrics["policy_loss"], g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        name = "step1" if k == 0 else "final"
        if k in (0, len(g["obs"]) - 1):
            expected = g[f"{name}_table"].reshape(state.policy.entries.shape)
            close(state.policy.entries, expected, rtol=0, atol=1e-6)
            assert_params(state.value, g, f"{name}_value", 1e-6)

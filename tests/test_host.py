"""The host driver: equal to the compiled one, independent of grouping, exact in resuming."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mirror import Mirror

from lcpo.agents import AGENTS
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.run import compiled, epoch
from lcpo.run.host import HostProgram
from lcpo.run.phases import ONLINE, Mode, Phase, config_at

UPDATES = 5


def setups_of(agent: Any, config: Any, env: Any, seeds: Any, steps: int) -> list[Any]:
    return [
        SimpleNamespace(
            agent=agent, config=config, env=env, spec=env.spec,
            job=SimpleNamespace(seed=seed, steps=steps),
        )
        for seed in seeds
    ]  # fmt: skip


def compiled_run(
    agent: Any, config: Any, env: Any, seed: int, trace: np.ndarray, mode: Mode
) -> tuple[Any, np.ndarray, list[dict]]:
    """The first updates through the compiled driver: state, actions, metrics."""
    spec, lags = env.spec, env.spec.context.lags
    at_once = mode.random_starts or env.advance != "step"
    rows = len(trace) if at_once else UPDATES * config.rollout_length + 1
    contexts = compiled.load_contexts(trace, 0, rows, lags)

    @jax.jit
    def update(state: Any, u: Any) -> Any:
        now = config_at(mode, config, u)
        rollout_key, learn_key = epoch.update_keys(jnp.int32(seed), u, mode)
        worlds, batch = compiled.rollout(
            agent, now, env, spec, state, contexts, u * config.rollout_length, rollout_key,
            mode.random_starts,
        )  # fmt: skip
        state = state._replace(worlds=worlds)
        state, metrics = epoch.learn(agent, now, env, spec, state, batch, learn_key, mode.learns)
        return state, batch.action, metrics

    state = compiled.init_run(agent, config, env, spec, jnp.int32(seed), contexts, mode)
    actions, metrics = [], []
    for u in range(UPDATES):
        state, action, row = update(state, jnp.int32(u))
        actions.append(action)
        metrics.append(row)
    return state, np.concatenate(actions), metrics


TRAINING = Mode(random_starts=True, halve=("learning_rate",), halve_at=(2,))


@pytest.mark.parametrize(
    ("name", "env", "mode"),
    [
        ("lcpo", Pendulum(max_steps=17), ONLINE),
        ("a2c", GridWorld(), ONLINE),
        ("a2c", Pendulum(max_steps=17), TRAINING),
    ],
    ids=["lcpo-pendulum", "a2c-grid-world", "a2c-pendulum-random-starts"],
)  # fmt: skip
def test_both_drivers_give_the_same(name: str, env: Any, mode: Mode) -> None:
    """The same keys: equal actions, and parameters to float32 rounding, over 5 updates."""
    agent = AGENTS[name]
    overrides: dict[str, Any] = {"rollout_length": 50, "hidden": (16, 16)}
    if name == "lcpo":
        overrides |= {"buffer_size": 100, "sigma": 0.5}
    config, seeds = agent.config(**overrides), [3, 4]
    rng = np.random.default_rng(0)
    trace = np.repeat(rng.normal(size=(30, 2)), 20, axis=0).astype(np.float32)
    if env.advance == "episode":
        trace = (trace > 0).astype(np.float32)
    phase = Phase("run", "record.npz", UPDATES, 50, 1, mode=mode)
    mirror = Mirror(env, 50, mode)
    setups = setups_of(agent, config, mirror, seeds, len(trace))
    program = HostProgram(setups, phase, 8, trace)
    state = program.start()
    worlds: Any = state.worlds
    state, metrics = program.chunk(state, 0, UPDATES)
    actions = np.stack(worlds.actions)  # [T, R, A]
    for i, seed in enumerate(seeds):
        theirs, their_actions, their_metrics = compiled_run(agent, config, env, seed, trace, mode)
        np.testing.assert_array_equal(actions[:, i], their_actions[:, 0])
        member = program.member(state, i)
        pairs = zip(jax.tree.leaves(member.agent), jax.tree.leaves(theirs.agent), strict=True)
        for ours, expected in pairs:
            np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-5)
        np.testing.assert_array_equal(member.worlds.cursor, theirs.worlds.cursor)
        np.testing.assert_allclose(member.worlds.obs, theirs.worlds.obs, rtol=1e-4, atol=1e-5)
        assert member.episode_length == theirs.episode_length
        assert their_metrics[0].keys() == metrics.keys()
        for u, row in enumerate(their_metrics):
            for key, value in row.items():
                np.testing.assert_allclose(metrics[key][i, u], value, rtol=2e-3, atol=2e-4)
    if name == "lcpo":
        assert metrics["constraint_active"][:, :UPDATES].sum() > 0

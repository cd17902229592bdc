"""What every agent promises, for all agents at once (DESIGN: contracts).

Small sizes: what is tested is the contract, not the learning.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo import config as configs
from lcpo.agents import AGENTS
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.run import compiled, presets
from lcpo.run.check import check_agent
from lcpo.types import Agent, Spec, Transition

SMALL = {"rollout_length": 16, "hidden": (8, 8), "buffer_size": 64}
T = SMALL["rollout_length"]


def env_for(agent: Agent) -> Any:
    """The Pendulum, or for agents that need finite observations the grid world."""
    return GridWorld() if agent.name.startswith("tabular") else Pendulum()


def small_config(agent: Agent, **overrides: Any) -> Any:
    env = "grid-world" if agent.name.startswith("tabular") else "pendulum"
    fields = {f.name for f in dataclasses.fields(agent.Config)}
    small = {k: v for k, v in SMALL.items() if k in fields}
    return agent.config(**{**presets.overrides(agent.name, env), **small, **overrides})


@partial(jax.jit, static_argnums=(0, 2))
def random_batch(spec: Spec, key: jax.Array, ends: bool = True) -> Transition:
    """Random interactions, on the levels of the space where it is finite."""
    keys = jax.random.split(key, 6)
    shape = (T, spec.num_worlds)
    if spec.obs_levels is None:
        obs, next_obs = jax.random.normal(keys[0], (2, *shape, spec.obs_size))
    else:
        levels = jnp.array(spec.obs_levels)
        draw = jax.random.randint(keys[0], (2, *shape, spec.obs_size), 0, levels)
        obs, next_obs = draw.astype(jnp.float32)
    action = jax.random.randint(keys[1], (*shape, spec.action_size), 0, min(spec.num_actions))
    flags = jax.random.bernoulli(keys[2], 0.1 if ends else 0.0, (2, *shape))
    ones = jnp.ones(shape)
    return Transition(
        obs, action, jax.random.normal(keys[3], shape), next_obs, *flags, ones, ones, ()
    )


@cache
def _jitted(function: Any) -> Any:
    return jax.jit(function, static_argnums=1)


def updater(agent: Agent) -> Any:
    """The compiled update; variants of an agent share it."""
    return _jitted(agent.update)


def started(agent: Agent, **overrides: Any) -> tuple[Any, Spec, Any]:
    """A config, a spec, and a state after two updates (so that buffers hold something)."""
    config, spec = small_config(agent, **overrides), env_for(agent).spec
    config = jax.tree.map(jnp.float32, config)
    state = _jitted(agent.init)(config, spec, jax.random.key(0))
    for i in range(2):
        batch = random_batch(spec, jax.random.key(i))
        state, _ = updater(agent)(config, spec, state, batch, jax.random.key(i))
    return config, spec, state


def assert_same(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a: Any, b: Any, tolerance: float) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, tolerance, tolerance), a, b)


# `agent` as a fixture, so that other test files can run a user's agent through the same tests.
@pytest.fixture(params=list(AGENTS.values()), ids=list(AGENTS))
def agent(request: pytest.FixtureRequest) -> Agent:
    return request.param


def test_update_keeps_the_state_tree_and_compiles_once(agent: Agent) -> None:
    config, spec, state = started(agent)
    check_agent(agent, config, spec)
    update = updater(agent)
    before = update._cache_size()
    after, metrics = update(
        config, spec, state, random_batch(spec, jax.random.key(5)), jax.random.key(5)
    )
    assert update._cache_size() == before
    assert jax.tree.structure(state) == jax.tree.structure(after)
    jax.tree.map(
        lambda a, b: (
            (a.shape, a.dtype) == (b.shape, b.dtype) or pytest.fail("shape or dtype changed")
        ),
        state,
        after,
    )
    assert all(np.isfinite(v) and v.shape == () for v in metrics.values())


def test_same_key_same_result_and_act_only_reads(agent: Agent) -> None:
    config, spec, state = started(agent)
    batch = random_batch(spec, jax.random.key(3))
    first = updater(agent)(config, spec, state, batch, jax.random.key(4))
    assert_same(first, updater(agent)(config, spec, state, batch, jax.random.key(4)))
    obs = batch.obs[0]
    slim = state._replace(memory=None) if "memory" in state._fields else state
    actions = [agent.act(config, spec, s, obs, jax.random.key(9))[0] for s in (state, slim)]
    assert_same(*actions)
    assert actions[0].shape == (1, spec.action_size)
    assert jnp.issubdtype(actions[0].dtype, jnp.integer)


def test_vmap_over_seeds_and_traced_fields_equals_a_loop(agent: Agent) -> None:
    """One program with each traced field changed in one of its members."""
    _, spec, _ = started(agent)
    names = configs.traced_fields(agent.Config)
    base = small_config(agent)
    members = [base, base]
    for name in names:
        members.append(dataclasses.replace(base, **{name: 0.5 * getattr(base, name) + 0.01}))
    keys = jax.random.split(jax.random.key(1), len(members))

    def run(config: Any, key: jax.Array) -> Any:
        state = agent.init(config, spec, key)
        for i in range(2):
            batch = random_batch(spec, jax.random.fold_in(key, i))
            state, metrics = agent.update(
                config, spec, state, batch, jax.random.fold_in(key, 9 + i)
            )
        slim = state._replace(memory=None) if "memory" in state._fields else state
        return slim, metrics

    together = jax.jit(jax.vmap(run))(configs.stack(members), keys)
    single = jax.jit(run)
    for i in (0, 1, 2, len(members) - 1):
        alone = single(jax.tree.map(jnp.float32, members[i]), keys[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), alone, 2e-4)
    policies = jax.tree.leaves(together[0])[0]
    assert not np.array_equal(policies[0], policies[1]), "two seeds gave the same parameters"


def unscaled(agent: Agent) -> dict[str, Any]:
    """Rewards as they are, for agents that would scale them."""
    return {"scale_rewards": False} if hasattr(agent.Config, "scale_rewards") else {}


def ending(batch: Transition, kind: str, at: int) -> Transition:
    flag = jnp.zeros_like(batch.terminated).at[at].set(True)
    return batch._replace(**{kind: flag})


def other_obs(spec: Spec) -> jax.Array:
    if spec.obs_levels is None:
        return jnp.full(spec.obs_size, 3.0)
    return jnp.array(spec.obs_levels, jnp.float32) - 1.0


def test_truncated_bootstraps_and_terminated_does_not(agent: Agent) -> None:
    """The successor of the last step matters where the episode was cut, not where it ended."""
    config, spec, warm = started(agent, **unscaled(agent))
    if agent.name == "tabular-q":  # no two rows alike, visited or not
        warm = warm._replace(
            q=jax.tree.map(lambda x: x + jnp.arange(x.size).reshape(x.shape), warm.q)
        )
    batch = random_batch(spec, jax.random.key(7), False)
    changed = batch._replace(next_obs=batch.next_obs.at[-1].set(other_obs(spec)))

    def after(data: Transition, kind: str) -> Any:
        ended = ending(data, kind, T - 1)
        state, _ = updater(agent)(config, spec, warm, ended, jax.random.key(0))
        return getattr(state, "learner", state)

    assert_same(after(batch, "terminated"), after(changed, "terminated"))
    one, other = after(batch, "truncated"), after(changed, "truncated")
    for part in ("policy", "value") if hasattr(one, "policy") else ("q",):
        leaves = (jax.flatten_util.ravel_pytree(getattr(s, part))[0] for s in (one, other))
        assert not np.array_equal(*leaves), f"the {part} does not bootstrap"


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_leaks_across_an_episode_end(agent: Agent, kind: str) -> None:
    """Rewards after the end do not reach the value targets and advantages before it."""
    from lcpo.agents import a2c

    if agent.name == "tabular-q":
        pytest.skip("targets of one step: no reward but its own reaches them")
    config, spec, state = started(agent, **unscaled(agent))
    estimate = jax.jit(a2c.estimate)
    batch = ending(random_batch(spec, jax.random.key(8), False), kind, 7)
    changed = batch._replace(reward=batch.reward.at[8:].add(5.0))
    learner = getattr(state, "learner", state)
    found = [estimate(config, learner, data)[1] for data in (batch, changed)]
    np.testing.assert_array_equal(found[0].target[:8], found[1].target[:8])
    np.testing.assert_array_equal(found[0].advantage[:8], found[1].advantage[:8])
    leaking = dataclasses.replace(config, faults=("truncation-leaks",))
    found = [estimate(leaking, learner, data)[1] for data in (batch, changed)]
    leaked = not np.array_equal(found[0].target[:8], found[1].target[:8])
    assert leaked == (kind == "truncated"), "the fault leaks at truncations, and only there"


def test_config_survives_json(agent: Agent) -> None:
    config = small_config(agent)
    again = configs.make(agent.Config, json.loads(json.dumps(configs.to_json(config))))
    assert again == config


def test_stopped_and_resumed_equals_never_stopped(agent: Agent) -> None:
    """Through the driver: four updates at once, or two, a trip through the host, and two more."""
    config, env = small_config(agent), env_for(agent)
    spec, trace = env.spec, np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    if agent.name.startswith("tabular"):
        trace = (trace > 0).astype(np.float32)
    by_step = env.advance == "step"
    rows = 4 * T + 1 if by_step else len(trace)
    contexts = compiled.load_contexts(trace, 0, rows, spec.context.lags)
    args = (jax.tree.map(jnp.float32, config), env, jnp.int32(3))
    chunk = compiled.make_chunk(agent, spec, 4, many=False)
    init = compiled.make_init(agent, spec, many=False)

    def go(state: Any, first: int, count: int) -> Any:
        return chunk(*args, state, contexts, jnp.int32(first), jnp.int32(count))[0]

    whole = go(init(*args, contexts), 0, 4)
    half = jax.tree.map(np.array, go(init(*args, contexts), 0, 2))
    assert_same(whole, go(jax.tree.map(jnp.array, half), 2, 2))

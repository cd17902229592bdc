"""What every agent promises, for all agents at once (DESIGN: contracts).

Small sizes: what is tested is the contract, not the learning.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo import config as configs
from lcpo.agents import AGENTS, a2c, presets
from lcpo.core import replay
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.run.drive import compiled
from lcpo.run.plan.check import check_agent
from lcpo.types import Agent, Spec, Transition

T = 16
"""Steps per rollout."""
SMALL = {
    "rollout_length": T,
    "hidden": (8, 8),
    "buffer_size": 40,  # a replay's ring closes at the third rollout
    "minibatches": 4,
    "batch_size": 128,
    "random_steps": 24,
    "epsilon_steps": 64,
}


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
        def update(state: Any, i: jax.Array) -> tuple[Any, Any]:
            batch = random_batch(spec, jax.random.fold_in(key, i))
            return agent.update(config, spec, state, batch, jax.random.fold_in(key, 9 + i))

        state, metrics = jax.lax.scan(update, agent.init(config, spec, key), jnp.arange(2))
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


def bootstrapping(learner: Any) -> tuple[str, ...]:
    """The parts of a learner that the value of a successor reaches in one update.

    (SAC's policy learns from its critics as they were before the update.)
    """
    if hasattr(learner, "critics"):
        return ("critics",)
    return ("q",) if hasattr(learner, "q") else ("policy", "value")


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
    for part in bootstrapping(one):
        leaves = (jax.flatten_util.ravel_pytree(getattr(s, part))[0] for s in (one, other))
        assert not np.array_equal(*leaves), f"the {part} does not bootstrap"


def _targets_on_policy(config: Any, state: Any, batch: Transition) -> Any:
    data = a2c.estimate(config, getattr(state, "learner", state), batch)[1]
    return data.target, data.advantage


def _targets_from_replay(target: Any, spec: Spec, config: Any, state: Any, batch: Any) -> Any:
    memory = replay.replay_add(state.memory, spec, batch)
    rows = (state.memory.added + jnp.arange(T)) % memory.num_rows
    return target(config, spec, state.learner, replay.replay_rows(memory, spec, rows, 0 * rows))


def estimator(agent: Agent, spec: Spec, state: Any) -> Any:
    """(config, state, batch) -> what each step of the batch is held to be worth, [T] or more."""
    if isinstance(getattr(state, "learner", state), a2c.State):
        return jax.jit(_targets_on_policy)
    if isinstance(getattr(state, "memory", None), replay.Replay):
        target = sys.modules[agent.update.__module__].target
        return partial(jax.jit(_targets_from_replay, static_argnums=(0, 1)), target, spec)
    return pytest.skip("learns step by step: no reward but its own reaches a step's target")


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_leaks_across_an_episode_end(agent: Agent, kind: str) -> None:
    """What happens after the end reaches neither targets nor advantages before it."""
    config, spec, state = started(agent, **unscaled(agent))
    estimate = estimator(agent, spec, state)
    batch = ending(random_batch(spec, jax.random.key(8), False), kind, 7)
    changed = batch._replace(
        obs=batch.obs.at[8:].set(other_obs(spec)), reward=batch.reward.at[8:].add(5.0)
    )

    def leaks(config: Any) -> bool:
        found = [jax.tree.leaves(estimate(config, state, data)) for data in (batch, changed)]
        return not all(np.array_equal(a[:8], b[:8]) for a, b in zip(*found, strict=True))

    assert not leaks(config)
    if a2c.TRUNCATION_LEAKS in faults_of(agent):
        faulty = dataclasses.replace(config, faults=(a2c.TRUNCATION_LEAKS,))
        assert leaks(faulty) == (kind == "truncated"), "it leaks at truncations, and only there"


def faults_of(agent: Agent) -> tuple[str, ...]:
    """Published faults that the agent can repeat."""
    fields = {f.name: f for f in dataclasses.fields(agent.Config)}
    return tuple(fields["faults"].metadata["choices"]) if "faults" in fields else ()


def test_config_survives_json(agent: Agent) -> None:
    config = small_config(agent)
    again = configs.make(agent.Config, json.loads(json.dumps(configs.to_json(config))))
    assert again == config


class Driven:
    """An agent in its environment, compiled; at most four updates at a time."""

    def __init__(self, agent: Agent) -> None:
        env = env_for(agent)
        spec, trace = env.spec, np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
        if agent.name.startswith("tabular"):
            trace = (trace > 0).astype(np.float32)
        rows = 4 * T + 1 if env.advance == "step" else len(trace)
        self.contexts = compiled.load_contexts(trace, 0, rows, spec.context.lags)
        self.args = (jax.tree.map(jnp.float32, small_config(agent)), env, jnp.int32(3))
        self.start = compiled.make_init(agent, spec, many=False)(*self.args, self.contexts)
        chunk = compiled.make_chunk(agent, spec, 4, many=False)
        self.program = chunk.lower(*self._arguments(self.start, 0, 4)).compile()

    def _arguments(self, state: Any, first: int, count: int) -> tuple:
        return *self.args, state, self.contexts, jnp.int32(first), jnp.int32(count)

    def go(self, state: Any, first: int, count: int) -> Any:
        """Updates first .. first + count - 1, from a state that is kept."""
        mine = jax.tree.map(jnp.array, state)
        return self.program(*self._arguments(mine, first, count))[0]


def test_stopped_and_resumed_equals_never_stopped(agent: Agent) -> None:
    """Through the driver: four updates at once, or two, a trip through the host, and two more."""
    driven = Driven(agent)
    half = jax.tree.map(np.array, driven.go(driven.start, 0, 2))
    assert_same(driven.go(driven.start, 0, 4), driven.go(half, 2, 2))
    # A large buffer that the program copies would cost more than all else (types.Agent.memory).
    for leaf in jax.tree.leaves(getattr(driven.start.agent, "memory", None)):
        shape = ",".join(map(str, leaf.shape))
        copied = re.findall(rf"\w+\[{shape}\]\S* copy\(", driven.program.as_text())
        assert leaf.size < 2 or not copied, f"memory of shape [{shape}] is not updated in place"

"""What every agent promises (DESIGN: contracts): tests that take a fixture `agent`.

`tests/contracts/test_contracts.py` runs them for all agents of ours. Whoever imports them beside a
fixture `agent` of his own runs them for that one. Small sizes: what is tested is the contract, not
the learning.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import (
    RULES,
    T,
    assert_close,
    assert_same,
    env_for,
    random_batch,
    small_config,
    started,
    starter,
    updater,
)

from lcpo import config as configs
from lcpo.agents import clear, mbcd, on_policy, sac
from lcpo.core import replay
from lcpo.run.drive import compiled
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.rollout import load_contexts
from lcpo.run.plan.check import check_agent
from lcpo.types import AnyAgent, Spec, Transition


def test_update_keeps_the_state_tree_and_compiles_once(agent: AnyAgent) -> None:
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


def test_same_key_same_result_and_act_only_reads(agent: AnyAgent) -> None:
    config, spec, state = started(agent)
    batch = random_batch(spec, jax.random.key(3))
    first = updater(agent)(config, spec, state, batch, jax.random.key(4))
    assert_same(first, updater(agent)(config, spec, state, batch, jax.random.key(4)))
    obs = batch.obs[0]
    slim = state._replace(memory=None) if "memory" in state._fields else state
    act = jax.jit(agent.act, static_argnums=1)
    actions = [act(config, spec, s, obs, jax.random.key(9))[0] for s in (state, slim)]
    assert_same(*actions)
    assert actions[0].shape == (1, spec.action_size)
    assert jnp.issubdtype(actions[0].dtype, jnp.integer)


SLOW = ("mbpo", "ideal-mbpo", "mbcd")


@pytest.mark.heavy
def test_vmap_over_seeds_and_traced_fields_equals_a_loop(agent: AnyAgent) -> None:
    """One program with each traced field changed in one of its members."""
    if agent.name in SLOW:
        pytest.skip("takes long to compile: tests/learn/test_faults.py vmaps it")
    _, spec, _ = started(agent)
    names = configs.traced_fields(agent.Config)
    base = small_config(agent)
    members = [base, base]
    for name in names:
        members.append(dataclasses.replace(base, **{name: 0.5 * getattr(base, name) + 0.01}))
    keys = jax.random.split(jax.random.key(1), len(members))

    def run(init: Any, update: Any, config: Any, key: jax.Array) -> Any:
        """Two updates; the memory is left out."""
        state, metrics = init(config, spec, key), None
        for i in range(2):
            batch = random_batch(spec, jax.random.fold_in(key, i))
            state, metrics = update(config, spec, state, batch, jax.random.fold_in(key, 9 + i))
        slim = state._replace(memory=None) if "memory" in state._fields else state
        return slim, metrics

    stacked = configs.stack(members)
    together = jax.vmap(partial(run, starter(agent), updater(agent)))(stacked, keys)
    last = len(members) - 1
    for i in {0, 1, min(2, last), last}:
        member = jax.tree.map(jnp.float32, members[i])
        alone = run(starter(agent), updater(agent), member, keys[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), alone, 2e-4)
    if agent.root.name in ("random", "constant", "hedge-hourly"):
        return  # nothing is learnt: it is the same for all seeds
    policies = jax.tree.leaves(together[0])[0]
    assert not np.array_equal(policies[0], policies[1]), "two seeds gave the same parameters"


def unscaled(config: Any) -> Any:
    """Rewards as they are, for agents that would scale them: a scale knows of later rewards."""
    known = hasattr(config, "scale_rewards")
    return dataclasses.replace(config, scale_rewards=False) if known else config


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
    for part in ("critics", "q", "transient"):
        if hasattr(learner, part):
            return (part,)
    return ("policy", "value")


def test_truncated_bootstraps_and_terminated_does_not(agent: AnyAgent) -> None:
    """The successor of the last step matters where the episode was cut, not where it ended."""
    if agent.name == "mbpo":
        pytest.skip("its model learns from every successor: tests/agents/test_mbpo.py")
    if agent.root.name in RULES:
        pytest.skip("learns no values")
    config, spec, warm = started(agent)
    if agent.name == "tabular-q":  # no two rows alike, visited or not
        warm = warm._replace(
            q=jax.tree.map(lambda x: x + jnp.arange(float(x.size)).reshape(x.shape), warm.q)
        )
    batch = random_batch(spec, jax.random.key(7), False)
    changed = batch._replace(next_obs=batch.next_obs.at[-1].set(other_obs(spec)))

    def after(data: Transition, kind: str, config: Any) -> Any:
        ended = ending(data, kind, T - 1)
        state, _ = updater(agent)(config, spec, warm, ended, jax.random.key(0))
        return getattr(state, "learner", state)

    def bootstraps(kind: str, config: Any = config) -> None:
        one, other = after(batch, kind, config), after(changed, kind, config)
        for part in bootstrapping(one):
            here, there = (ravel_pytree(getattr(s, part))[0] for s in (one, other))
            assert not np.array_equal(here, there), f"the {part} does not bootstrap"

    assert_same(after(batch, "terminated", config), after(changed, "terminated", config))
    bootstraps("truncated")
    if clear.TERMINATION_LEAKS in faults_of(agent):
        bootstraps("terminated", dataclasses.replace(config, faults=(clear.TERMINATION_LEAKS,)))


def _targets_on_policy(spec: Spec, config: Any, state: Any, batch: Any) -> Any:
    networks = on_policy.make_networks(config, spec)
    data = on_policy.estimate(config, networks, getattr(state, "learner", state), batch)[1]
    return data.target, data.advantage


def _targets_of_blocks(spec: Spec, config: Any, state: Any, batch: Any) -> Any:
    """The batch as the newest block and as the past one."""
    networks = on_policy.make_networks(config, spec)
    batch = batch._replace(extra=clear.behaviour(spec, networks, state.learner, batch.obs))
    data, _ = clear.estimate(config, spec, state.learner, batch, batch)
    return data.target.reshape(T, -1), data.advantage.reshape(T, -1)


def _targets_from_replay(target: Any, spec: Spec, config: Any, state: Any, batch: Any) -> Any:
    before = replay_of(state)
    memory = replay.replay_add(before, spec, batch)
    rows = (before.added + jnp.arange(T)) % memory.num_rows
    return target(config, spec, state.learner, replay.replay_rows(memory, spec, rows, 0 * rows))


def _targets_in_context(spec: Spec, config: Any, state: Any, batch: Any) -> Any:
    """Of the policy in use, on the batch as it would be drawn."""
    data = jax.tree.map(lambda x: x[:, 0], batch._replace(extra=()))
    learner = jax.tree.map(lambda x: x[state.current], state.learner)
    return sac.target(config, spec, learner, data)


def replay_of(state: Any) -> Any:
    """The replay, which may not be all of the memory; None where there is none."""
    memory = getattr(state, "memory", None)
    memory = getattr(memory, "replay", getattr(memory, "real", memory))
    return memory if isinstance(memory, replay.Replay) else None


def estimator(agent: AnyAgent, spec: Spec, state: Any) -> Any:
    """(config, state, batch) -> what each step of the batch is held to be worth, [T] or more."""
    module = sys.modules[agent.update.__module__]
    if module is clear:
        return partial(jax.jit(_targets_of_blocks, static_argnums=0), spec)
    if module is mbcd:
        return partial(jax.jit(_targets_in_context, static_argnums=0), spec)
    if isinstance(getattr(state, "learner", state), on_policy.State):
        return partial(jax.jit(_targets_on_policy, static_argnums=0), spec)
    if replay_of(state) is not None:
        target: Any = module.__dict__.get("target", sac.target)
        return partial(jax.jit(_targets_from_replay, static_argnums=(0, 1)), target, spec)
    return pytest.skip("learns step by step: no reward but its own reaches a step's target")


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_leaks_across_an_episode_end(agent: AnyAgent, kind: str) -> None:
    """What happens after the end reaches neither targets nor advantages before it."""
    config, spec, state = started(agent)
    config, estimate = unscaled(config), estimator(agent, spec, state)
    batch = ending(random_batch(spec, jax.random.key(8), False), kind, 7)
    changed = batch._replace(
        obs=batch.obs.at[8:].set(other_obs(spec)), reward=batch.reward.at[8:].add(5.0)
    )

    def leaks(config: Any) -> bool:
        found = [jax.tree.leaves(estimate(config, state, data)) for data in (batch, changed)]
        return not all(np.array_equal(a[:8], b[:8]) for a, b in zip(*found, strict=True))

    assert not leaks(config)
    at = {on_policy.TRUNCATION_LEAKS: "truncated", clear.TERMINATION_LEAKS: "terminated"}
    for fault in at.keys() & set(faults_of(agent)):
        faulty = dataclasses.replace(config, faults=(fault,))
        assert leaks(faulty) == (kind == at[fault]), f"{fault}: there, and only there"


def faults_of(agent: AnyAgent) -> tuple[str, ...]:
    """Published faults that the agent can repeat."""
    fields = {f.name: f for f in dataclasses.fields(agent.Config)}
    return tuple(fields["faults"].metadata["choices"]) if "faults" in fields else ()


def test_config_survives_json(agent: AnyAgent) -> None:
    config = small_config(agent)
    again = configs.make(agent.Config, json.loads(json.dumps(configs.to_json(config))))
    assert again == config


class Driven:
    """An agent in its environment, compiled; at most four updates at a time."""

    def __init__(self, agent: AnyAgent) -> None:
        env = env_for(agent)
        spec, trace = env.spec, np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
        if agent.name.startswith("tabular"):
            trace = (trace > 0).astype(np.float32)
        rows = 4 * T + 1 if env.advance == "step" else len(trace)
        self.contexts = load_contexts(trace, 0, rows, spec.context.lags)
        program = Program(agent, spec)
        self.run = Run(jax.tree.map(jnp.float32, small_config(agent)), env, jnp.int32(3))
        self.start = compiled.make_init(program)(self.run, self.contexts)
        chunk: Any = compiled.make_chunk(program, 4)
        self.program = chunk.lower(*self._arguments(self.start, 0, 4)).compile()

    def _arguments(self, state: Any, first: int, count: int) -> tuple:
        return self.run, state, self.contexts, jnp.int32(first), jnp.int32(count)

    def go(self, state: Any, first: int, count: int) -> Any:
        """Updates first .. first + count - 1, from a state that is kept."""
        mine = jax.tree.map(jnp.array, state)
        return self.program(*self._arguments(mine, first, count))[0]


@pytest.mark.heavy
def test_stopped_and_resumed_equals_never_stopped(agent: AnyAgent) -> None:
    """Through the driver: four updates at once, or two, a trip through the host, and two more."""
    driven = Driven(agent)
    half = jax.tree.map(np.array, driven.go(driven.start, 0, 2))
    assert_same(driven.go(driven.start, 0, 4), driven.go(half, 2, 2))
    # A large buffer that the program copies would cost more than all else (types.Agent.memory).
    for leaf in jax.tree.leaves(getattr(driven.start.agent, "memory", None)):
        shape = ",".join(map(str, leaf.shape))
        kind = {"f": "f", "i": "s", "u": "u"}[leaf.dtype.kind] + str(8 * leaf.dtype.itemsize)
        copied = re.findall(rf"{kind}\[{shape}\]\S* copy\(", driven.program.as_text())
        assert leaf.size < 8 or not copied, f"memory of shape [{shape}] is not updated in place"

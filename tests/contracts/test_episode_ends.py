"""Agents of ours at the end of an episode: what bootstraps, and that nothing leaks across."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import RULES, T, case_of, faults_of, random_batch, started

from lcpo.agents import AGENTS, clear, mbcd, on_policy, sac
from lcpo.core import replay
from lcpo.testing.agents import differ
from lcpo.types import AnyAgent, Spec, Transition


def marked(agent: AnyAgent) -> Any:
    """A variant runs the code of its parent with other values: it waits for `make test-slow`."""
    return pytest.param(agent, marks=[pytest.mark.learn] if agent.parent else [])


ROOTS = [marked(agent) for agent in AGENTS.values()]
LEARNERS = [
    marked(agent) for agent in AGENTS.values()
    if agent.root.name not in RULES and agent.name != "mbpo"  # tests/agents/test_mbpo.py
]  # fmt: skip


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


@pytest.mark.parametrize("agent", LEARNERS, ids=lambda agent: agent.name)
def test_every_part_that_learns_a_value_bootstraps(agent: AnyAgent) -> None:
    """Stricter than the contract: networks of ours have known names."""
    case = case_of(agent)
    for part in bootstrapping(learner_of(case.state)):
        after = (getattr(learner_of(state), part) for state in case.after_end("truncated"))
        assert differ(after), f"the {part} does not bootstrap"
    assert not differ(map(learner_of, case.after_end("terminated")))
    if clear.TERMINATION_LEAKS in faults_of(agent):
        faulty = case_of(agent, faults=(clear.TERMINATION_LEAKS,))
        assert differ(map(learner_of, faulty.after_end("terminated")))


def learner_of(state: Any) -> Any:
    return getattr(state, "learner", state)


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


@pytest.mark.parametrize("agent", ROOTS, ids=lambda agent: agent.name)
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

"""What all drivers share: the state of a run, its keys, learning from a rollout, the base class.

A driver collects a rollout with the current policy, and `learn` passes it to the agent: lines 2
and 3 of the paper's Algorithm 1. The keys of a run come from (seed, update index), so all drivers
draw the same numbers.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import health, returns
from lcpo.envs.base import HostEnv, ObsLayout, is_host, landmarks_of, obs_layout
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import ONLINE, Mode, Phase, phase_at
from lcpo.run.store.checkpoint import Saved, member_of, without_memory
from lcpo.run.store.record import TOTAL
from lcpo.types import AnyAgent, Array, Metrics, Spec, Transition, Tree

StateT = TypeVar("StateT")


class Program(NamedTuple):
    """What a compiled program is made for. Hashable: programs are cached by it."""

    agent: AnyAgent
    spec: Spec
    mode: Mode = ONLINE


class Run(NamedTuple):
    """What may differ between the runs of one program. A pytree."""

    config: Tree  # of the agent
    env: Tree  # an environment, whose traced fields are arrays
    seed: Array


class Worlds(NamedTuple):
    """N worlds between two steps."""

    env: Tree  # leaves [N, ...]
    features: Array  # [N, F], the environment's part of the observation
    history: Array  # [N, H], the context's part; apart, since they come from different kernels
    cursor: Array  # [N], the row of the trace that is now observed

    @property
    def obs(self) -> Array:
        return ObsLayout.join(self.features, self.history)


class RunState(NamedTuple):
    """All that a run carries from one update to the next."""

    agent: Tree
    worlds: Worlds
    episode_return: Array  # [N], of the unfinished episode
    episode_length: Array  # [N]


ChunkMetrics = Mapping[str, Array | np.ndarray]
"""Metrics of some updates, [updates], or [runs, updates] if a group has more than one run."""


class Driver(abc.ABC, Generic[StateT]):
    """One phase of a group of runs that differ in seeds, traced config values and traces only.

    A driver defines the form of its state, which holds all runs. A state can be used once: every
    method may donate the one it is given. `lcpo.run.drive.group` calls `start` or `resume`, then
    `chunk` repeatedly, `members` for each checkpoint, `agents` at the end, and always `close`.
    """

    exact_resume = True
    """Whether a resumed run equals one that was never stopped."""

    def __init__(self, setups: Sequence[Setup], phase: Phase, chunk: int) -> None:
        """`chunk`: most updates at a time. Subclasses also take the trace of each run."""
        first = setups[0]
        self.spec, self.phase, self.mode = first.spec, phase, phase.mode
        self.program = Program(first.agent.root, first.spec, phase.mode)
        self.max_updates, self.num_runs = chunk, len(setups)
        self.seeds = np.array([s.job.seed for s in setups], np.int32)
        length = {"rollout_length": phase.rollout_length}
        self.configs = [dataclasses.replace(s.config, **length) for s in setups]
        # Random starts are on the rows that the evaluation will see, even if the trace is longer.
        is_cut = first.env.advance == "step" and phase.mode.random_starts
        self.num_rows = first.job.steps // first.spec.num_worlds if is_cut else None

    @abc.abstractmethod
    def start(self, agents: Sequence[Tree] | None = None) -> StateT:
        """The state before the first update; `agents`: trained ones, one per run."""

    @abc.abstractmethod
    def resume(self, saved: Sequence[Saved], shapes: RunState) -> StateT:
        """The state of saved runs; `shapes`: the shapes and dtypes of one of them."""

    @abc.abstractmethod
    def chunk(self, state: StateT, first: int, count: int) -> tuple[StateT, ChunkMetrics]:
        """Updates first .. first + count - 1 of the phase.

        Only the first `count` metrics are valid. A slow driver that is asked to stop may return
        fewer, which make whole rows of the record. Raises StoppedRuns if worlds cannot continue.
        """

    @abc.abstractmethod
    def members(self, state: StateT) -> list[tuple[RunState, int | None]]:
        """For each run the state to save, and its index in it; None if it is not stacked."""

    def agents(self, state: StateT) -> list[Tree]:
        """The agents' states on the host, one per run, without what only learning needs."""
        return [member_of(without_memory(run.agent), i) for run, i in self.members(state)]

    def close(self, state: StateT) -> None:
        """Free what the state holds."""
        del state


class StoppedRuns(RuntimeError):
    """Runs that cannot continue: `causes` by their index; `details`: the traceback, if any."""

    def __init__(self, causes: dict[int, str], details: str = "") -> None:
        self.causes, self.details = causes, details
        super().__init__("; ".join(f"run {i}: {cause}" for i, cause in causes.items()))


def agent_shapes(setup: Setup) -> Tree:
    """Shapes and dtypes of an agent's state, without computing it."""
    init = functools.partial(setup.agent.init, setup.config, setup.spec)
    return jax.eval_shape(init, jax.random.key(0))


def state_shapes(setup: Setup, update: int = 0) -> RunState:
    """Shapes and dtypes of a run's state after `update` updates, without computing it."""
    env, count, agent = setup.env, setup.spec.num_worlds, agent_shapes(setup)
    if not phase_at(setup.phases, update).mode.learns:
        agent = without_memory(agent)
    layout = obs_layout(setup.spec, env.advance)
    features: Any = np.empty((count, layout.num_features), np.float32)
    if is_host(env):
        env_state = _saved_shapes(env)
    else:
        keys = jax.random.split(jax.random.key(0), count)
        env_state, features = jax.eval_shape(jax.vmap(env.reset), keys)
    history: Any = np.empty((count, layout.context_size), np.float32)
    cursor: Any = np.empty(count, np.int32)
    zeros: Any = np.empty(count, np.float32)
    return RunState(agent, Worlds(env_state, features, history, cursor), zeros, zeros)


@functools.cache
def _saved_shapes(env: HostEnv) -> dict[str, np.ndarray] | None:
    """What the worlds of one run save, or None if they cannot."""
    count = env.spec.num_worlds
    with contextlib.closing(env.open(count, list(range(count)), 1)) as worlds:
        worlds.reset(np.ones(count, bool))
        return worlds.get_state()


class RolloutKeys(NamedTuple):
    """The keys of a rollout."""

    act: Array
    step: Array
    reset: Array
    start: Array


_NO_UPDATE, _START = 2**32 - 1, 2**32 - 2
"""Folded into a key, they give keys that no update has."""


def init_keys(seed: Array) -> tuple[Array, Array]:
    """Keys for the agent and for the worlds at the start of a run."""
    # Not a split of the seed's own key: its parts are `fold_in(key, 0)` and `fold_in(key, 1)`.
    agent_key, worlds_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), _START))
    return agent_key, worlds_key


def restart_key(seed: Array) -> Array:
    """The key for the worlds at the start of a later phase."""
    return jax.random.fold_in(jax.random.key(seed), _NO_UPDATE)


def update_keys(seed: Array, update: Array, mode: Mode) -> tuple[Array, Array]:
    """Keys for the rollout and for the learning of update number `update` of a phase."""
    key = jax.random.fold_in(jax.random.key(seed), mode.first_update + update)
    rollout_key, learn_key = jax.random.split(key)
    return rollout_key, learn_key


def rollout_keys(key: Array) -> RolloutKeys:
    """The keys of a rollout from its one key."""
    return RolloutKeys(*jax.random.split(key, 4))


def first_rows(worlds_key: Array, num_rows: int, num_worlds: int, mode: Mode) -> Array:
    """The rows of the trace at which the worlds of a phase start."""
    if not mode.random_starts:
        return jnp.zeros(num_worlds, jnp.int32)
    key = jax.random.fold_in(worlds_key, _NO_UPDATE)
    return jax.random.randint(key, (num_worlds,), 0, num_rows, jnp.int32)


def learn(
    program: Program, run: Run, state: RunState, batch: Transition, key: Array
) -> tuple[RunState, Metrics]:
    """Count the episodes that ended in the batch and, if the mode says so, learn from it.

    The config of `run` is that of this update. `state.worlds` is not read. The metrics include the
    signs of `core.health`, except for that of the agent's state.
    """
    ended = (batch.terminated | batch.truncated).astype(jnp.float32)
    ones = jnp.ones_like(batch.reward)
    totals, carried = returns.running_returns(batch.reward, ones, ended, state.episode_return)
    lengths, length = returns.running_returns(ones, ones, ended, state.episode_length)
    state = state._replace(episode_return=carried, episode_length=length)
    agent, spec, mode = program
    metrics = {
        "episodes": jnp.sum(ended),
        "episode_return_sum": jnp.sum(ended * totals),
        "episode_length_sum": jnp.sum(ended * lengths),
        **_landmarks(program, run, state.agent),
        "reward": jnp.mean(batch.reward),
        "largest_obs": jnp.max(jnp.abs(batch.obs)),
    }
    for i, name in enumerate(spec.readings):
        metrics[f"{TOTAL}{name}"] = jnp.sum(batch.readings[..., i])
    if not mode.learns:
        return state, metrics
    agent_state, learnt = agent.update(run.config, spec, state.agent, batch, key)
    signs = health.signs(batch, learnt, reads_obs=not agent.raw)
    return state._replace(agent=agent_state), {**learnt, **metrics, **signs}


def _landmarks(program: Program, run: Run, agent_state: Tree) -> Metrics:
    """Total-variation distance of the policy to the best action at the environment's landmarks."""
    marks = landmarks_of(run.env)
    probabilities = program.agent.probabilities
    if probabilities is None or not marks:
        return {}
    obs = jnp.array([mark.obs for mark in marks.values()], jnp.float32)
    best = jnp.array([mark.action for mark in marks.values()])
    probs = probabilities(run.config, program.spec, agent_state, obs)
    right = jnp.take_along_axis(probs, best[..., None], axis=-1)[..., 0].prod(-1)
    return {f"tv_{name}": 1.0 - right[i] for i, name in enumerate(marks)}

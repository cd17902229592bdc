"""What every driver shares: its protocol, the state of a run, its keys, what follows a rollout.

Lines 2 and 3 of the paper's Algorithm 1 stand here: a driver collects a rollout with the policy of
now, then `learn` hands it to the agent. The keys of a run come from (seed, update index), so that
all drivers draw the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import health, returns
from lcpo.envs.base import Advance, AnyEnv, ObsLayout, landmarks_of
from lcpo.run.plan.phases import ONLINE, Mode
from lcpo.run.store.checkpoint import Saved
from lcpo.run.store.record import TOTAL
from lcpo.types import AnyAgent, Array, Metrics, Spec, Transition, Tree

StateT = TypeVar("StateT")


class Program(NamedTuple):
    """What a compiled program is made for. Hashable: programs are kept by it."""

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
        """[N, D]."""
        return ObsLayout.join(self.features, self.history)


class RunState(NamedTuple):
    """All that a run carries from one update to the next."""

    agent: Tree
    worlds: Worlds
    episode_return: Array  # [N], of the unfinished episode
    episode_length: Array  # [N]


ChunkMetrics = Mapping[str, Array | np.ndarray]
"""Metrics of some updates, [updates], or [runs, updates] where a group has more than one run."""


class Driver(Protocol[StateT]):
    """One phase of a group of runs that differ in seeds and traced config values only.

    A driver is made as `Driver(setups, phase, chunk, trace)`: the runs, what they do, the most
    updates at a time, and the rows of the context. It owns the form of its state, which holds all
    runs and is used once: every method that takes a state may donate it. `lcpo.run.drive.group`
    calls `start` or `resume`, then `chunk` again and again, `members` for a checkpoint, at the end
    `agents`, and `close` whatever happens.
    """

    exact_resume: bool
    """Whether a run that is saved and resumed equals one that was never stopped."""

    def start(self, before: StateT | None = None) -> StateT:
        """The state before the first update; `before`: at the end of the phase before."""
        ...

    def start_with(self, agents: Sequence[Tree]) -> StateT:
        """The state before the first update, with agents that have learnt elsewhere, one a run."""
        ...

    def resume(self, saved: Sequence[Saved], shapes: RunState) -> StateT:
        """The state of saved runs; `shapes`: the shapes and dtypes of one of them."""
        ...

    def chunk(self, state: StateT, first: int, count: int) -> tuple[StateT, ChunkMetrics]:
        """Updates first .. first + count - 1 of the phase.

        Metrics are [updates], of which the first `count` count; fewer where a slow driver was
        asked to stop, after whole rows of the record. Raises StoppedRuns where worlds cannot go on.
        """
        ...

    def members(self, state: StateT) -> list[tuple[RunState, int | None]]:
        """For each run the state to be saved, and its place there; None where it stands alone."""
        ...

    def agents(self, state: StateT) -> list[Tree]:
        """The agents' states of the runs, on the host, as far as acting needs them."""
        ...

    def close(self, state: StateT) -> None:
        """Free what the state holds."""
        ...


class StoppedRuns(RuntimeError):
    """Runs that cannot go on: `causes` by their index; `details`: the traceback, if any."""

    def __init__(self, causes: dict[int, str], details: str = "") -> None:
        self.causes, self.details = causes, details
        super().__init__("; ".join(f"run {i}: {cause}" for i, cause in causes.items()))


class RolloutKeys(NamedTuple):
    """Keys of all that is random in a rollout."""

    act: Array
    step: Array
    reset: Array
    start: Array


_NO_UPDATE, _START = 2**32 - 1, 2**32 - 2
"""Folded into a key, they give ones that no update has."""


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
    """Keys of the parts of a rollout."""
    return RolloutKeys(*jax.random.split(key, 4))


def first_rows(worlds_key: Array, num_rows: int, num_worlds: int, mode: Mode) -> Array:
    """Where on the trace the worlds of a phase begin."""
    if not mode.random_starts:
        return jnp.zeros(num_worlds, jnp.int32)
    return random_rows(jax.random.fold_in(worlds_key, _NO_UPDATE), num_rows, (num_worlds,))


def rows_of(trace: np.ndarray, advance: Advance, mode: Mode, steps: int) -> np.ndarray:
    """The rows of the trace that a phase may see; `steps` of a world along it.

    Random starts are on the rows that the evaluation will see, be the trace longer or not.
    """
    return trace[:steps] if advance == "step" and mode.random_starts else trace


def random_rows(key: Array, num_rows: int, shape: tuple[int, ...]) -> Array:
    """Rows of a trace to start at, each as likely as the others."""
    return jax.random.randint(key, shape, 0, num_rows, jnp.int32)


def learn(
    program: Program, run: Run, state: RunState, batch: Transition, key: Array
) -> tuple[RunState, Metrics]:
    """Count the episodes that ended in the batch and, where the mode says so, learn from it.

    The config of `run` is that of this update. Nothing of `state.worlds` is read. The metrics hold
    the signs of `core.health` as well, except for that of the agent's state.
    """
    state, episodes = _count_episodes(state, batch)
    metrics = {
        **episodes,
        **_landmarks(program, run.config, run.env, state.agent),
        "reward": jnp.mean(batch.reward),
        "largest_obs": jnp.max(jnp.abs(batch.obs)),
        **_totals(program.spec, batch),
    }
    if not program.mode.learns:
        return state, metrics
    agent, spec, _ = program
    agent_state, learnt = agent.update(run.config, spec, state.agent, batch, key)
    signs = health.signs(batch, learnt, reads_obs=not agent.raw)
    return state._replace(agent=agent_state), {**learnt, **metrics, **signs}


def _count_episodes(state: RunState, batch: Transition) -> tuple[RunState, Metrics]:
    ended = (batch.terminated | batch.truncated).astype(jnp.float32)
    ones = jnp.ones_like(batch.reward)
    totals, carried = returns.running_returns(batch.reward, ones, ended, state.episode_return)
    lengths, length = returns.running_returns(ones, ones, ended, state.episode_length)
    episodes = {
        "episodes": jnp.sum(ended),
        "episode_return_sum": jnp.sum(ended * totals),
        "episode_length_sum": jnp.sum(ended * lengths),
    }
    return state._replace(episode_return=carried, episode_length=length), episodes


def _totals(spec: Spec, batch: Transition) -> Metrics:
    """Sums of what the environment tells beside the observation."""
    names = spec.readings
    return {f"{TOTAL}{name}": jnp.sum(batch.readings[..., i]) for i, name in enumerate(names)}


def _landmarks(program: Program, config: Tree, env: AnyEnv | None, agent_state: Tree) -> Metrics:
    """Total-variation distance of the policy to the best action at the environment's landmarks."""
    marks = landmarks_of(env) if env is not None else {}
    probabilities = program.agent.probabilities
    if probabilities is None or not marks:
        return {}
    obs = jnp.array([mark.obs for mark in marks.values()], jnp.float32)
    best = jnp.array([mark.action for mark in marks.values()])
    probs = probabilities(config, program.spec, agent_state, obs)
    right = jnp.take_along_axis(probs, best[..., None], axis=-1)[..., 0].prod(-1)
    return {f"tv_{name}": 1.0 - right[i] for i, name in enumerate(marks)}

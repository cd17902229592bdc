"""What every driver shares: the state of a run, its keys, and what is done with a rollout.

The keys of a run come from (seed, update index), so that the compiled driver and the host driver
draw the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import returns
from lcpo.run.plan.phases import Mode
from lcpo.types import Agent, Array, Metrics, Spec, Transition


class Worlds(NamedTuple):
    """N worlds between two steps."""

    env: Any  # leaves [N, ...]
    features: Array  # [N, F], the environment's part of the observation
    history: Array  # [N, H], the context's part; apart, since they come from different kernels
    cursor: Array  # [N], the row of the trace that is now observed

    @property
    def obs(self) -> Array:
        """[N, D]."""
        return jnp.concatenate([self.features, self.history], axis=-1)


class RunState(NamedTuple):
    """All that a run carries from one update to the next."""

    agent: Any
    worlds: Worlds
    episode_return: Array  # [N], of the unfinished episode
    episode_length: Array  # [N]


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


def rows_of(trace: np.ndarray, advance: str, mode: Mode, steps: int) -> np.ndarray:
    """The rows of the trace that a phase may see; `steps` of a world along it.

    Random starts are on the rows that the evaluation will see, be the trace longer or not.
    """
    return trace[:steps] if advance == "step" and mode.random_starts else trace


def random_rows(key: Array, num_rows: int, shape: tuple[int, ...]) -> Array:
    """Rows of a trace to start at, each as likely as the others."""
    return jax.random.randint(key, shape, 0, num_rows, jnp.int32)


def learn(
    agent: Agent, config: Any, env: Any, spec: Spec, state: RunState, batch: Transition,
    key: Array, learns: bool,
) -> tuple[RunState, Metrics]:  # fmt: skip
    """Count the episodes that ended in the batch and, where the mode says so, learn from it."""
    state, episodes = _count_episodes(state, batch)
    metrics = {
        **episodes,
        **_landmarks(agent, config, env, spec, state.agent),
        "reward": jnp.mean(batch.reward),
        "largest_obs": jnp.max(jnp.abs(batch.obs)),
    }
    if not learns:
        return state, metrics
    agent_state, learnt = agent.update(config, spec, state.agent, batch, key)
    return state._replace(agent=agent_state), {**learnt, **metrics}


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


def _landmarks(agent: Agent, config: Any, env: Any, spec: Spec, agent_state: Any) -> Metrics:
    """Total-variation distance of the policy to the best action at the environment's landmarks."""
    landmarks = getattr(env, "landmarks", {})
    if agent.probabilities is None or not landmarks:
        return {}
    obs = jnp.array([mark.obs for mark in landmarks.values()], jnp.float32)
    best = jnp.array([mark.action for mark in landmarks.values()])
    probs = agent.probabilities(config, spec, agent_state, obs)
    right = jnp.take_along_axis(probs, best[..., None], axis=-1)[..., 0].prod(-1)
    return {f"tv_{name}": 1.0 - right[i] for i, name in enumerate(landmarks)}

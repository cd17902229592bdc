"""Interactions to be kept in a replay, for specs of every layout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import replay
from lcpo.types import ContextSlice, Spec, Transition

T = 4
"""Steps per rollout."""
CONTEXT = ContextSlice(start=2, channels=2, lags=3)
COMPACT = Spec(9, CONTEXT, (15,), contiguous_contexts=True, unit_steps=True)
SPECS = {
    "compact": COMPACT,
    "two worlds": COMPACT._replace(num_worlds=2),
    "elapsed and weight": COMPACT._replace(unit_steps=False),
    "many actions": COMPACT._replace(num_actions=(300, 2, 3), num_worlds=2),
    "whole": COMPACT._replace(contiguous_contexts=False, num_worlds=2),
    "context first": COMPACT._replace(context=CONTEXT._replace(start=0)),
    "one lag": Spec(5, ContextSlice(2, 3, 1), (4,), contiguous_contexts=True),
    "no context": Spec(3, ContextSlice(3, 0, 0), (4,), contiguous_contexts=True, num_worlds=2),
}


def stream(spec: Spec, num_steps: int, seed: int = 0) -> Transition:
    """Random interactions along a trace, leaves [num_steps, N, ...], as a driver would make them.

    Episodes end where they like; the trace moves on. Before step 0 the history repeats row 0.
    """
    rng = np.random.default_rng(seed)
    shape = (num_steps, spec.num_worlds)
    start, channels, lags = spec.context
    trace = rng.normal(size=(num_steps + 1, spec.num_worlds, channels))

    def observed(cursor: int) -> np.ndarray:
        kept = rng.normal(size=(spec.num_worlds, spec.obs_size - spec.context.size))
        rows = [trace[max(cursor - lag, 0)] for lag in range(lags)]
        history = np.stack(rows, -1) if rows else np.zeros((spec.num_worlds, 0))
        history = history.reshape(spec.num_worlds, -1)
        return np.concatenate([kept[:, :start], history, kept[:, start:]], axis=1)

    ended = np.asarray(rng.random((2, *shape)) < 0.2)
    next_obs = np.stack([observed(t + 1) for t in range(num_steps)])
    after = np.stack([observed(t) for t in range(num_steps)])  # observations after a reset
    following = np.concatenate([after[:1], next_obs[:-1]])
    either = ended[0] | ended[1]
    fresh = np.concatenate([np.zeros_like(either[:1]), either[:-1]])
    obs = np.where(fresh[..., None], after, following)
    elapsed, weight = rng.random((2, *shape)) if not spec.unit_steps else np.ones((2, *shape))
    values = (obs, rng.normal(size=shape), next_obs, elapsed, weight)
    obs, reward, next_obs, elapsed, weight = (jnp.asarray(x, jnp.float32) for x in values)
    action = jnp.asarray(rng.integers(0, spec.num_actions, (*shape, spec.action_size)), jnp.int32)
    terminated, truncated = (jnp.asarray(x) for x in ended)
    return Transition(obs, action, reward, next_obs, terminated, truncated, elapsed, weight, ())


add = jax.jit(replay.replay_add, static_argnums=1)


def rollout(data: Transition, number: int) -> Transition:
    return jax.tree.map(lambda x: x[number * T : (number + 1) * T], data)

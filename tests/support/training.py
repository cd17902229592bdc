"""Training on probes through the driver: many seeds and settings in one vmapped program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo import contexts
from lcpo.agents import AGENTS, presets
from lcpo.contexts import catalogue
from lcpo.envs.base import CompiledEnv
from lcpo.run.drive.base import Program, Run, RunState
from lcpo.run.drive.compiled import make_chunk, make_init
from lcpo.run.drive.rollout import load_contexts

SEEDS = 8
SMALL: dict[str, Any] = {
    "rollout_length": 40,
    "hidden": (32, 32),
    "learning_rate": 3e-3,
    "value_learning_rate": 3e-3,
}

Measured = dict[str, np.ndarray]  # metric -> [settings, seeds, updates]


def train(
    agent: str,
    env: CompiledEnv[Any],
    updates: int,
    settings: Sequence[Mapping[str, Any]] = ({},),
    trace: np.ndarray | None = None,
    num_seeds: int = SEEDS,
    **shared: Any,
) -> tuple[RunState, Measured]:
    """Every setting with every seed: final states [settings * seeds, ...] and metrics.

    The settings differ in traced fields only; `shared` fields are the same in all.
    """
    chosen = AGENTS[agent]
    shared = {**{k: v for k, v in SMALL.items() if hasattr(chosen.Config, k)}, **shared}
    steps = updates * shared["rollout_length"]
    each = [configs.resolve(chosen.config(**{**shared, **s}), steps) for s in settings]
    runs = configs.stack([c for c in each for _ in range(num_seeds)])
    seeds = jnp.tile(jnp.arange(num_seeds), len(each))
    envs = configs.stack([env] * len(seeds))
    rows = np.zeros((steps + 1, 1)) if trace is None else trace
    loaded = load_contexts(rows, 0, steps + 1, env.spec.context.lags)
    # Agents that differ only in their preset share a program.
    program, run = Program(chosen.root, env.spec), Run(runs, envs, seeds)
    state = make_init(program, many=True)(run, loaded)
    chunk = make_chunk(program, updates, many=True)
    state, found = chunk(run, state, loaded, jnp.int32(0), jnp.int32(updates))
    metrics = {k: np.asarray(v).reshape(len(each), num_seeds, updates) for k, v in found.items()}
    assert all(np.isfinite(v).all() for v in metrics.values())
    return state, metrics


def late_return(metrics: Measured) -> np.ndarray:
    """Mean return of the episodes in the last 20 updates, [settings]."""
    total, count = (metrics[k][..., -20:].sum((1, 2)) for k in ("episode_return_sum", "episodes"))
    return total / count


GAMMA = 0.9
IN_ROOMS = [[0.0, 0.0], [1.0, 0.0]]


def near(found: np.ndarray, expected: Sequence[float]) -> None:
    """Within 0.3 on the mean over runs; the values that must be told apart differ by 2 or more."""
    np.testing.assert_allclose(found.mean(0), expected, atol=0.3)


TWO_CONTEXTS = contexts.get("two-contexts")
FIRST, SECOND, AGAIN = (n // SMALL["rollout_length"] for n in catalogue.PROBE)
"""Updates in context A, in B, and back in A."""


def probe_settings(agent: str) -> dict[str, Any]:
    """Those of `lcpo compare --env probe-two-contexts`."""
    return presets.settings(AGENTS[agent], "probe-two-contexts")


def on_return(metrics: Measured) -> np.ndarray:
    """Probability of a right answer back in A, before anything is learned, [settings, seeds]."""
    wrong = (metrics["tv_minus"] + metrics["tv_plus"]) / 2.0
    return 1.0 - wrong[..., FIRST + SECOND]

"""What an environment of ours is in Gymnasium, be it of one world or of many: spaces and trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from lcpo import contexts, defaults
from lcpo.contexts import TraceRef, paper
from lcpo.envs.base import AnyEnv, max_input_of
from lcpo.errors import InputError

ROWS = 1_000_000
"""Length of a trace that can have any."""


def make_spaces(env: AnyEnv, continuous: bool) -> tuple[spaces.Space, spaces.Space]:
    """Of observations and actions of one world.

    `continuous`: motor inputs as real numbers, instead of indices into a grid of them.
    """
    spec, largest = env.spec, np.finfo(np.float32).max
    obs: spaces.Space = spaces.Box(-largest, largest, (spec.obs_size,), np.float32)
    if spec.obs_levels is not None:
        obs = spaces.MultiDiscrete(list(spec.obs_levels))
    if continuous:
        high = max_input_of(env)
        if high is None:
            raise InputError(f"{type(env).__name__} has no continuous actions")
        return obs, spaces.Box(-high, high, (spec.action_size,), np.float32)
    if spec.action_size == 1:
        return obs, spaces.Discrete(spec.num_actions[0])
    return obs, spaces.MultiDiscrete(list(spec.num_actions))


def load_rows(env: str, trace: Any, scale: float | None, channels: int) -> np.ndarray:
    """The trace [rows, channels], scaled as in our own runs; nobody may write into it."""
    trace = (defaults.of(env).trace or "revisit") if trace is None else trace
    if isinstance(trace, (str, TraceRef)):
        named = TraceRef.parse(trace)
        factor = paper.default_scale(env, named) if scale is None else scale
        rows = named.load(ROWS if named.any_length else None, factor)
    else:
        rows = contexts.check(np.asarray(trace), "given")
        rows = rows if scale is None else rows * np.float32(scale)
    if rows.shape[1] != channels:
        raise InputError(f"the trace has {rows.shape[1]} columns, {env!r} needs {channels}")
    return rows

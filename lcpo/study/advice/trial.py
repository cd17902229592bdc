"""Plays an environment with random actions, and stops where an answer is unsound."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.envs.base import AnyEnv, WorldError, obs_layout
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.types import Step


class Play(NamedTuple):
    """What happened in N worlds."""

    starts: np.ndarray  # [N, F], features after the first reset
    steps: Any  # a Step, leaves [T, N, ...]
    resets_touch_others: bool
    seconds: float = 0.0  # of processor time, without opening the worlds


class Broken(Exception):
    """The environment cannot be examined further; the text says why."""


def play(
    env: AnyEnv, seeds: Sequence[int], num_steps: int, contexts: np.ndarray | float | None = None
) -> Play:
    """Play with random actions, the same each time.

    `contexts`: [num_steps, channels], or one number for all; None: noise.
    """
    spec, layout = env.spec, obs_layout(env.spec, env.advance)
    count, size = len(seeds) * spec.num_worlds, layout.num_features
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(num_steps, layout.channels)).astype(np.float32)
    rows = noise if contexts is None else np.broadcast_to(np.float32(contexts), noise.shape)
    shape = (num_steps, spec.action_size)
    actions = rng.integers(np.array(spec.num_actions), size=shape).astype(np.int32)
    each = [seed * spec.num_worlds + w for seed in seeds for w in range(spec.num_worlds)]
    worlds = open_worlds(env, each, threads=1)
    try:
        starts = _call("reset", size, worlds.reset, np.ones(count, bool))
        began = time.process_time()
        steps, touched = [], False
        for t, inputs in enumerate(zip(actions, rows, strict=True), 1):
            of_all_worlds = (np.tile(x, (count, 1)) for x in inputs)
            step = _call(f"step {t}", size, worlds.step, *of_all_worlds)
            steps.append(step)
            ended = step.terminated | step.truncated
            if ended.any():
                fresh = _call(f"reset after step {t}", size, worlds.reset, ended)
                touched |= bool((fresh[~ended] != step.obs[~ended]).any())
        seconds = time.process_time() - began
    finally:
        worlds.close()
    fields: Any = zip(*(step[:6] for step in steps), strict=True)
    stacked: Any = [np.stack(x) for x in fields]
    return Play(starts, Step(*stacked), touched, seconds)


def _call(when: str, size: int, function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    """Call a function of the worlds, and return its answer if that is sound."""
    try:
        answer = function(*arguments)
    except WorldError as error:
        raise Broken(f"{when}: {error}") from error
    except Exception as error:
        raise Broken(f"{when} raised {type(error).__name__}: {error}") from error
    count = len(arguments[0])
    if when.startswith("reset"):
        _check_array(f"{when}: the features", answer, (count, size))
        return np.asarray(answer)
    if not isinstance(answer, Step):
        raise Broken(f"{when} returns a {type(answer).__name__}: needs lcpo.types.Step")
    _check_array(f"{when}: obs", answer.obs, (count, size))
    _check_array(f"{when}: reward", answer.reward, (count,))
    for field in ("terminated", "truncated"):
        _check_array(f"{when}: {field}", getattr(answer, field), (count,), bool)
    scalars = (np.broadcast_to(x, count) for x in (answer.elapsed, answer.weight))
    values: Any = [*map(np.asarray, answer[:4]), *scalars]
    return Step(*values)


def _check_array(what: str, value: Any, shape: tuple[int, ...], dtype: type | None = None) -> None:
    value = np.asarray(value)
    if value.shape != shape:
        raise Broken(f"{what} has shape {list(value.shape)}: needs {list(shape)}, a row per world")
    if dtype is not None and value.dtype != dtype:
        raise Broken(f"{what} is {value.dtype}: needs {dtype.__name__}")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        place = bad[0].tolist()
        entry = f"entry {place[1:]}" if place[1:] else "that"
        where = f"{entry} of world {place[0]}"
        raise Broken(f"{what}: {where} is {value[tuple(place)]}: needs finite numbers")

"""Normalised observations for any agent: an agent that wraps another.

    running   z = clip((x - mean) / std, -10, 10)     of all observations so far, entry by entry
    scales    z = x / scale                           fixed, one number for each column

The wrapped agent sees z instead of x. The statistics are part of its state: they are saved with the
policy and resume exactly. `update` scales the batch by the statistics that its actions were chosen
with, then adds it to them. Stored observations (replay, reservoir) keep the scale they were stored
with; the statistics weigh the whole run equally, so the difference vanishes.

Entries with the same meaning share a *column*: the lags of a channel, the elements of a deep set.
The entry that a guard reads is not scaled, nor is a context that the driver writes: `--scale` does
that, so that sigma and `lcpo calibrate` use the same distances. A context that the environment
writes itself is scaled; sigma then counts its standard deviations.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values as plain_values
from lcpo.core import health, stats
from lcpo.errors import InputError
from lcpo.plain import CLIP, LEAST, PLAIN, columns
from lcpo.types import AnyAgent, Array, Metrics, Spec, Transition

NONE, RUNNING = "none", "running"
Rule = str | tuple[float, ...] | None
"""RUNNING, fixed scales, or None: observations as they are."""


class State(NamedTuple):
    """The wrapped agent's state, its large buffers where drivers expect them, the statistics."""

    inner: Any
    memory: Any
    moments: stats.RunningMoments  # of each entry, [D]


def read_rule(value: Any) -> Rule:
    """The rule that a user or a file gives; InputError if it is invalid."""
    if value is None or (isinstance(value, str) and value in (NONE, RUNNING)):
        return RUNNING if value == RUNNING else None
    parts = value.split(",") if isinstance(value, str) else value
    scales: tuple[float, ...] = ()
    if isinstance(parts, Iterable) and not isinstance(parts, (bytes, Mapping)):
        with contextlib.suppress(TypeError, ValueError):
            scales = tuple(float(plain_values.plain(part)) for part in parts)
    if not scales or not all(x > 0.0 and plain_values.fits_float32(x) for x in scales):
        need = f"{NONE}, {RUNNING}, or positive numbers, one for each column, such as 2000,1,50"
        plain_values.refuse("normalise", value, need)
    return scales


def to_json(rule: Rule) -> str | list[float] | None:
    """Plain values; `read_rule(to_json(rule)) == rule`."""
    return list(rule) if isinstance(rule, tuple) else rule


def check_rule(rule: Rule, spec: Spec, own: bool) -> None:
    """Raise InputError unless there is a scale for each column."""
    count = columns(spec, own).max(initial=PLAIN) + 1
    if isinstance(rule, tuple) and len(rule) != count:
        context = ", and of its channels of context" if own and spec.context.size else ""
        raise InputError(
            f"normalise has {len(rule)} numbers: needs {count}, one for each entry of the state"
            f"{context}"
        )


def normalise(agent: AnyAgent, rule: Rule, own: bool) -> AnyAgent:
    """The agent with this rule: the same object for the same arguments."""
    return agent if rule is None or agent.raw else _wrapped(agent, rule, own)


@functools.cache
def _wrapped(agent: AnyAgent, rule: Rule, own: bool) -> AnyAgent:
    functions = _functions(agent.init, agent.act, agent.update, agent.probabilities, rule, own)
    parent = agent.parent and _wrapped(agent.parent, rule, own)
    return dataclasses.replace(agent, parent=parent, **functions)


@functools.cache
def _functions(
    init: Any, act: Any, update: Any, probabilities: Any, rule: Rule, own: bool
) -> dict[str, Callable[..., Any]]:
    """The wrapped functions. Variants that share functions share these, and a program."""

    def wrapped_init(config: Any, spec: Spec, key: Array) -> State:
        inner, memory = _take_memory(init(config, spec, key))
        moments = stats.moments_init((spec.obs_size,))
        # Without weight: an initial variance of 1 would long hide that of tiny entries.
        return State(inner, memory, moments._replace(weight=jnp.float32(0.0)))

    def wrapped_act(config: Any, spec: Spec, state: State, obs: Array, key: Array) -> Any:
        return act(config, spec, state.inner, scale(rule, own, spec, state.moments, obs), key)

    def wrapped_update(
        config: Any, spec: Spec, state: State, batch: Transition, key: Array
    ) -> tuple[State, Metrics]:
        scaled = batch._replace(
            obs=scale(rule, own, spec, state.moments, batch.obs),
            next_obs=scale(rule, own, spec, state.moments, batch.next_obs),
        )
        before = _put_memory(state.inner, state.memory)
        after, metrics = update(config, spec, before, scaled, key)
        metrics[health.OBSERVATION] = health.too_large(scaled.obs, scaled.next_obs)
        if rule != RUNNING:
            return State(*_take_memory(after), state.moments), metrics
        metrics[health.OBSERVATION] += outlier(state.moments, batch.obs)
        moments = stats.moments_add(state.moments, batch.obs)
        return State(*_take_memory(after), moments), metrics

    def wrapped_probabilities(config: Any, spec: Spec, state: State, obs: Array) -> Array:
        obs = scale(rule, own, spec, state.moments, obs)
        return probabilities(config, spec, state.inner, obs)

    return {
        "init": wrapped_init,
        "act": wrapped_act,
        "update": wrapped_update,
        "probabilities": probabilities and wrapped_probabilities,
    }


def outlier(moments: stats.RunningMoments, obs: Array) -> Array:
    """The largest outlier of obs [T, N, D], from which the statistics would never recover, or 0."""
    usual = jnp.where(moments.weight > 0.0, jnp.abs(moments.mean) + jnp.sqrt(moments.var), 0.0)
    return jnp.max(health.outlier(obs, usual, columns=1))


def _take_memory(inner: Any) -> tuple[Any, Any]:
    """A state without its large buffers, and the buffers, or nothing."""
    if "memory" not in getattr(inner, "_fields", ()):
        return inner, ()
    return inner._replace(memory=()), inner.memory


def _put_memory(inner: Any, memory: Any) -> Any:
    return inner._replace(memory=memory) if "memory" in getattr(inner, "_fields", ()) else inner


def scale(rule: Rule, own: bool, spec: Spec, moments: stats.RunningMoments, obs: Array) -> Array:
    """Observations [..., D] as the agent sees them."""
    column = columns(spec, own)
    scaled = column != PLAIN
    if spec.guard is not None:
        scaled[spec.guard.entry] = False
    lead = (1,) * (obs.ndim - 1)
    if isinstance(rule, tuple):
        by = np.where(scaled, np.array([*rule, 1.0], np.float32)[column], np.float32(1.0))
        return obs / jnp.asarray(by).reshape(*lead, -1)
    mean, std = pool(moments, column)
    shown = jnp.clip((obs - mean.reshape(*lead, -1)) / std.reshape(*lead, -1), -CLIP, CLIP)
    return jnp.where(jnp.asarray(scaled).reshape(*lead, -1), shown, obs)


def pool(moments: stats.RunningMoments, column: np.ndarray) -> tuple[Array, Array]:
    """Mean and standard deviation of the column that each entry is in, [D]."""
    groups = np.unique(column, return_inverse=True)[1]
    count = jnp.asarray(np.bincount(groups).astype(np.float32))

    def average(values: Array) -> Array:
        return (jax.ops.segment_sum(values, groups, len(count)) / count)[groups]

    mean = average(moments.mean)
    var = average(moments.var + (moments.mean - mean) ** 2)
    return mean, jnp.maximum(jnp.sqrt(var), LEAST * jnp.abs(mean) + 1e-12)

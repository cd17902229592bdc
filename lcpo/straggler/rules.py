"""Rules for hedging requests, as in proxies: timeouts from recent counts (docs/agents/hedging.md).

    hedge-p95      the 95th percentile of response times, within a budget of second copies
    hedge-sketch   the 90th, slowly forgotten, with a token bucket; a variant of hedge-p95
    hedge-cap      the delay at which a given share of the requests is sent twice
    hedge-table    a multiple of the mean service time, by load
    hedge-hourly   a timeout for each hour, from a plan made beforehand

They read counts of the straggler task (`Spec.readings`), of all worlds together, and ignore
observations. Counts decay by 1 - 1/memory per window, so that all of them weigh as much as `memory`
windows. An action is set at each update and holds until the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import constant
from lcpo.config import config, static, traced
from lcpo.errors import InputError
from lcpo.straggler.task import NEVER, TIMEOUTS_MS, WINDOW_MS
from lcpo.types import Agent, AnyAgent, Array, Metrics, Spec, Transition

SLOWER = "slower_"
"""Prefix of readings that count the requests which took longer than a timeout in ms."""
ELAPSED = "elapsed"  # kept with the readings: the number of windows

Read = dict[str, Array]  # decayed sums by name; `share` is that of the requests that were hedged


@config
class Config:
    """Hedge after a percentile of the response times, within a budget."""

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    quantile: float = traced(
        0.95, "share of requests that should be answered before the timeout", low=0.0, high=1.0
    )
    memory: float = traced(120.0, "memory of the counts, in windows", low=1.0)
    budget: float = traced(
        0.05, "no hedges while their share of the requests is above this; 1: no limit", low=0.0
    )
    refill: float = traced(1.0, "tokens that a request adds; a hedge costs 1 token", low=0.0)
    capacity: float = traced(
        100.0, "largest number of tokens, and the number at the start", low=1.0
    )


@config
class CapConfig:
    """Hedge after the delay at which a given share of the requests gets second copies."""

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    cap: float = traced(0.05, "share of the requests that are sent twice", low=0.0, high=1.0)
    memory: float = traced(120.0, "memory of the counts, in windows", low=1.0)
    capacity: float = traced(100.0, "second copies that can be saved up", low=1.0)


@config
class TableConfig:
    """Hedge after a multiple of the mean service time, by load.

    The default is `lcpo.straggler.timeouts.load_table(size=80, size_cv=1.5)`.
    """

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    memory: float = traced(100.0, "memory of the counts, in windows", low=1.0)
    loads: tuple[float, ...] = static(
        (0.125, 0.175, 0.225, 0.275, 0.325, 0.425),
        "loads up to which each multiple holds; above the last: never", low=0.0,
    )  # fmt: skip
    multiples: tuple[float, ...] = static(
        (0.02, 0.066, 0.197, 0.395, 0.658, 1.974), "timeouts, over the mean service time", low=1e-6
    )


@config
class HourlyConfig:
    """Hedge after the timeout that was planned for the hour."""

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    schedule: tuple[int, ...] = static((), "actions in order; the schedule repeats", low=0)
    num_windows: int = static(7200, "windows per entry of the schedule", low=1)


class State(NamedTuple):
    """The action in force, int32, and what a rule remembers; None: nothing of that kind."""

    sums: Any  # [M + 1], decayed, of the readings and of elapsed windows
    tokens: Any
    windows: Any  # since the beginning of the schedule
    action: Array


def init(config: Any, spec: Spec, key: Array) -> State:
    """Without data: never hedge. The bucket of `Config` is full, that of `CapConfig` empty."""
    tokens = None
    if not isinstance(config, TableConfig):
        full = config.capacity if isinstance(config, Config) else 0.0
        tokens = jnp.asarray(full, jnp.float32)
    return State(jnp.zeros(len(spec.readings) + 1), tokens, None, _never(spec))


def act(config: Any, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The action in force, in all worlds."""
    return jnp.full((obs.shape[0], spec.action_size), state.action), ()


def probabilities(config: Any, spec: Spec, state: State, obs: Array) -> Array:
    """1 for the action in force, [N, A, K]."""
    action, _ = act(config, spec, state, obs, jax.random.key(0))
    return jax.nn.one_hot(action, max(spec.num_actions))


Choose = Callable[[Any, Spec, Read, Any], tuple[Array, Metrics]]
"""(config, spec, read, tokens) -> the next action, and metrics."""


def _update(choose: Choose) -> Callable[..., tuple[State, Metrics]]:
    """The update of a rule that chooses by what it has read."""

    def update(
        config: Any, spec: Spec, state: State, batch: Transition, key: Array
    ) -> tuple[State, Metrics]:
        length = batch.reward.shape[0]
        new = jnp.concatenate([batch.readings, batch.elapsed[..., None]], axis=-1).sum(1)
        decay = 1.0 - 1.0 / jnp.asarray(config.memory, jnp.float32)
        sums = decay**length * state.sums + decay ** jnp.arange(length - 1.0, -1.0, -1.0) @ new
        read = dict(zip((*spec.readings, ELAPSED), sums, strict=True))
        read["share"] = _ratio(read["hedged"], read["arrived"])
        tokens = state.tokens
        if tokens is not None:  # the hedges of a rollout are known at its end: they may be a debt
            refill = config.refill if isinstance(config, Config) else config.cap
            fresh = dict(zip(spec.readings, jnp.sum(batch.readings, (0, 1)), strict=True))
            tokens = tokens + refill * fresh["arrived"] - fresh["hedged"]
            tokens = jnp.minimum(tokens, config.capacity)
        action, metrics = choose(config, spec, read, tokens)
        if tokens is not None:
            metrics = {"share_hedged": read["share"], "tokens": tokens}
        return State(sums, tokens, None, action), {**_in_force(spec, action), **metrics}

    return update


def _by_percentile(config: Config, spec: Spec, read: Read, tokens: Array) -> tuple[Array, Metrics]:
    """The smallest timeout that no more than 1 - quantile of the requests were slower than."""
    delay = _shortest(spec, read, 1.0 - config.quantile)
    may = (read["share"] <= config.budget) & (tokens >= 1.0) & (read["served"] > 0.0)
    return jnp.where(may, delay, _never(spec)), {}


def _by_cap(config: CapConfig, spec: Spec, read: Read, tokens: Array) -> tuple[Array, Metrics]:
    """The shortest timeout within the cap; while second copies are left over, the one before it.

    No timeout of the grid spends the cap exactly: in turn, the two around it do.
    """
    delay = _shortest(spec, read, config.cap)
    shorter = jnp.maximum(delay - 1, 0)
    action = jnp.where(tokens > 0.0, shorter, delay)
    return jnp.where(read["served"] > 0.0, action, _never(spec)), {}


def _by_load(config: TableConfig, spec: Spec, read: Read, tokens: None) -> tuple[Array, Metrics]:
    """The timeout nearest to the multiple at this load, in log distance."""
    assert spec.elements is not None, "checked by `table_check`"
    service_ms = _ratio(read["service_ms"], read["served"])
    server_ms = spec.elements[0] * WINDOW_MS * read[ELAPSED]
    load = _ratio(read["arrived"] * service_ms, server_ms)
    row = jnp.sum(load > jnp.asarray(config.loads))  # the number of rows, above the last load
    multiple = jnp.asarray(config.multiples)[jnp.minimum(row, len(config.multiples) - 1)]
    wanted = jnp.log(jnp.maximum(multiple * service_ms, 1e-6))
    nearest = jnp.argmin(jnp.abs(jnp.log(jnp.asarray(_timeouts(spec))) - wanted))
    may = (row < len(config.loads)) & (read["served"] > 0.0)
    action = jnp.where(may, nearest.astype(jnp.int32), _never(spec))
    return action, {"load": load, "mean_service_ms": service_ms}


def hourly_init(config: HourlyConfig, spec: Spec, key: Array) -> State:
    """At the beginning of the schedule."""
    return State(None, None, jnp.int32(0), jnp.int32(config.schedule[0]))


def hourly_update(
    config: HourlyConfig, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Count windows. An entry that begins within a rollout is played from the next one on."""
    schedule = jnp.asarray(config.schedule, jnp.int32)
    period = len(config.schedule) * config.num_windows
    windows = (state.windows + batch.reward.shape[0]) % period
    action = schedule[windows // config.num_windows]
    return State(None, None, windows, action), _in_force(spec, action)


def _timeouts(spec: Spec) -> tuple[float, ...]:
    """In ms, by action; the action after them never hedges."""
    return tuple(float(name.removeprefix(SLOWER)) for name in spec.readings if SLOWER in name)


def _never(spec: Spec) -> Array:
    return jnp.int32(len(_timeouts(spec)))


def _shortest(spec: Spec, read: Read, share: Array | float) -> Array:
    """The smallest timeout that no more than this share of requests was slower than, or never."""
    slower = jnp.stack([read[f"{SLOWER}{ms:g}"] for ms in _timeouts(spec)])
    fits = slower <= share * read["served"]
    return jnp.where(jnp.any(fits), jnp.argmax(fits).astype(jnp.int32), _never(spec))


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 if b is 0."""
    return jnp.where(b > 0.0, a / jnp.where(b > 0.0, b, 1.0), 0.0)


def _in_force(spec: Spec, action: Array) -> Metrics:
    """Their means over updates give the mean timeout of updates that hedge: their quotient."""
    timeout = jnp.asarray((*_timeouts(spec), 0.0))[action]
    return {"timeout_ms": timeout, "hedges": (timeout > 0.0).astype(jnp.float32)}


def table_check(config: TableConfig, spec: Spec) -> None:
    """The table has as many loads as multiples, from the lowest load to the highest."""
    check_hedges(config, spec)
    loads, multiples = config.loads, config.multiples
    if len(loads) != len(multiples) or not loads or list(loads) != sorted(set(loads)):
        raise InputError(
            f"loads = {list(loads)}, multiples = {list(multiples)}: needs increasing loads, and a "
            "multiple for each of them"
        )


def hourly_check(config: HourlyConfig, spec: Spec) -> None:
    """The schedule has entries, which are actions."""
    check_hedges(config, spec)
    if not config.schedule:
        raise InputError(
            "no schedule: give the index of an action for every hour, or let `lcpo reproduce "
            "straggler` plan them"
        )
    if max(config.schedule) >= spec.num_actions[0]:
        raise InputError(
            f"schedule holds {max(config.schedule)}: needs actions, from 0 to "
            f"{spec.num_actions[0] - 1}"
        )


def check_hedges(config: Any, spec: Spec) -> None:
    """Rules for hedging are for environments that hedge."""
    if "hedged" not in spec.readings:
        raise InputError(
            "rules for hedging need the straggler task (--env straggler): this environment does "
            "not report how many requests were hedged (spec.readings)"
        )


def fixed_check(config: constant.Config, spec: Spec) -> None:
    """As of a constant agent, on a task that hedges."""
    check_hedges(config, spec)
    constant.check(config, spec)


FIXED = tuple(
    dataclasses.replace(
        constant.agent.variant(
            f"hedge-{TIMEOUTS_MS[action]:g}ms" if action != NEVER else "never-hedge", action=action
        ),
        check=fixed_check,
    )
    for action in (NEVER, *range(NEVER))
)
"""The actions of the task, each under its name."""
(
    never_hedge, hedge_3ms, hedge_10ms, hedge_30ms, hedge_60ms, hedge_100ms, hedge_300ms,
    hedge_600ms, hedge_1000ms,
) = FIXED  # fmt: skip


def _rule(name: str, config: type, choose: Choose, check: Any = check_hedges) -> AnyAgent:
    return Agent(
        name, config, init, act, _update(choose),
        check=check, probabilities=probabilities, raw=True,
    )  # fmt: skip


hedge_p95 = _rule("hedge-p95", Config, _by_percentile)
hedge_sketch = hedge_p95.variant(
    "hedge-sketch", quantile=0.9, memory=2400.0, budget=1.0, refill=0.1
)
hedge_cap = _rule("hedge-cap", CapConfig, _by_cap)
hedge_table = _rule("hedge-table", TableConfig, _by_load, table_check)
hedge_hourly = Agent(
    "hedge-hourly", HourlyConfig, hourly_init, act, hourly_update,
    check=hourly_check, probabilities=probabilities, raw=True,
)  # fmt: skip

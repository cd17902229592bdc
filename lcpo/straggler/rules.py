"""Rules for hedging requests, as proxies have them: timeouts from what was lately read.

    hedge-p95      the 95th percentile of response times, within a budget of second copies
    hedge-sketch   the 90th, slowly forgotten, with a token bucket; a variant of hedge-p95
    hedge-cap      the delay at which a given share of the requests is sent twice
    hedge-table    a multiple of the mean service time, by load
    hedge-hourly   a timeout for each hour, from a plan that was made beforehand

They read counts of the straggler task (`Spec.readings`), of all worlds together, and know no
observation. A count of an earlier window weighs 1 - 1/memory of that of the window after it, so
that all of them weigh as much as `memory` windows: as exact as a ring of windows for a percentile
on a grid of eight timeouts, and no larger than one window. An action is set at each update and
holds until the next. docs/agents/hedging.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import constant
from lcpo.config import config, static, traced
from lcpo.errors import InputError
from lcpo.straggler.task import NEVER, TIMEOUTS_MS, WINDOW_MS
from lcpo.types import Agent, AnyAgent, Array, Metrics, Spec, Transition

SLOWER = "slower_"
"""Readings of this name, with a timeout in ms behind it: requests that took longer."""
ELAPSED = "elapsed"
"""Kept beside the readings: the number of windows."""


@config
class Config:
    """Hedge after a percentile of the response times, within a budget."""

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    quantile: float = traced(
        0.95, "share of requests that are to be answered before the timeout", low=0.0, high=1.0
    )
    memory: float = traced(120.0, "windows that counts are kept for, on average", low=1.0)
    budget: float = traced(
        0.05, "no hedges while their share of the requests is above this; 1: no limit", low=0.0
    )
    refill: float = traced(
        1.0, "tokens that a request adds; a hedge costs 1, below 1 token there is none", low=0.0
    )
    capacity: float = traced(100.0, "tokens at most, and at the start", low=1.0)


@config
class CapConfig:
    """Hedge after the delay that spends a given share of second copies."""

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    cap: float = traced(0.05, "share of the requests that are sent twice", low=0.0, high=1.0)
    memory: float = traced(120.0, "windows that counts are kept for, on average", low=1.0)
    capacity: float = traced(100.0, "second copies that can be saved up", low=1.0)


@config
class TableConfig:
    """Hedge after a multiple of the mean service time, by load.

    The default is `lcpo.straggler.timeouts.load_table(size=80, size_cv=1.5)`.
    """

    rollout_length: int = static(10, "windows per update, for which a timeout holds", low=1)
    memory: float = traced(100.0, "windows that counts are kept for, on average", low=1.0)
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
    schedule: tuple[int, ...] = static((), "actions, one after the other, then again", low=0)
    num_windows: int = static(7200, "windows for which each holds", low=1)


class State(NamedTuple):
    """What is remembered, and the action in force, int32."""

    sums: Array  # [M + 1], decayed sums of the readings and of elapsed windows
    tokens: Array
    action: Array


class TableState(NamedTuple):
    """As `State`, without tokens."""

    sums: Array
    action: Array


class HourlyState(NamedTuple):
    """Windows since the beginning of the schedule, and the action in force."""

    windows: Array
    action: Array


def init(config: Config, spec: Spec, key: Array) -> State:
    """Nothing is known: never hedge."""
    del key
    return State(_no_sums(spec), jnp.asarray(config.capacity, jnp.float32), _never(spec))


def act(config: Any, spec: Spec, state: Any, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The action in force, of all rules here, in all worlds."""
    del config, key
    return jnp.full((obs.shape[0], spec.action_size), state.action), ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """The smallest timeout that no more than 1 - quantile of the requests were slower than."""
    del key
    sums, read = _remember(config.memory, spec, state.sums, batch)
    tokens = _spend(state.tokens, config.refill, config.capacity, spec, batch)
    share = _ratio(read["hedged"], read["arrived"])
    delay = _shortest(spec, read, 1.0 - config.quantile)
    may = (share <= config.budget) & (tokens >= 1.0) & (read["served"] > 0.0)
    action = jnp.where(may, delay, _never(spec))
    metrics = {**_in_force(spec, action), "share_hedged": share, "tokens": tokens}
    return State(sums, tokens, action), metrics


def cap_init(config: CapConfig, spec: Spec, key: Array) -> State:
    """Nothing is known or saved up: never hedge."""
    del config, key
    return State(_no_sums(spec), jnp.float32(0.0), _never(spec))


def cap_update(
    config: CapConfig, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """The shortest timeout within the cap; while second copies are left over, the one before it.

    Timeouts are a grid, so that none spends the cap exactly: in turn, the two around it do.
    """
    del key
    sums, read = _remember(config.memory, spec, state.sums, batch)
    tokens = _spend(state.tokens, config.cap, config.capacity, spec, batch)
    delay = _shortest(spec, read, config.cap)
    shorter = jnp.maximum(delay - 1, 0)
    action = jnp.where(tokens > 0.0, shorter, delay)
    action = jnp.where(read["served"] > 0.0, action, _never(spec))
    share = _ratio(read["hedged"], read["arrived"])
    metrics = {**_in_force(spec, action), "share_hedged": share, "tokens": tokens}
    return State(sums, tokens, action), metrics


def table_init(config: TableConfig, spec: Spec, key: Array) -> TableState:
    """Nothing is known: never hedge."""
    del config, key
    return TableState(_no_sums(spec), _never(spec))


def table_update(
    config: TableConfig, spec: Spec, state: TableState, batch: Transition, key: Array
) -> tuple[TableState, Metrics]:
    """The timeout nearest to the multiple at this load, in log distance."""
    del key
    assert spec.elements is not None, "checked by `table_check`"
    sums, read = _remember(config.memory, spec, state.sums, batch)
    service_ms = _ratio(read["service_ms"], read["served"])
    server_ms = spec.elements[0] * WINDOW_MS * read[ELAPSED]
    load = _ratio(read["arrived"] * service_ms, server_ms)
    row = jnp.sum(load > jnp.asarray(config.loads))  # the number of rows, above the last load
    multiple = jnp.asarray(config.multiples)[jnp.minimum(row, len(config.multiples) - 1)]
    wanted = jnp.log(jnp.maximum(multiple * service_ms, 1e-6))
    nearest = jnp.argmin(jnp.abs(jnp.log(jnp.asarray(_timeouts(spec))) - wanted))
    may = (row < len(config.loads)) & (read["served"] > 0.0)
    action = jnp.where(may, nearest.astype(jnp.int32), _never(spec))
    metrics = {**_in_force(spec, action), "load": load, "mean_service_ms": service_ms}
    return TableState(sums, action), metrics


def hourly_init(config: HourlyConfig, spec: Spec, key: Array) -> HourlyState:
    """At the beginning of the schedule."""
    del spec, key
    return HourlyState(jnp.int32(0), jnp.int32(config.schedule[0]))


def hourly_update(
    config: HourlyConfig, spec: Spec, state: HourlyState, batch: Transition, key: Array
) -> tuple[HourlyState, Metrics]:
    """Count windows. An entry that begins within a rollout is played from the next one on."""
    del key
    schedule = jnp.asarray(config.schedule, jnp.int32)
    period = len(config.schedule) * config.num_windows
    windows = (state.windows + batch.reward.shape[0]) % period
    action = schedule[windows // config.num_windows]
    return HourlyState(windows, action), _in_force(spec, action)


def probabilities(config: Any, spec: Spec, state: Any, obs: Array) -> Array:
    """1 for the action in force, [N, A, K]."""
    action, _ = act(config, spec, state, obs, jax.random.key(0))
    return jax.nn.one_hot(action, max(spec.num_actions))


def _timeouts(spec: Spec) -> tuple[float, ...]:
    """In ms, by action; the action after them never hedges."""
    return tuple(float(name.removeprefix(SLOWER)) for name in spec.readings if SLOWER in name)


def _never(spec: Spec) -> Array:
    return jnp.int32(len(_timeouts(spec)))


def _no_sums(spec: Spec) -> Array:
    return jnp.zeros(len(spec.readings) + 1)


def _remember(
    memory: Array | float, spec: Spec, sums: Array, batch: Transition
) -> tuple[Array, dict[str, Array]]:
    """Decayed sums after a batch, and the same by name."""
    length = batch.reward.shape[0]
    new = jnp.concatenate([batch.readings, batch.elapsed[..., None]], axis=-1).sum(1)  # [T, M + 1]
    decay = 1.0 - 1.0 / jnp.asarray(memory, jnp.float32)
    sums = decay**length * sums + decay ** jnp.arange(length - 1.0, -1.0, -1.0) @ new
    return sums, dict(zip((*spec.readings, ELAPSED), sums, strict=True))


def _shortest(spec: Spec, read: dict[str, Array], share: Array | float) -> Array:
    """The smallest timeout that no more than this share of requests was slower than, or never."""
    slower = jnp.stack([read[f"{SLOWER}{ms:g}"] for ms in _timeouts(spec)])
    fits = slower <= share * read["served"]
    return jnp.where(jnp.any(fits), jnp.argmax(fits).astype(jnp.int32), _never(spec))


def _spend(
    tokens: Array, refill: Array | float, capacity: Array | float, spec: Spec, batch: Transition
) -> Array:
    """The tokens after a rollout. Its hedges are known at its end only: it may leave a debt."""
    new = dict(zip(spec.readings, jnp.sum(batch.readings, (0, 1)), strict=True))
    return jnp.minimum(tokens + refill * new["arrived"] - new["hedged"], capacity)


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 where there is nothing to divide by."""
    return jnp.where(b > 0.0, a / jnp.where(b > 0.0, b, 1.0), 0.0)


def _in_force(spec: Spec, action: Array) -> Metrics:
    """Means of these over updates: the mean timeout of those that hedge is their quotient."""
    timeout = jnp.asarray((*_timeouts(spec), 0.0))[action]
    return {"timeout_ms": timeout, "hedges": (timeout > 0.0).astype(jnp.float32)}


def table_check(config: TableConfig, spec: Spec) -> None:
    """The table has as many loads as multiples, from the lowest load to the highest."""
    check_hedges(config, spec)
    loads, multiples = config.loads, config.multiples
    if len(loads) != len(multiples) or not loads or list(loads) != sorted(set(loads)):
        raise InputError(
            f"loads = {list(loads)}, multiples = {list(multiples)}: needs loads that rise, and a "
            "multiple for each of them"
        )


def hourly_check(config: HourlyConfig, spec: Spec) -> None:
    """The schedule has entries, which are actions."""
    check_hedges(config, spec)
    if not config.schedule:
        raise InputError(
            "no schedule: give the number of an action for every hour, or let `lcpo reproduce "
            "straggler` plan them"
        )
    if max(config.schedule) >= spec.num_actions[0]:
        raise InputError(
            f"schedule holds {max(config.schedule)}: needs actions, from 0 to "
            f"{spec.num_actions[0] - 1}"
        )


def check_hedges(config: Any, spec: Spec) -> None:
    """Rules for hedging are for environments that hedge."""
    del config
    if "hedged" not in spec.readings:
        raise InputError(
            "a rule for hedging requests needs the straggler task: this environment does not read "
            "how many were hedged (spec.readings)"
        )


def _fixed(name: str, action: int) -> AnyAgent:
    """One timeout, always."""

    def check(config: constant.Config, spec: Spec) -> None:
        check_hedges(config, spec)
        constant.check(config, spec)

    return dataclasses.replace(constant.agent.variant(name, action=action), check=check)


FIXED = tuple(
    _fixed(f"hedge-{TIMEOUTS_MS[action]:g}ms" if action != NEVER else "never-hedge", action)
    for action in (NEVER, *range(NEVER))
)
"""The actions of the task, each under its name."""
(
    never_hedge, hedge_3ms, hedge_10ms, hedge_30ms, hedge_60ms, hedge_100ms, hedge_300ms,
    hedge_600ms, hedge_1000ms,
) = FIXED  # fmt: skip
hedge_p95 = Agent(
    "hedge-p95", Config, init, act, update,
    check=check_hedges, probabilities=probabilities, raw=True,
)  # fmt: skip
hedge_sketch = hedge_p95.variant(
    "hedge-sketch", quantile=0.9, memory=2400.0, budget=1.0, refill=0.1
)
hedge_cap = Agent(
    "hedge-cap", CapConfig, cap_init, act, cap_update,
    check=check_hedges, probabilities=probabilities, raw=True,
)  # fmt: skip
hedge_table = Agent(
    "hedge-table", TableConfig, table_init, act, table_update,
    check=table_check, probabilities=probabilities, raw=True,
)  # fmt: skip
hedge_hourly = Agent(
    "hedge-hourly", HourlyConfig, hourly_init, act, hourly_update,
    check=hourly_check, probabilities=probabilities, raw=True,
)  # fmt: skip

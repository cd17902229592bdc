"""Context processes: functions of (rows, settings, seed) to arrays [rows, channels], float32.

One seed gives one process: fewer rows are the head of more rows, so a short run sees what a long
one sees first. Times are in rows (steps, or episodes where an environment advances by episode).
Work goes block by block: 20 million rows take seconds and little memory beyond the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from lcpo.errors import InputError

BLOCK = 1 << 18
"""Rows worked on at a time."""
THREE_WINDS = ((1.5, 0.0), (-0.75, 1.3), (-0.75, -1.3))
"""Three winds of strength 1.5, each 2.6 from the others."""

Order = Literal["cycle", "random"]
Rng = np.random.Generator


class Switches(NamedTuple):
    """A switching schedule: from row `start[i]` on, context number `context[i]` holds."""

    start: np.ndarray  # [S], the first is 0
    context: np.ndarray  # [S]
    seen: np.ndarray  # [S] bool, the context has held before: a revisit


def ornstein_uhlenbeck(
    rows: int,
    channels: int = 2,
    *,
    mean: float | Sequence[float] = 0.0,
    std: float = 1.0,
    relaxation: float = 1e6,
    start: float | Sequence[float] | None = None,
    seed: int,
) -> np.ndarray:
    """Ornstein-Uhlenbeck drift with this relaxation time in rows; `mean` and `std` are stationary.

    Exact at every row: x' = mean + a (x - mean) + std sqrt(1 - a^2) e with a = exp(-1/relaxation).
    `start` is the value before the first row; None draws it from the stationary distribution.
    """
    _need(rows, relaxation=relaxation)
    rng = np.random.default_rng(seed)
    level = np.broadcast_to(np.asarray(mean, np.float64), channels)
    drawn = level + std * rng.standard_normal(channels)
    state = (drawn if start is None else np.broadcast_to(start, channels)) - level
    shock = std * np.sqrt(-np.expm1(-2.0 / relaxation))
    out = np.empty((rows, channels), np.float32)
    for block in _blocks(rows):
        drive = shock * rng.standard_normal(out[block].shape, np.float32).astype(np.float64)
        values = _recursion(np.exp(-1.0 / relaxation), drive, state)
        out[block] = values + level
        state = values[-1]
    return out


def piecewise_gaussian(
    rows: int,
    channels: int = 2,
    *,
    dwell: int = 250_000,
    jitter: float = 0.5,
    std: float = 1.5,
    noise: float = 0.075,
    seed: int,
) -> np.ndarray:
    """Constant levels ~ N(0, std^2), a new one about every `dwell` rows, with Gaussian noise.

    Segments last `dwell * (1 +- jitter)` rows, uniformly.
    """
    _need(rows, dwell=dwell)
    length_rng, level_rng, noise_rng = np.random.default_rng(seed).spawn(3)
    starts = _starts(rows, dwell, jitter, length_rng)
    levels = std * level_rng.standard_normal((len(starts), channels))
    return add_noise(hold_levels(rows, starts, levels), noise, noise_rng)


def bursts(
    rows: int,
    channels: int = 2,
    *,
    calm: int = 250_000,
    jitter: float = 0.5,
    turn: int = 100_000,
    max_turns: int = 3,
    radius: float = 2.5,
    noise: float = 0.37,
    seed: int,
) -> np.ndarray:
    """Calm, and now and then 1 .. `max_turns` turns on a circle through the origin, with noise.

    A calm lasts `calm * (1 +- jitter)` rows, a turn `turn` rows. The circle's plane is drawn once.
    """
    _need(rows, calm=calm, turn=turn, max_turns=max_turns)
    calm_rng, turn_rng, axes_rng, noise_rng = np.random.default_rng(seed).spawn(4)
    axes = np.zeros((2, channels))
    found = np.linalg.qr(axes_rng.standard_normal((channels, 2)))[0].T
    axes[: len(found)] = found  # a single channel has one axis
    calms = np.diff(_starts(rows, calm, jitter, calm_rng), append=rows)
    turns = turn_rng.integers(1, max_turns + 1, len(calms)) * turn
    ends = np.cumsum(calms + turns)
    values = circles(rows, ends - turns, ends, turn, radius, axes)
    return add_noise(values, noise, noise_rng)


def sinusoids(
    rows: int,
    channels: int = 2,
    *,
    periods: float | Sequence[float] = (400_000, 620_000),
    amplitude: float = 2.0,
    noise: float = 0.075,
    seed: int,
) -> np.ndarray:
    """A sine per channel, its phase drawn, with noise; `periods` repeat where there are fewer."""
    period = np.resize(np.asarray(periods, np.float64), channels)
    _need(rows, period=period.min())
    phase_rng, noise_rng = np.random.default_rng(seed).spawn(2)
    phase = phase_rng.uniform(0.0, 2.0 * np.pi, channels)
    out = np.empty((rows, channels), np.float32)
    for block in _blocks(rows):
        time = np.arange(block.start, block.stop)[:, None]
        out[block] = amplitude * np.sin(2.0 * np.pi * time / period + phase)
    return add_noise(out, noise, noise_rng)


def iid(
    rows: int,
    channels: int = 2,
    *,
    mean: float | Sequence[float] = 0.0,
    std: float = 1.0,
    hold: int = 1,
    seed: int,
) -> np.ndarray:
    """Independent draws from N(mean, std^2), each held for `hold` rows."""
    _need(rows, hold=hold)
    draws = np.random.default_rng(seed).standard_normal((-(-rows // hold), channels), np.float32)
    draws *= np.float32(std)
    draws += np.asarray(mean, np.float32)
    return draws if hold == 1 else np.repeat(draws, hold, axis=0)[:rows]


def markov(
    rows: int,
    *,
    levels: Any = THREE_WINDS,
    dwell: float = 20_000,
    noise: float = 0.075,
    seed: int,
) -> np.ndarray:
    """A Markov chain over `levels` [K, channels], with noise.

    Each row leaves its level with probability 1 / dwell, for one of the others.
    """
    values = _levels(levels)
    _need(rows, dwell=dwell)
    first_rng, jump_rng, next_rng, noise_rng = np.random.default_rng(seed).spawn(4)
    state = int(first_rng.integers(len(values)))
    out = np.empty((rows, values.shape[1]), np.float32)
    for block in _blocks(rows):
        jumps = jump_rng.random(block.stop - block.start) < 1.0 / dwell
        ahead = next_rng.integers(1, len(values), len(jumps))
        path = (state + np.cumsum(jumps * ahead)) % len(values)
        out[block] = values[path]
        state = int(path[-1])
    return add_noise(out, noise, noise_rng)


def revisit(
    rows: int,
    *,
    levels: Any = THREE_WINDS,
    dwell: int = 125_000,
    jitter: float = 0.0,
    order: Order = "cycle",
    noise: float = 0.1,
    seed: int,
) -> np.ndarray:
    """Switch between a few `levels` [K, channels] that recur, with noise.

    Each visit lasts `dwell * (1 +- jitter)` rows. By default three winds rotate: 2 million rows
    hold 16 visits, 13 of them revisits. `revisit_switches` gives the schedule.
    """
    values = _levels(levels)
    switches = revisit_switches(
        rows, num_contexts=len(values), dwell=dwell, jitter=jitter, order=order, seed=seed
    )
    noise_rng = np.random.default_rng(seed).spawn(3)[2]
    return add_noise(hold_levels(rows, switches.start, values[switches.context]), noise, noise_rng)


def revisit_switches(
    rows: int,
    *,
    num_contexts: int = 3,
    dwell: int = 125_000,
    jitter: float = 0.0,
    order: Order = "cycle",
    seed: int,
) -> Switches:
    """When `revisit` with the same settings switches, to which level, and whether it is a revisit.

    "cycle" visits the contexts in turn, "random" goes to any of the others.
    """
    _need(rows, dwell=dwell)
    length_rng, order_rng, _ = np.random.default_rng(seed).spawn(3)
    return _visits(_starts(rows, dwell, jitter, length_rng), num_contexts, order, order_rng)


def turns(rows: int, *, num_contexts: int = 3, dwell: int) -> np.ndarray:
    """The numbers 0, 1, ... of the contexts in rotation, `dwell` rows each, [rows, 1]."""
    _need(rows, num_contexts=num_contexts, dwell=dwell)
    return (np.arange(rows) // dwell % num_contexts).astype(np.float32)[:, None]


def mixture(
    rows: int,
    parts: Sequence[Callable[[int], np.ndarray]],
    *,
    dwell: int = 250_000,
    jitter: float = 0.5,
    seed: int,
) -> np.ndarray:
    """Follow one of several processes at a time, changing over about every `dwell` rows.

    Each of `parts` is a function rows -> [rows, channels]; time passes in all of them, whether
    selected or not.
    """
    if len(parts) < 2:
        raise InputError(f"mixture: got {len(parts)} parts, needs at least 2")
    _need(rows, dwell=dwell)
    length_rng, order_rng = np.random.default_rng(seed).spawn(2)
    starts = _starts(rows, dwell, jitter, length_rng)
    chosen = _visits(starts, len(parts), "random", order_rng).context
    ends = np.append(starts[1:], rows)
    out: np.ndarray | None = None
    for number, part in enumerate(parts):  # one at a time: two 20 M traces are enough in memory
        values = part(rows)
        out = np.empty_like(values, np.float32) if out is None else out
        if values.shape != out.shape:
            raise InputError(
                f"mixture: part {number} has shape {values.shape}, the first part {out.shape}"
            )
        for start, end in zip(starts[chosen == number], ends[chosen == number], strict=True):
            out[start:end] = values[start:end]
    assert out is not None
    return out


def hold_levels(rows: int, starts: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Level i from row starts[i] until the next start, [rows, channels]."""
    lengths = np.diff(np.minimum(starts, rows), append=rows)
    return np.repeat(np.asarray(levels, np.float32), lengths, axis=0)


def circles(
    rows: int, starts: np.ndarray, ends: np.ndarray, turn: int, radius: float, axes: np.ndarray
) -> np.ndarray:
    """Zero, except for rows starts[i] .. ends[i]: a circle of `radius` through the origin.

    It runs in the plane of `axes` [2, channels]: the first points to its center, the second in the
    initial direction of motion.
    """
    axes = np.asarray(axes, np.float64)
    out = np.zeros((rows, axes.shape[1]), np.float32)
    for start, end in zip(starts, np.minimum(ends, rows), strict=True):
        phase = 2.0 * np.pi / turn * np.arange(max(end - start, 0))[:, None]
        out[start:end] = radius * ((1.0 - np.cos(phase)) * axes[0] + np.sin(phase) * axes[1])
    return out


def add_noise(values: np.ndarray, std: float, rng: Rng) -> np.ndarray:
    """Add independent Gaussian noise, in place."""
    if std > 0.0:
        for block in _blocks(len(values)):
            noise = rng.standard_normal(values[block].shape, np.float32)
            values[block] += np.float32(std) * noise
    return values


def _recursion(decay: float, drive: np.ndarray, state: np.ndarray) -> np.ndarray:
    """x[t] = decay x[t - 1] + drive[t] from x[-1] = state, for drive [T, channels].

    In pieces of about sqrt(T) rows: all pieces step together as if each began at zero, then each in
    turn receives the final state of its predecessor. No inverse powers, so any decay is safe.
    """
    size = 1 << (max(len(drive), 1).bit_length() // 2)
    pieces = np.zeros((size, -(-len(drive) // size), drive.shape[1]))  # time within a piece first
    padded = np.zeros((pieces.shape[1] * size, drive.shape[1]))
    padded[: len(drive)] = drive
    pieces[:] = padded.reshape(-1, size, drive.shape[1]).swapaxes(0, 1)
    for t in range(1, size):
        pieces[t] += decay * pieces[t - 1]
    left = np.empty(pieces.shape[1:])
    whole = decay**size
    for i in range(len(left)):
        left[i] = state
        state = pieces[-1, i] + whole * state
    pieces += decay ** np.arange(1, size + 1)[:, None, None] * left
    return pieces.swapaxes(0, 1).reshape(padded.shape)[: len(drive)]


def _starts(rows: int, dwell: int, jitter: float, rng: Rng) -> np.ndarray:
    """First rows of segments of dwell * (1 +- jitter) rows that cover `rows`."""
    if not 0.0 <= jitter < 1.0:
        raise InputError(f"jitter = {jitter}: needs a share of the dwell time, 0 <= jitter < 1")
    count = int(rows / max(dwell * (1.0 - jitter), 1.0)) + 2  # enough if all are short
    lengths = np.rint(dwell * (1.0 + jitter * rng.uniform(-1.0, 1.0, count))).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, 1))])
    return starts[starts < rows]


def _visits(starts: np.ndarray, num_contexts: int, order: Order, rng: Rng) -> Switches:
    if num_contexts < 2:
        raise InputError(f"got {num_contexts} contexts to switch between: needs at least 2")
    if order == "cycle":
        context = np.arange(len(starts)) % num_contexts
    elif order == "random":
        ahead = rng.integers(1, num_contexts, len(starts))
        context = np.cumsum(ahead) % num_contexts
    else:
        raise InputError(f"order = {order!r}: needs 'cycle' or 'random'")
    seen = np.ones(len(starts), bool)
    seen[np.unique(context, return_index=True)[1]] = False
    return Switches(starts, context, seen)


def _levels(levels: Any) -> np.ndarray:
    values = np.asarray(levels, np.float32)
    if values.ndim != 2 or len(values) < 2:
        raise InputError(f"levels have shape {values.shape}: needs [contexts >= 2, channels]")
    return values


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(i, min(i + BLOCK, rows)) for i in range(0, rows, BLOCK))


def _need(rows: int, **positive: float) -> None:
    for name, value in {"rows": rows, **positive}.items():
        if not value > 0:
            raise InputError(f"{name} = {value}: needs a number above 0")

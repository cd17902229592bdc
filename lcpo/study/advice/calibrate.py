"""Which sigma suits a trace? LCPO's L2 detector, simulated along it without an agent.

Sampled updates look back as LCPO would: 5 b states are drawn from a reservoir of the past (b: the
states of a rollout), and the constraint is active where at least b of them have a context more
than sigma away from the mean context of the rollout. The b-th largest of the drawn distances, the
`reach` of an update, says it for every sigma at once: active where reach > sigma.

The suggestion lies half-way between

    noise   the 99th percentile of the distance between a context and the mean of its own rollout,
    far     the reach that nine in ten of the updates exceed whose reach exceeds the noise.

A sigma below `noise` takes the context at hand for another, and anchors what should be learned;
one above `far` lets the policy forget wherever the past differs by less. On the paper's four traces
this gives 0.29, 0.97, 0.69 and 1.0; the paper runs sigma = 1, untuned, and reports its best
returns at the smallest sigma that it tried, 0.5.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import contexts
from lcpo import values as plain_values
from lcpo.contexts import TraceRef, copies
from lcpo.errors import InputError
from lcpo.run.plan.plan import MAX_SCALE
from lcpo.study.advice import next_steps
from lcpo.study.advice.lookback import Lookback, noise, sampled, simulate
from lcpo.study.measure.compare import RARE
from lcpo.study.report import figures, trace_figure

NUM_SIGMAS = 8
"""Number of tabulated sigmas, over the distances that occur."""
PERCENTILES = (1, 10, 25, 50, 75, 90, 99, 100)
MAX_WINDOWS = 50_000_000
"""Most rows of the trace that one update looks at: about a GiB."""
ALIKE = "the contexts of the past differ no more than those within one rollout"
"""Why no sigma is suggested."""
SHORTER = (100, 50, 20)
"""Rollout lengths that are tried where no sigma is suggested. The distances within shorter ones are
too few to tell noise from change."""
__all__ = ["Calibration", "Lookback", "calibrate", "inactivity_warning", "noise", "plot", "summary"]


class Calibration(NamedTuple):
    """Distances of contexts along a trace, and what they mean for sigma."""

    name: str
    rows: int
    num_updates: int
    scale: float | Sequence[float]
    step: np.ndarray  # [U], first step of each update simulated
    reach: np.ndarray  # [U], the constraint is active for every sigma below
    distances: np.ndarray  # between past contexts and the mean of the rollout, sorted
    noise: float
    far: float | None
    sigmas: tuple[float, ...]
    suggested: float | None
    """None: `ALIKE`."""
    spread: tuple[float, ...] = ()
    """Standard deviation of each channel."""
    channels: tuple[str, ...] = ()
    """Names of the channels, if any."""
    is_own: bool = False
    """The context is the environment's own, not a trace's."""

    def activity(self, sigma: float, first_step: int = 0) -> float:
        """Share of the updates from `first_step` on in which the constraint is active."""
        return float(np.mean(self.reach[self.step >= first_step] > sigma))

    def percentile(self, distance: float) -> float:
        """Percentage of context distances below `distance`."""
        return 100.0 * np.searchsorted(self.distances, distance) / len(self.distances)

    @property
    def quantiles(self) -> dict[int, float]:
        """Percentiles of the context distances."""
        return {p: float(np.percentile(self.distances, p)) for p in PERCENTILES}


Contexts = str | os.PathLike[str] | TraceRef | np.ndarray
"""A trace by name, or rows [rows, channels]."""


def calibrate(
    trace: Contexts,
    sigmas: tuple[float, ...] | None = None,
    lookback: Lookback = Lookback(),  # noqa: B008 - a value
    scale: float | Sequence[float] = 1.0,
    rows: int | None = None,
    seed: int = 0,
) -> Calibration:
    """Simulate the detector along a trace (a name, a file, or an array [rows, channels]).

    `sigmas`: sigmas to tabulate; None: eight, over the distances that occur. `scale` multiplies the
    contexts: one factor, or one for each channel. `rows` are the steps of the run (None: all of the
    trace, or 2 million where it can have any length).
    """
    _check_settings(lookback, scale)
    rows = None if rows is None else plain_values.whole("rows", rows)
    name, values = _load(trace, rows)
    rows = len(values) if rows is None else rows
    length = lookback.rollout_length
    num_updates = rows // length
    if num_updates < 2:
        raise InputError(
            f"trace {name!r}: {rows:,} rows are {num_updates} updates of {length} steps: "
            "needs at least 2"
        )
    if lookback.buffer_size is None:
        lookback = lookback._replace(buffer_size=max(1, round(0.01 * rows)))
    factors = copies.factors(scale, values.shape[1])
    values = values if (factors == 1.0).all() else values * factors.astype(np.float32)
    updates = sampled(num_updates)
    reach, distances, within = simulate(values, updates, lookback, seed)
    noise = float(np.percentile(within, 99))
    differing = reach[reach > noise]
    far = float(np.percentile(differing, 10)) if len(differing) >= RARE * len(reach) else None
    return Calibration(
        name=f"trace {name}",
        rows=rows,
        num_updates=num_updates,
        scale=scale,
        step=updates * length,
        reach=reach,
        distances=np.sort(distances),
        noise=noise,
        far=far,
        sigmas=_grid(noise, reach) if sigmas is None else tuple(sigmas),
        suggested=None if far is None else _two_digits(0.5 * (noise + far)),
        spread=tuple(values[:: max(1, len(values) // 100_000)].std(axis=0, dtype=float).tolist()),
        channels=() if isinstance(name, str) else name.describe().names,
    )


def _grid(noise: float, reach: np.ndarray) -> tuple[float, ...]:
    """Geometric spacing from half the noise to the largest reach."""
    top = float(reach.max())
    if top <= 0.0:  # contexts that are all alike
        top = max(noise, 1.0)
    low = min(max(0.5 * noise, 0.01 * top), 0.5 * top)
    return tuple(dict.fromkeys(_two_digits(s) for s in np.geomspace(low, top, NUM_SIGMAS)))


def _check_settings(lookback: Lookback, scale: float | Sequence[float]) -> None:
    for name, value in lookback._asdict().items():
        if value is not None or name != "buffer_size":
            plain_values.whole(name.replace("_", " "), value)
    for factor in np.atleast_1d(scale).tolist():
        plain_values.number("scale", factor, -MAX_SCALE, MAX_SCALE)
    windows = lookback.rollout_length * lookback.rounds * lookback.lags
    if windows > MAX_WINDOWS:
        raise InputError(
            f"rollout length = {lookback.rollout_length:,} with lags = {lookback.lags:,} takes too "
            "much memory: use smaller values, with a product of at most "
            f"{MAX_WINDOWS // lookback.rounds:,}"
        )


def summary(calibration: Calibration, shorter: tuple[int, float] | None = None) -> str:
    """The calibration as text for a terminal; `shorter`: what `shorter_rollout` found."""
    c = calibration
    times = ", ".join(f"{x:g}" for x in np.atleast_1d(c.scale))
    lines = [
        f"{c.name}: {c.rows:,} steps, {c.num_updates:,} updates "
        f"({len(c.step):,} simulated), contexts times {times}",
        *([f"channels: {', '.join(c.channels)}"] if c.channels else []),
        "",
        "distance between past contexts and the recent mean",
        "  percentile " + "".join(f"{p:>8}" for p in c.quantiles),
        "  distance   " + "".join(f"{_short(d):>8}" for d in c.quantiles.values()),
        f"  within a rollout (99th percentile): {_short(c.noise)}; keep sigma above it",
        "",
        "updates in which LCPO's constraint would be active",
        "  sigma      " + "".join(f"{s:>8g}" for s in c.sigmas),
        "  active     " + "".join(f"{100 * c.activity(s):>6.1f} %" for s in c.sigmas),
        "",
    ]
    uneven = next_steps.uneven(c)
    if c.suggested is not None:
        share = 100 * c.activity(c.suggested)
        lines.append(f"suggested sigma = {c.suggested:g} (active in {share:.1f} % of updates)")
        return "\n".join([*lines, *(f"but {text}" for text in uneven)])
    steps = [*uneven, *next_steps.next_steps(c, shorter)]
    return "\n".join(
        [*lines, f"no sigma suggested: {ALIKE}. Try one of:", *(f"- {x}" for x in steps)]
    )


def shorter_rollout(
    trace: Contexts, lookback: Lookback, scale: float | Sequence[float], rows: int | None = None
) -> tuple[int, float] | None:
    """A rollout length for which there is a suggestion, and that; None: there is none."""
    for length in SHORTER:
        if length < lookback.rollout_length:
            found = calibrate(trace, None, lookback._replace(rollout_length=length), scale, rows)
            if found.suggested is not None:
                return length, found.suggested
    return None


def inactivity_warning(c: Calibration, sigma: float, active: float | None = None) -> str | None:
    """The warning for an LCPO run whose constraint is (almost) never active, else None.

    `active`: share of the updates of a run in which it was; None: the simulated share.
    """
    expected = c.activity(sigma)
    active = expected if active is None else active
    if active >= RARE:
        return None
    head = f"active in {100 * active:.1f} % of updates: "
    if expected >= RARE:
        return head + (
            f"sigma = {sigma:g} should make it {100 * expected:.1f} % over the whole trace; "
            "did the run use another detector, or only the head of the trace?"
        )
    if c.suggested is None:
        return head + f"{ALIKE}, so no sigma helps: on this trace the constraint does nothing"
    rank = min(99, math.floor(c.percentile(sigma)))
    where = f"sigma is above the {_ordinal(rank)} percentile of context distances"
    return head + f"{where}; try sigma = {c.suggested:g}"


def plot(calibration: Calibration, path: str | Path | None = None) -> Any:
    """Distances, activity against sigma, and the reach along the trace: the three axes.

    `path`: of the picture to write; None: none is written.
    """
    c = calibration
    top = max(float(c.distances[-1]), float(c.reach.max()), 1e-6) * 1.03
    figure = figures.new_figure(12, 3.4)
    axes = figure.subplots(1, 3)
    axes[0].hist(c.distances, bins=120, range=(0, top), density=True, color="#7f9fbf")
    axes[0].set(xlabel="context distance", ylabel="density", title="Past against recent contexts")
    grid = np.linspace(0.0, top, 400)
    axes[1].plot(grid, [100 * c.activity(s) for s in grid], color="#1f4e79")
    axes[1].plot(c.sigmas, [100 * c.activity(s) for s in c.sigmas], "o", ms=4, color="#1f4e79")
    axes[1].set(xlabel="sigma", ylabel="updates (%)", title="Constraint active")
    axes[1].set(xlim=(0, top), ylim=(0, 101))
    axes[2].plot(c.step / 1e6, c.reach, ".", ms=2, color="#1f4e79")
    axes[2].set(xlabel="million steps", ylabel="sigma", title="Active for every sigma below")
    axes[2].set(ylim=(0, top))
    if c.suggested is not None:
        label = f"suggested: {c.suggested:g}"
        for draw in (axes[0].axvline, axes[1].axvline, axes[2].axhline):
            draw(c.suggested, color="#c0504d", lw=1.2, label=label)
        axes[1].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    times = ", ".join(f"{x:g}" for x in np.atleast_1d(c.scale))
    title = c.name + (f", times {times}" if times != "1" else "")
    figure.suptitle(title, parse_math=False)
    if path is not None:
        figures.save(figure, path, "lcpo calibrate")
    return axes


def _load(trace: Contexts, rows: int | None) -> tuple[str | TraceRef, np.ndarray]:
    if isinstance(trace, (str, os.PathLike, TraceRef)):
        named = TraceRef.parse(trace)
        return named, trace_figure.load(named, rows)
    values = contexts.check(np.asarray(trace), "array")
    if rows is not None and rows > len(values):
        raise InputError(f"the trace has {len(values):,} rows, but {rows:,} were requested")
    return "array", values


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _short(value: float) -> str:
    """Three decimals, or as many digits as fit into a column."""
    return f"{value:.3f}" if value < 1000.0 else f"{value:.4g}"


def _ordinal(rank: int) -> str:
    last = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{last}"

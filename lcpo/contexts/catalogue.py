"""Named traces, and what is known about a trace without generating it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from lcpo.contexts import generators, paper
from lcpo.contexts.generators import Switches


class Trace(NamedTuple):
    """A named trace."""

    help: str
    channels: int
    length: int | None
    """Number of rows; None: as many as requested."""
    make: Callable[[int], np.ndarray]
    """make(rows) -> [rows, channels]"""
    switches: Callable[[int], Switches] | None = None
    """switches(rows): its schedule, if it switches between recurring contexts."""
    names: tuple[str, ...] = ()
    """Names of the channels, if any."""
    time: tuple[str, ...] = ()
    """Time columns of a file, which are left out."""


PROBE = (6_000, 18_000, 1_200)
"""Rows of the probe of memory (docs/probes.md) in context A, in B, and back in A: whole rollouts of
40 and of 200 steps. A small network learns A, then B while it unlearns A, and shows which of them
it has. A is more than a fifth of the past until the end, so that it can be remembered."""


def _two_contexts_switches(rows: int) -> Switches:
    first, second, _ = PROBE
    start = np.array([0, first, first + second])
    schedule = Switches(start, np.array([0, 1, 0]), np.array([False, False, True]))
    return Switches(*(values[start < rows] for values in schedule))


def _two_contexts(rows: int) -> np.ndarray:
    schedule = _two_contexts_switches(rows)
    return generators.hold_levels(rows, schedule.start, 2.0 * schedule.context[:, None] - 1.0)


def _mixture(rows: int) -> np.ndarray:
    parts = (generators.ornstein_uhlenbeck, generators.sinusoids, generators.piecewise_gaussian)
    return generators.mixture(rows, [partial(part, seed=i) for i, part in enumerate(parts)], seed=0)


_synthetic = partial(partial, seed=0)
"""A generator with its default settings."""

TRACES: dict[str, Trace] = {
    "1": Trace("slow drift of the wind (paper)", 2, 20_000_000, paper.trace_1),
    "2": Trace("slow drift with wide swings (paper)", 2, 20_000_000, paper.trace_2),
    "3": Trace("piecewise constant wind with noise (paper)", 2, 8_000_000, paper.trace_3),
    "4": Trace("hand-crafted bursts of circling wind (paper)", 2, 8_000_000, paper.trace_4),
    "grid-world": Trace(
        "the grid world's trap, by episode (paper)", 2, 200_000, paper.trap_schedule
    ),
    "ou": Trace("Ornstein-Uhlenbeck drift", 2, None, _synthetic(generators.ornstein_uhlenbeck)),
    "piecewise": Trace(
        "constant winds, each for a while", 2, None, _synthetic(generators.piecewise_gaussian)
    ),
    "bursts": Trace("calm with bursts of circling wind", 2, None, _synthetic(generators.bursts)),
    "sinusoid": Trace("a sine per channel", 2, None, _synthetic(generators.sinusoids)),
    "iid": Trace("a new wind at every step", 2, None, _synthetic(generators.iid)),
    "markov": Trace("a Markov chain over three winds", 2, None, _synthetic(generators.markov)),
    "revisit": Trace(
        "three winds in rotation, 125,000 steps each", 2, None,
        _synthetic(generators.revisit), partial(generators.revisit_switches, seed=0),
    ),
    "turns-100": Trace(
        "contexts 0, 1 and 2 in rotation, 100 episodes each", 1, 300,
        partial(generators.turns, dwell=100),
    ),
    "turns-3": Trace(
        "contexts 0, 1 and 2 in rotation, 3 steps each", 1, None, partial(generators.turns, dwell=3)
    ),
    "two-contexts": Trace(
        "context -1, then 1, then -1 again, for the probe of memory", 1, sum(PROBE),
        _two_contexts, _two_contexts_switches,
    ),
    "mixture": Trace("drift, sines and steps, one after the other", 2, None, _mixture),
}  # fmt: skip

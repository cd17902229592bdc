"""Twins of the paper's two workloads, which are private: their published figure, digitised.

The rate and the mean size follow the figure (docs/workloads.md says how well it could be read).
The figure leaves open what we chose: arrivals are independent, the rate fluctuates, and sizes
are lognormal. Rate and mean size over time are the same for all seeds; a seed draws the jobs.
"""

from __future__ import annotations

import importlib.resources
from typing import NamedTuple

import numpy as np

from lcpo.contexts import generators
from lcpo.straggler.workloads.base import HOUR, SECOND, Profile
from lcpo.straggler.workloads.drawn import Poisson, lognormal

WINDOW = 10 * SECOND
MEMORY = 0.5 * HOUR  # in which the fluctuation of the rate forgets itself
CV = 2.0
"""Coefficient of variation of the sizes: a choice. The width of the figure's line hints at 6 or
more, if sizes are independent."""


class Event(NamedTuple):
    """Events that the figure's line width blurs, added by hand."""

    begin: float  # hours
    end: float
    peak: float  # jobs per second in the middle of a spike; 0: no jobs from begin to end


class Figure(NamedTuple):
    """What was read from the figure of a workload."""

    hours: np.ndarray  # [P]
    rate: np.ndarray  # [P, 3], jobs per second: lower edge of the line, middle, upper edge
    size: np.ndarray  # [P, 3], milliseconds


FLUCTUATION = {1: 0.07, 2: 0.18}
"""Standard deviation of the logarithm of the rate: draws a line about as wide as the figure's."""
EVENTS = {
    1: (Event(287.2, 289.2, 49.5), Event(320.5, 322.5, 51.2), Event(347.6, 349.6, 21.5)),
    2: (Event(391.55, 394.05, 190.0), Event(408.3, 410.2, 0.0), Event(476.25, 478.75, 197.0)),
}
BLUR = 1.5  # hours before and after an event in which the figure shows a part of it


def twin(number: int, cv: float = CV) -> Poisson:
    """Workload 1 or 2."""
    hours, rate, size = curves(number)
    num_windows = int((hours[-1] - hours[0]) * HOUR / WINDOW)
    time = hours[0] + (np.arange(num_windows) + 0.5) * WINDOW / HOUR
    std = FLUCTUATION[number]
    noise = generators.ornstein_uhlenbeck(
        num_windows, 1, std=std, relaxation=MEMORY / WINDOW, seed=number
    )[:, 0].astype(np.float64)
    jobs = np.interp(time, hours, rate) * np.exp(noise - 0.5 * std**2) * (WINDOW / SECOND)
    profile = Profile(WINDOW, jobs, np.interp(time, hours, size))
    return Poisson(f"workload-{number}", profile, lognormal(cv))


def curves(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hours, rate and mean size: the middle of the line, and the events as they were."""
    figure = read_figure(number)
    hours, rate, size = figure.hours, figure.rate[:, 1], figure.size[:, 1]
    for event in EVENTS[number]:
        clear = (hours < event.begin - BLUR) | (hours > event.end + BLUR)
        edges = [event.begin, event.end]
        beside = np.interp(edges, hours[clear], rate[clear])
        if event.peak:
            added, height = [edges[0], sum(edges) / 2, edges[1]], [beside[0], event.peak, beside[1]]
        else:  # at once: two points at one time
            added, height = np.repeat(edges, 2), [beside[0], 0.0, 0.0, beside[1]]
        sizes = np.interp(added, hours[clear], size[clear])
        place = int(np.searchsorted(hours[clear], event.begin))
        hours, rate, size = (
            np.insert(old[clear], place, new)
            for old, new in ((hours, added), (rate, height), (size, sizes))
        )
    return hours, rate, size


def read_figure(number: int) -> Figure:
    """Without its first point, in which the published moving average had hardly begun."""
    file = importlib.resources.files("lcpo.straggler") / "data" / f"workload-{number}.csv"
    with file.open("r") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=2)
    return Figure(table[:, 0], table[:, 1:4], table[:, 4:7])

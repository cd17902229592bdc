"""The loop, twice a second: look at every lane, let its controller decide, switch timeouts."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from examples.hedging.lanes import Lanes
from examples.hedging.observation import Observer
from examples.hedging.rules import Rule, Safety
from examples.hedging.seen import Window
from lcpo.straggler.task import NEVER, WINDOW_MS

PERIOD = WINDOW_MS / 1000.0


class Choice(NamedTuple):
    """An action, and who chose it."""

    action: int
    source: str


class Controller(Protocol):
    """Decides for one lane."""

    def decide(self, window: Window, obs: np.ndarray, reward: float, unsafe: bool) -> Choice: ...


@dataclasses.dataclass
class Ruled:
    """A rule as a controller."""

    rule: Rule

    def decide(self, window: Window, obs: np.ndarray, reward: float, unsafe: bool) -> Choice:
        action = self.rule.decide(window)
        return Choice(NEVER, "safety rule") if unsafe else Choice(action, "rule")


class Tick(NamedTuple):
    """What happened in a lane in one window, and what was decided after it."""

    time: float
    lane: str
    phase: str
    action: int
    source: str
    unsafe: bool
    arrived: int
    hedged: int
    p95: float
    longest: float
    work_ms: float
    first_ms: float


@dataclasses.dataclass
class Moment:
    """Something to do at a time."""

    time: float
    do: Callable[[], object]


class Phase(NamedTuple):
    """A part of the experiment, in seconds since 1970."""

    name: str
    begin: float
    end: float


def run(
    lanes: Lanes, observers: Mapping[str, Observer], controllers: Mapping[str, Controller],
    reward_ms: float, phases: Sequence[Phase], moments: Sequence[Moment],
    note: Callable[[list[Tick]], object],
) -> list[Tick]:  # fmt: skip
    """Control all lanes until the last phase is over. `note` receives the ticks so far."""
    ticks: list[Tick] = []
    safety = {name: Safety() for name in controllers}
    left = sorted(moments, key=lambda moment: moment.time)
    lanes.look()  # what was before is left out
    at = (int(time.time() / PERIOD) + 1) * PERIOD
    while at <= phases[-1].end:
        time.sleep(max(at - time.time(), 0.0))
        while left and left[0].time <= at:
            left.pop(0).do()
        windows, choices, unsafe = lanes.look(), {}, {}
        for name, window in windows.items():
            reward = observers[name].reward(window, reward_ms)
            obs = observers[name].observe(window)
            unsafe[name] = safety[name].holds(window)
            choices[name] = controllers[name].decide(window, obs, reward, unsafe[name])
        lanes.switch({name: choice.action for name, choice in choices.items()})
        phase = next((p.name for p in phases if p.begin <= at < p.end), "warm-up")
        for name, window in windows.items():
            ticks.append(_tick(at, name, phase, choices[name], unsafe[name], window))
        note(ticks)
        at = max(at + PERIOD, int(time.time() / PERIOD) * PERIOD)  # windows that were missed
    return ticks


def _tick(at: float, lane: str, phase: str, choice: Choice, unsafe: bool, window: Window) -> Tick:
    return Tick(
        at, lane, phase, choice.action, choice.source, unsafe, window.sizes.size, window.hedged,
        window.p95, float(window.queue.max()), window.work_ms, window.first_ms,
    )  # fmt: skip


def save(path: Path, ticks: Sequence[Tick]) -> None:
    """Ticks as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Tick._fields)
        writer.writerows(ticks)

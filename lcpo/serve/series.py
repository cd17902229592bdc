"""Columns over time for the status page: at most `BINS` bins, whose width grows with the time.

A bin is a second wide at first. When there are too many, two neighbors become one, until a bin is
`WIDEST` seconds wide. From then on the oldest are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lcpo.live.desk import FALLBACK, GUARD, INCUMBENT

BINS = 120
WIDEST = 64
MOST_OPEN = 100_000
"""Decisions whose source is remembered until their reward comes."""


@dataclasses.dataclass
class Bin:
    """Sums over a bin."""

    start: int
    rewards: dict[bool, list[float]] = dataclasses.field(
        default_factory=lambda: {True: [0, 0.0], False: [0, 0.0]}
    )
    """Number and sum, by whether the incumbent decided."""
    decisions: int = 0
    guard: int = 0
    fallback: int = 0
    updates: int = 0
    active: float = 0.0
    context: list[float] = dataclasses.field(default_factory=list)
    contexts: int = 0

    def add(self, other: Bin) -> None:
        """The sums of a later bin."""
        for who, (number, total) in other.rewards.items():
            self.rewards[who][0] += number
            self.rewards[who][1] += total
        for name in ("decisions", "guard", "fallback", "updates", "active", "contexts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        old = self.context or [0.0] * len(other.context)
        new = other.context or [0.0] * len(old)
        self.context = [a + b for a, b in zip(old, new, strict=True)]


class Series:
    """What happened, by time. One thread at a time adds to it."""

    def __init__(self) -> None:
        self._bins: list[Bin] = []
        self._width = 1
        self._sources: dict[int, bool] = {}

    def decided(self, time: float, number: int, source: str, context: Sequence[float]) -> None:
        """A decision, with its current context. A repeated one counts once."""
        if number in self._sources:
            return
        found = self._at(time)
        found.decisions += 1
        found.guard += source == GUARD
        found.fallback += source == FALLBACK
        if len(context):
            sums = found.context or [0.0] * len(context)
            found.context = [a + float(b) for a, b in zip(sums, context, strict=True)]
            found.contexts += 1
        self._sources[number] = source == INCUMBENT
        if len(self._sources) > MOST_OPEN:
            del self._sources[next(iter(self._sources))]

    def observed(self, time: float, number: int, reward: float) -> None:
        """A reward that was taken."""
        is_incumbents = self._sources.pop(number, None)
        if is_incumbents is not None:
            total = self._at(time).rewards[is_incumbents]
            total[0] += 1
            total[1] += reward

    def updated(self, time: float, metrics: Mapping[str, float]) -> None:
        """An update, with its metrics."""
        active = metrics.get("constraint_active")
        if active is not None:
            found = self._at(time)
            found.updates += 1
            found.active += active

    def to_json(self) -> dict[str, Any]:
        """Columns, the oldest bin first. Bins without anything are left out."""
        bins = list(self._bins)
        return {
            "start": [each.start for each in bins],
            "policy": [_mean(each.rewards[False]) for each in bins],
            "incumbent": [_mean(each.rewards[True]) for each in bins],
            "decisions": [each.decisions for each in bins],
            "guard": [each.guard / max(each.decisions, 1) for each in bins],
            "fallback": [each.fallback / max(each.decisions, 1) for each in bins],
            "active": [each.active / each.updates if each.updates else None for each in bins],
            "context": [[x / max(each.contexts, 1) for x in each.context] for each in bins],
        }

    def _at(self, time: float) -> Bin:
        """The bin of a moment; the newest one if the clock was set back."""
        start = int(time) - int(time) % self._width
        if self._bins and start <= self._bins[-1].start:
            return self._bins[-1]
        self._bins.append(Bin(start))
        while self._bins[-1].start - self._bins[0].start >= BINS * self._width:
            if self._width < WIDEST:
                self._merge()
            else:
                del self._bins[0]
        return self._bins[-1]

    def _merge(self) -> None:
        self._width *= 2
        merged: list[Bin] = []
        for each in self._bins:
            start = each.start - each.start % self._width
            if merged and merged[-1].start == start:
                merged[-1].add(each)
            else:
                each.start = start
                merged.append(each)
        self._bins = merged


def _mean(total: Sequence[float]) -> float | None:
    return total[1] / total[0] if total[0] else None

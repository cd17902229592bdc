"""The history of a search: its rounds, and what follows from them. Pure values.

A round runs new trials on the first level, and trials that did well one level higher. All that
happens next is a function of the rounds before, so a search that was killed continues as if it had
not been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Scores = tuple[float | None, ...]
"""The returns of a trial's runs on one level; None: a run failed."""


class Trial(NamedTuple):
    """Settings to try."""

    number: int
    agent: int
    """Its place in the list of agents."""
    settings: Mapping[str, Any]
    """What differs from the agent's defaults; empty: nothing does."""


class Entry(NamedTuple):
    """A trial on one level."""

    trial: int
    level: int


class Round(NamedTuple):
    """Trials that run together."""

    new: tuple[Trial, ...]
    entries: tuple[Entry, ...]
    scores: tuple[Scores, ...] = ()
    """Of each entry; empty: the round has not ended."""
    expected: float = 0.0
    """How many seconds it should take (`lcpo.study.costs`)."""
    seconds: float = 0.0
    """How many it took; without the time before an interruption."""

    @property
    def has_ended(self) -> bool:
        return bool(self.scores)


class History(NamedTuple):
    """The rounds of a search, and its baselines."""

    rounds: tuple[Round, ...] = ()
    baselines: Mapping[str, float] = {}
    """The return of each constant action on the first search data."""
    endless: bool = False
    """No episode ended in the first round: returns are mean rewards per step."""

    @property
    def trials(self) -> list[Trial]:
        """All trials, in order."""
        return [trial for one in self.rounds for trial in one.new]

    @property
    def ended(self) -> tuple[Round, ...]:
        return tuple(one for one in self.rounds if one.has_ended)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.ended)

    @property
    def slowness(self) -> float:
        """How many times longer rounds take than expected."""
        expected = sum(one.expected for one in self.ended)
        return self.seconds / expected if expected else 1.0

    def values(self, level: int) -> dict[int, float | None]:
        """The mean return of each trial on a level; None if a run failed."""
        return {
            entry.trial: mean(scores)
            for one in self.ended
            for entry, scores in zip(one.entries, one.scores, strict=True)
            if entry.level == level
        }

    @property
    def failed(self) -> set[int]:
        """The trials of which a run failed, on whichever level."""
        return {
            entry.trial
            for one in self.ended
            for entry, scores in zip(one.entries, one.scores, strict=True)
            if mean(scores) is None
        }

    def reached(self, trial: int) -> int:
        """The highest level on which a trial has ended; -1: none."""
        levels = [e.level for one in self.ended for e in one.entries if e.trial == trial]
        return max(levels, default=-1)


def mean(scores: Scores) -> float | None:
    """Over the runs of a trial. A failed run makes the trial the worst: None."""
    known = [x for x in scores if x is not None]
    return float(np.mean(known)) if len(known) == len(scores) else None


def order(value: float | None) -> float:
    """A key to sort by: failed trials are worse than all others."""
    return -np.inf if value is None else value


def to_json(history: History) -> dict[str, Any]:
    """Plain values."""
    rounds = [
        {
            "new": [[t.number, t.agent, dict(t.settings)] for t in one.new],
            "entries": [list(entry) for entry in one.entries],
            "scores": [list(scores) for scores in one.scores],
            "expected": one.expected,
            "seconds": one.seconds,
        }
        for one in history.rounds
    ]
    return {"rounds": rounds, "baselines": dict(history.baselines), "endless": history.endless}


def from_json(body: Mapping[str, Any]) -> History:
    """The inverse of `to_json`; TypeError, ValueError or KeyError for anything else."""
    rounds = [
        Round(
            tuple(Trial(int(n), int(a), dict(settings)) for n, a, settings in one["new"]),
            tuple(Entry(int(trial), int(level)) for trial, level in one["entries"]),
            tuple(_scores(scores) for scores in one["scores"]),
            float(one["expected"]),
            float(one["seconds"]),
        )
        for one in body["rounds"]
    ]
    baselines = {str(name): float(value) for name, value in body["baselines"].items()}
    return History(tuple(rounds), baselines, bool(body["endless"]))


def _scores(scores: Sequence[Any]) -> Scores:
    return tuple(None if x is None else float(x) for x in scores)

"""Successive halving: which trials run on, and how long a trial runs on each level.

    level 0    half of the steps, on half of the search data (pairs of a trace and a seed)
    level 1    all steps, on the same half
    level 2    all steps, on all of it

In every round, the best third of all trials on a level goes up, as in ASHA (Li et al., 2020), but
in rounds: what happens next depends on finished rounds only, never on which run ended first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lcpo.study.tune.history import Entry, History, order

SHORT = 2
"""A run on the first level has this fraction of the steps, 1 / SHORT."""
REDUCTION = 3
"""One trial in so many goes up."""
FEWEST_UPDATES = 10
"""A short run with fewer updates says nothing: then trials start with whole runs."""


class Level(NamedTuple):
    """How long the runs of a trial are, and how many there are."""

    steps: int
    pairs: int


def levels(steps: int, pairs: int, longest_rollout: int) -> tuple[Level, ...]:
    """The levels of a search; `longest_rollout`: steps of the longest update in it."""
    half, short = -(-pairs // 2), steps // SHORT
    found = [Level(short, half)] if short >= FEWEST_UPDATES * longest_rollout else []
    return tuple(dict.fromkeys([*found, Level(steps, half), Level(steps, pairs)]))


def promotions(history: History, num_levels: int) -> list[Entry]:
    """The trials that go up, each to its next level; defaults always do."""
    defaults = {trial.number for trial in history.trials if not trial.settings}
    found = []
    for level in reversed(range(num_levels - 1)):
        values, above = history.values(level), history.values(level + 1)
        up = _best(values) | (defaults & values.keys())
        found += [
            Entry(trial, level + 1)
            for trial in sorted(up)
            if trial not in above and values[trial] is not None
        ]
    return found


def _best(values: Mapping[int, float | None]) -> set[int]:
    """The best third of the trials on a level, at least one; of equal ones the first."""
    ranked = sorted(values, key=lambda trial: (-order(values[trial]), trial))
    return set(ranked[: max(1, len(ranked) // REDUCTION)])


def standings(history: History, num_levels: int) -> dict[int, int]:
    """The level on which each trial would stand if all trials had been known from the start.

    It is lower than the level that it reached, if later trials were better there.
    """
    found = dict.fromkeys(history.values(0), 0)
    for level in range(num_levels - 1):
        best = _best(history.values(level))
        above = history.values(level + 1).keys()
        found |= {n: level + 1 for n in above & best if found[n] == level}
    return found


def ranking(history: History, num_levels: int, agent: int | None = None) -> list[int]:
    """Trials, best first: by the highest level they have reached, then by their mean return there.

    Those that failed on any level are last. `agent`: only the trials of this one.
    """
    found: list[int] = []
    known = {t.number for t in history.trials if agent is None or t.agent == agent}
    failed = history.failed
    for level in reversed(range(num_levels)):
        values = history.values(level)
        here = [trial for trial in values if trial in known and trial not in found]
        found += sorted(here, key=lambda trial: (-order(values[trial]), trial))
    return sorted(found, key=lambda trial: trial in failed)

"""Nothing is lost: what the client has reported, compared with the log of the live agent."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lcpo.live.events import Observe
from lcpo.live.journal import decode
from lcpo.live.log import first_sequence, read


class Found(NamedTuple):
    """What the log holds of the outcomes that the server has acknowledged."""

    reported: int
    missing: list[int]
    twice: list[int]
    """Ids of decisions whose outcome stands in the log more than once."""
    different: list[int]
    """Ids of decisions with another reward."""
    unknown: list[int]
    """Outcomes that nobody has reported."""

    @property
    def is_exact(self) -> bool:
        """Every outcome stands in the log exactly once, and nothing else does."""
        return not (self.missing or self.twice or self.different or self.unknown)


def outcomes(agent: Path) -> list[tuple[int, float]]:
    """Decisions and rewards, in the order of the log."""
    first = first_sequence(agent / "log")
    entries = (decode(record) for record in read(agent / "log", first - 1))
    return [
        (entry.id, float(entry.reward))
        for entry in entries
        if isinstance(entry, Observe) and entry.reward is not None
    ]


def compare(reported: Mapping[int, float], logged: list[tuple[int, float]]) -> Found:
    """The differences between both."""
    counts = collections.Counter(number for number, _ in logged)
    rewards = dict(logged)
    both = reported.keys() & rewards.keys()
    return Found(
        len(reported),
        sorted(reported.keys() - rewards.keys()),
        sorted(number for number, count in counts.items() if count > 1),
        sorted(n for n in both if not np.isclose(reported[n], rewards[n], rtol=1e-6, atol=0.0)),
        sorted(rewards.keys() - reported.keys()),
    )

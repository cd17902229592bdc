"""Events of running jobs, which travel between processes as lines of JSON.

driver -> worker    job numbers, a share per line; `STOP`: save what runs, and end
worker -> driver    events, and `IDLE` after each share
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args


@dataclasses.dataclass(frozen=True)
class Progress:
    """A run has advanced."""

    job: str
    phase: str
    step: int
    """Steps of all phases of the run."""
    resumed_at: int
    """The step that this session began with."""
    mean_return: float
    """Mean return over the newest updates; NaN if no episode ended."""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    """Metrics of the newest updates: means, and sums over the episodes that ended."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A run has ended, and its results are on disk."""

    job: str


@dataclasses.dataclass(frozen=True)
class Failed:
    """A run has failed: it could no longer learn (`core.health`). It cannot be resumed."""

    job: str
    quantity: str
    value: str
    step: int
    """The step within its phase."""
    phase: str


@dataclasses.dataclass(frozen=True)
class Crashed:
    """A run stopped because its environment or its process failed. It can be resumed."""

    job: str
    reason: str
    """One line: what failed, and where in the user's code."""
    details: str = ""
    """The traceback, for a log; empty if no exception was raised."""
    no_space: bool = False
    """Whether the disk is full: no other run can continue either."""


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that the user should know; no run has stopped."""

    text: str


Event = Progress | Finished | Failed | Crashed | Note
Report = Callable[[Event], None]
"""Called with every event, in the process that waits for the runs."""

IDLE = {"event": "idle"}
"""A worker's line after it has run its share."""
STOP = b"stop\n"

_KINDS: dict[str, type[Event]] = {kind.__name__.lower(): kind for kind in get_args(Event)}


def to_json(event: Event) -> dict[str, Any]:
    """Plain values; `from_json(to_json(event)) == event`."""
    return {"event": type(event).__name__.lower(), **dataclasses.asdict(event)}


def from_json(values: Any) -> Event:
    """The event that `to_json` wrote; ValueError for anything else."""
    try:
        rest = {k: v for k, v in values.items() if k != "event"}
        return _KINDS[values["event"]](**rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{values!r} is not an event") from error

"""What is heard of runs while they run: typed events, which travel between processes as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Progress:
    """A run has come further."""

    job: str
    phase: str
    step: int
    """Of all phases of the run."""
    resumed_at: int
    """The step that this session began with."""
    mean_return: float
    """Over the newest updates; NaN where no episode ended."""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of the newest updates: the mean of each metric, sums over the episodes that ended."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A run has ended, and its results are on disk."""

    job: str


@dataclasses.dataclass(frozen=True)
class Failed:
    """A run has ended: it could not learn any more (`core.health`). It cannot be resumed."""

    job: str
    quantity: str
    value: str
    step: int
    """Of its phase."""
    phase: str


@dataclasses.dataclass(frozen=True)
class Crashed:
    """A run could not go on, because its environment or its process broke. It can be resumed."""

    job: str
    reason: str
    """One line: what broke, and where in the user's code."""
    details: str = ""
    """The traceback, for a log; empty where no exception was raised."""
    no_space: bool = False
    """Whether the disk is full: no other run can go on either."""


@dataclasses.dataclass(frozen=True)
class Note:
    """Something that the user should know; no run has stopped."""

    text: str


Event = Progress | Finished | Failed | Crashed | Note
Report = Callable[[Event], None]
"""Called with every event, in the process that waits for the runs."""

_KINDS: dict[str, type[Event]] = {
    "progress": Progress, "finished": Finished, "failed": Failed, "crashed": Crashed, "note": Note,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_json(event: Event) -> dict[str, Any]:
    """Plain values; `from_json(to_json(event)) == event`."""
    return {"event": _NAMES[type(event)], **dataclasses.asdict(event)}


def from_json(values: Any) -> Event:
    """The event that `to_json` wrote; ValueError for anything else."""
    try:
        rest = {k: v for k, v in values.items() if k != "event"}
        return _KINDS[values["event"]](**rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{values!r} is no event") from error

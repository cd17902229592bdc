"""What happens to a learner, as values: the same events in the same order make the same learner.

    See        a stream's observation before it acts, the successor of its previous step
    Decide     the decision that follows
    Observe    what a decision led to: its reward, its successor, or both
    Discard    decisions that will not be learned from
    End        a stream that leaves

`Learner.act` is See and Decide. A `Decide` holds the action and what else came from the policy, so
that a replay does not depend on how far learning had come when the action was chosen. Events hold
plain numbers and NumPy arrays, which a log can store. `time` is the caller's clock, in seconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class See(NamedTuple):
    """A stream's observation; a stream of a new name begins with it."""

    stream: str
    obs: Any
    context: Any = None
    time: float = 0.0


class Decide(NamedTuple):
    """The decision for what the stream saw last."""

    stream: str
    id: int
    """Decisions of a learner are numbered from 0."""
    action: np.ndarray
    probability: float | None
    policy_version: int
    source: str
    weight: float
    """0 if the policy must not learn from the step, because it did not draw the action."""
    extra: tuple[np.ndarray, ...] = ()
    """Leaves of what the agent's `act` returned besides the action."""
    time: float = 0.0
    key: str | None = None
    """The caller's own id of the call, which makes it repeatable."""
    trace: str | None = None
    """W3C `traceparent` of the call, for whoever reads the log."""


class Observe(NamedTuple):
    """What a decision led to; `Learner.observe` explains the fields."""

    id: int
    reward: Any = None
    next_obs: Any = None
    terminated: Any = False
    truncated: Any = False
    next_context: Any = None
    action: Any = None
    elapsed: Any = 1.0
    readings: Any = None
    time: float = 0.0
    trace: str | None = None
    """W3C `traceparent` of the call."""


class Discard(NamedTuple):
    """One decision, or all open decisions of a stream."""

    stream: str
    id: int | None = None
    time: float = 0.0


class End(NamedTuple):
    """A stream leaves, with the decisions that are still open."""

    stream: str
    time: float = 0.0


Event = See | Decide | Observe | Discard | End

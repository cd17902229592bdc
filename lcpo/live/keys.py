"""Keys that make `act` repeatable: the decisions that were made with one, by stream and key.

A caller that got no answer calls again with the same key and gets the same decision, also from
another process that has recovered the folder. The newest `KEPT` keys are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from lcpo import values
from lcpo.errors import Conflict
from lcpo.live.events import Decide, See

KEPT = 4096
LONGEST = 128
"""Characters of a key."""


class Kept(NamedTuple):
    """A decision that was made with a key."""

    id: int
    action: list[int] | list[float]
    probability: float | None
    policy_version: int
    source: str
    check: int
    """Checksum of what was observed."""


class Keys:
    """The newest keys. They change only with recorded events, like the rest of a `Desk`."""

    def __init__(self, kept: Iterable[Any] = ()) -> None:
        """`kept`: what `to_json` returned."""
        self._kept = {(stream, key): Kept(*rest) for stream, key, *rest in kept}

    def find(self, stream: str, key: str) -> Kept | None:
        """The decision of a key, if it is remembered."""
        return self._kept.get((stream, key))

    def repeated(self, see: See, key: str) -> Kept | None:
        """The decision for a call that may be a repetition; Conflict if it asks something else."""
        values.name("stream", see.stream)
        found = self._kept.get((see.stream, key))
        if found is not None and found.check != checksum(see):
            raise Conflict(
                f"key {values.shown(key)} was used before, with another observation: use a new key "
                "for every decision"
            )
        return found

    def keep(self, event: Decide, check: int) -> None:
        """Remember a decision that has a key."""
        assert event.key is not None
        action = np.atleast_1d(event.action).tolist()
        rest = (event.probability, event.policy_version, event.source, check)
        self._kept[event.stream, event.key] = Kept(event.id, action, *rest)
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    def to_json(self) -> list[list[Any]]:
        """Plain values, for a checkpoint, the oldest first."""
        return [[*names, *kept] for names, kept in self._kept.items()]


def checked(key: Any) -> str | None:
    """A key as a user gives it."""
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST or values.has_control(key):
        values.refuse("key", key, f"text of 1 to {LONGEST} characters, without control characters")
    return key


def checksum(see: See) -> int:
    """Of what a stream has observed, as the log stores it."""
    found = crc32(np.ascontiguousarray(values.reals("obs", see.obs)).tobytes())
    if see.context is None:
        return found
    return crc32(b"+" + np.ascontiguousarray(values.reals("context", see.context)).tobytes(), found)

"""What is in the log of a live agent: events of the learner, and of the service around it.

`encode` turns an event into the kind and payload of a record, `decode` a record into the event.
Arrays are stored in float32, as the learner uses them, so a replay sees the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.errors import InputError
from lcpo.live.events import Decide, Discard, End, Observe, See
from lcpo.live.records import Damage, Record, pack


class Choice(NamedTuple):
    """What the policy would have done, where it did not decide; it precedes the decision."""

    id: int
    action: list[int] | list[float]
    """The policy's action."""
    probability: float | None


class Mode(NamedTuple):
    """Another mode."""

    mode: str
    switchback: dict[str, Any] | None
    """The design, in switchback mode."""
    why: str
    time: float


class Rollback(NamedTuple):
    """The return of an earlier version."""

    version: int
    why: str
    time: float


class Learned(NamedTuple):
    """An update. For reports only: a replay learns by itself."""

    number: int
    """Updates so far, dropped ones included."""
    version: int
    metrics: dict[str, float]
    problem: str | None
    time: float


class Saved(NamedTuple):
    """A checkpoint of everything up to a sequence."""

    sequence: int
    digest: str
    """Of the learner's state."""
    time: float


class Opened(NamedTuple):
    """A process has opened the folder."""

    version: str
    """Of this library."""
    time: float


Entry = See | Decide | Observe | Discard | End | Choice | Mode | Rollback | Learned | Saved | Opened
_KINDS: tuple[type[Any], ...] = (
    See, Decide, Observe, Discard, End, Choice, Mode, Rollback, Learned, Saved, Opened,
)  # fmt: skip
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, start=1)}
_DEFAULTS = {
    kind: [(name in kind._field_defaults, kind._field_defaults.get(name)) for name in kind._fields]
    for kind in _KINDS
}
"""For each field, whether it may be left out, and its default value."""
_ARRAYS = {"obs", "context", "next_obs", "next_context", "readings"}
_EXTRA = "extra"


def number_of(kind: type[Any]) -> int:
    """The kind of the records of a class of entries."""
    return _NUMBERS[kind]


def encode(entry: Entry) -> tuple[int, bytes]:
    """Kind and payload of a record. Fields with their default value are left out."""
    plain: dict[str, Any] = {}
    fields: Any = entry
    for name, value, (is_optional, default) in zip(
        entry._fields, fields, _DEFAULTS[type(entry)], strict=True
    ):
        if is_optional and (value is None or value is default):
            continue
        if name in _ARRAYS:
            plain[name] = np.ascontiguousarray(values.reals(name, value))
        elif name == "action":
            plain[name] = np.atleast_1d(np.asarray(value)).tolist()
        elif name == _EXTRA:
            plain |= {f"{_EXTRA}{i}": np.ascontiguousarray(x) for i, x in enumerate(value)}
        else:
            plain[name] = values.plain(value)
    return _NUMBERS[type(entry)], pack(plain)


def decode(record: Record, action_dtype: Any = np.int32) -> Entry:
    """The entry of a record; InputError if it has none of this version."""
    try:
        kind, fields = _KINDS[record.kind - 1], record.values
        if kind is Decide:
            count = sum(name.startswith(_EXTRA) for name in fields)
            extra = tuple(fields.pop(f"{_EXTRA}{i}") for i in range(count))
            fields["action"] = np.asarray(fields["action"], action_dtype)
            return Decide(**fields, extra=extra)
        return kind(**fields)
    except (IndexError, KeyError, TypeError, Damage) as error:
        raise InputError(
            f"record {record.sequence} of the log cannot be read ({error}): use the version of "
            "lcpo that wrote it"
        ) from error

"""Context traces: arrays [rows, channels] that drive an environment, one row per step or episode.

A trace is named by a string, and the same string gives the same numbers everywhere:

    a name in `TRACES`      "1" .. "4" (the paper's), "revisit", "ou", "iid", ...
    family:KIND:SEED        a member of a family, e.g. family:drift:7 (`several`: family:drift:0..9)
    a file                  mine.npy, mine.csv, mine.parquet
    FILE[COLUMNS]           mine.csv[rate,size], or by number: mine.npy[1,3]
    any of these +repeat    begins again at its end; +hold: its last row stays
    any of these @FRACTION  3@1/20: trace 3, played 20 times as fast

`TraceRef.parse` reads such a string, once, where a user or a file gives it; everything else passes
the value on.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping

import numpy as np

from lcpo import values
from lcpo.contexts import columns
from lcpo.contexts.catalogue import TRACES, Trace
from lcpo.contexts.families import FAMILIES, members, ranges
from lcpo.contexts.generators import Switches
from lcpo.contexts.refs import HOLD, REPEAT, TraceRef, check
from lcpo.errors import InputError

__all__ = [
    "FAMILIES", "TRACES", "Switches", "Trace", "TraceRef", "Traces", "check", "compose", "get",
    "in_short", "several", "switches",
]  # fmt: skip
Traces = str | Iterable[str | os.PathLike[str] | TraceRef]
"""Several traces: in one text, separated by commas, or in a list."""
_NEED = "traces, separated by commas or in a list, and each once: 1,3 or family:revisit:0..9"


def get(
    trace: str | os.PathLike[str] | TraceRef, rows: int | None = None, scale: float = 1.0
) -> np.ndarray:
    """The rows of a trace: `TraceRef.make`."""
    return TraceRef.parse(trace).make(rows, scale)


def switches(trace: str | TraceRef, rows: int) -> Switches:
    """When a trace switches: `TraceRef.switches`."""
    return TraceRef.parse(trace).switches(rows)


def several(traces: Traces) -> list[TraceRef]:
    """The traces in "1,3,mine.csv[a,b]", or in a list; family:KIND:0..9 stands for ten of them."""
    if isinstance(traces, (bytes, Mapping)) or not isinstance(traces, Iterable):
        values.refuse("traces", traces, _NEED)
    words = filter(None, values.split("traces", traces)) if isinstance(traces, str) else traces
    refs = [TraceRef.parse(word) for word in words]
    found = [dataclasses.replace(ref, source=name) for ref in refs for name in members(ref.source)]
    if not found or len(set(found)) < len(found):
        values.refuse("traces", traces, _NEED)
    return found


def in_short(traces: Iterable[str], length: int = 80) -> str:
    """Several traces in one text, as `several` reads it; the first one, if it would be too long."""
    first, *rest = ranges(traces)
    text = ",".join([first, *rest])
    return text if len(text) <= length else f"{first} and {len(rest)} more"


def compose(
    trace: str | os.PathLike[str] | TraceRef,
    columns_of_file: str | None = None,
    *,
    repeat: bool = False,
    hold: bool = False,
) -> TraceRef:
    """Some columns of a file, or a trace that continues after its end."""
    found = TraceRef.parse(trace)
    if repeat and hold:
        raise InputError("--repeat and --hold: give only one of them")
    if columns_of_file is not None:
        if not found.is_file or found.columns is not None:
            raise InputError(f"columns of trace {found!r}: needs the path of a file")
        found = dataclasses.replace(found, columns=columns.read(columns_of_file))
    if not repeat and not hold:
        return found
    if found.any_length:
        raise InputError(f"trace {found!r} has no end: leave --repeat and --hold out")
    return dataclasses.replace(found, ending=REPEAT if repeat else HOLD)

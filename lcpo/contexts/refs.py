"""A trace by name, as a value: parsed once, where a user or a file names it.

    TraceRef.parse("mine.csv[rate]+repeat@1/20")
    TraceRef("mine.csv", ("rate",), "+repeat", Fraction(1, 20))

are equal. The value describes itself without making rows (`describe`, `shape`, `switches`,
`notes`), makes them (`make`), and keeps those that runs of this process share (`load`, `digest`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import weakref
from collections.abc import Hashable
from fractions import Fraction
from functools import partial

import numpy as np

from lcpo import values as plain_values
from lcpo.archives import digest
from lcpo.contexts import columns, families, files, fractions
from lcpo.contexts.catalogue import TRACES, Trace
from lcpo.contexts.clock import gap_note, read_clock
from lcpo.contexts.families import FAMILIES, FAMILY
from lcpo.contexts.generators import Switches
from lcpo.errors import InputError
from lcpo.names import unknown

REPEAT, HOLD = "+repeat", "+hold"
"""What comes after the end of a trace: it begins again, or its last row stays."""


@dataclasses.dataclass(frozen=True, repr=False)
class TraceRef:
    """Which trace, which columns of it, what comes after its end, and how fast it is played."""

    source: str
    """A name in `TRACES`, `family:KIND:SEED`, or the path of a file."""
    columns: tuple[str, ...] | None = None
    """Of a file, by name or by number from 1; None: all but the time."""
    ending: str = ""
    """`REPEAT`, `HOLD`, or nothing."""
    fraction: Fraction = fractions.WHOLE
    """Of its time, in which it is played."""
    written: str = dataclasses.field(default="", compare=False)
    """The fraction as it was written, such as 0.05: a stored run keeps the name that it has."""

    @classmethod
    def parse(cls, trace: str | os.PathLike[str] | TraceRef) -> TraceRef:
        """The trace that a text or a path names; InputError for anything else."""
        if isinstance(trace, TraceRef):
            return trace
        text = os.fspath(trace) if isinstance(trace, os.PathLike) else trace
        text, fraction, written = fractions.split(plain_values.name("trace", text))
        ends = [end for end in (REPEAT, HOLD) if text.endswith(end) and text != end]
        ending = ends[0] if ends else ""
        return cls(*columns.split(text.removesuffix(ending)), ending, fraction, written)

    def __str__(self) -> str:
        """As `parse` reads it."""
        chosen = "" if self.columns is None else f"[{','.join(self.columns)}]"
        faster = self.written or ("" if self.fraction == 1 else str(self.fraction))
        return f"{self.source}{chosen}{self.ending}{faster and fractions.SIGN}{faster}"

    def __repr__(self) -> str:
        """The text in quotes, as messages show it."""
        return repr(str(self))

    @property
    def whole(self) -> TraceRef:
        """The same trace at its own speed."""
        return dataclasses.replace(self, fraction=fractions.WHOLE, written="")

    def faster(self, fraction: Fraction) -> TraceRef:
        """The same trace in a fraction of the time that it takes now, reduced: 1/20, not 0.05."""
        return dataclasses.replace(self, fraction=self.fraction * fraction, written="")

    @property
    def family(self) -> str | None:
        """The kind of `family:KIND:SEED`; None for other traces."""
        return families.parse(self.source)[0] if self.source.startswith(FAMILY) else None

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        named = self.source in TRACES or self.source.startswith(FAMILY)
        return not named and files.is_file(self.source)

    @property
    def any_length(self) -> bool:
        """Whether it has as many rows as are asked for."""
        known = TRACES.get(self.source)
        endless = self.source.startswith(FAMILY) or (known is not None and known.length is None)
        return endless or bool(self.ending)

    def describe(self) -> Trace:
        """What is known of it without making it (a file is read)."""
        if self.fraction != 1:
            return _faster(self.whole.describe(), self.fraction)
        if self.ending:
            return _endless(dataclasses.replace(self, ending=""), self.ending)
        if self.columns is not None and not self.is_file:
            raise InputError(f"columns of trace {self}: needs the path of a file")
        if self.source in TRACES:
            return TRACES[self.source]
        if kind := self.family:
            schedule = partial(families.switches, self.source) if kind == "revisit" else None
            make = partial(families.make, self.source)
            return Trace(FAMILIES[kind], 2, None, make, schedule)
        if self.is_file:
            return _of_file(self)
        raise InputError(
            unknown("trace", str(self), TRACES)
            + " (or 'family:KIND:SEED', or a .npy, .csv or .parquet file)"
        )

    def notes(self) -> tuple[str, ...]:
        """What a user should know of a file: the columns that are left out, and gaps in time."""
        found: list[str] = []
        with contextlib.suppress(InputError):  # a missing file is reported where rows are needed
            if self.is_file and (time := self.describe().time):
                named = " and ".join(repr(column) for column in time)
                found.append(f"column {named} is the time, and left out; --columns chooses")
            if self.is_file and (clock := read_clock(self.source)):
                found += filter(None, [gap_note(clock, self.source)])
        return tuple(f"{self}: {note}" for note in found)

    @property
    def has_switches(self) -> bool:
        """Whether it has a schedule of switches between contexts."""
        return not self.is_file and self.describe().switches is not None

    def switches(self, rows: int) -> Switches:
        """When it switches, to which context, and whether that has held before."""
        schedule, rows = self.describe().switches, plain_values.whole("rows", rows)
        if schedule is None:
            known = ", ".join(repr(n) for n, t in TRACES.items() if t.switches)
            raise InputError(
                f"trace {self!r} has no switching schedule: use {known} or 'family:revisit:SEED'"
            )
        return schedule(rows)

    def shape(self, rows: int | None = None, scale: float = 1.0) -> tuple[int, int]:
        """Rows and channels of what `load` would give. A file is loaded for it, and checked."""
        if self.is_file:
            found = self.load(rows, scale)
            return found.shape[0], found.shape[1]
        trace = self.describe()
        return self._num_rows(trace, rows), trace.channels

    def make(self, rows: int | None = None, scale: float = 1.0) -> np.ndarray:
        """Its rows, checked: at least `rows` of them (all where None), float32.

        A trace of fixed length is returned whole; one of any length has exactly `rows`. `scale`
        multiplies every entry: the wind scale of an environment.
        """
        scale, trace = plain_values.number("scale", scale), self.describe()
        length = self._num_rows(trace, rows)
        try:
            values = check(trace.make(length), str(self))
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
                values = values if scale == 1.0 else values * np.float32(scale)
        except MemoryError as error:
            raise InputError(f"trace {self!r}: {length:,} rows do not fit into memory") from error
        if not np.isfinite([values.min(), values.max()]).all():
            raise InputError(
                f"trace {self!r} times {scale:g} is not finite in float32: give a smaller scale"
            )
        return values

    def load(self, rows: int | None = None, scale: float = 1.0) -> np.ndarray:
        """What `make` gives, shared and read-only.

        The last trace that was loaded is kept, and every one that is in use.
        """
        return _shared.find(self, rows, scale)[0]

    def digest(self, rows: int | None, scale: float) -> str:
        """The fingerprint of what `load` gives."""
        return _shared.digest(self, rows, scale)

    def file_digest(self, rows: int | None, scale: float) -> str | None:
        """The fingerprint of a file, whose rows may change; None: it is not a file."""
        return self.digest(rows, scale) if self.is_file else None

    def _num_rows(self, trace: Trace, rows: int | None) -> int:
        """How many rows a run gets that needs `rows` of them."""
        rows = None if rows is None else plain_values.whole("rows", rows)
        if trace.length is None:
            if rows is None:
                raise InputError(
                    f"trace {self!r} can have any length: give the number of steps to run (--steps)"
                )
            return rows
        if rows is not None and rows > trace.length:
            raise InputError(
                f"trace {self!r} has {trace.length:,} rows, the run needs {rows:,}: "
                "run fewer steps, use a longer trace, or say what comes after its end: --repeat "
                "(it begins again), --hold (its last row stays)"
            )
        return trace.length


class _Shared:
    """The rows that runs of this process share, and their digests."""

    def __init__(self) -> None:
        self.in_use: weakref.WeakValueDictionary[Hashable, np.ndarray]
        self.in_use = weakref.WeakValueDictionary()
        self.last: np.ndarray | None = None
        self.digests: dict[Hashable, str] = {}

    def find(self, trace: TraceRef, rows: int | None, scale: float) -> tuple[np.ndarray, Hashable]:
        """The rows, and the key that they are kept by; a file that has changed gets a new one."""
        key = (trace, rows, scale, files.stamp(trace.source) if trace.is_file else None)
        found = self.in_use.get(key)
        if found is None:
            found = self.in_use[key] = trace.make(rows, scale)
            found.flags.writeable = False
            self.digests.pop(key, None)
        self.last = found
        return found, key

    def digest(self, trace: TraceRef, rows: int | None, scale: float) -> str:
        """Taken once as long as the rows are in use: all of their runs ask for it."""
        found, key = self.find(trace, rows, scale)
        if key not in self.digests:
            self.digests[key] = digest(found)
        return self.digests[key]


_shared = _Shared()


_files: dict[Hashable, Trace] = {}
"""By file, columns, and when it was written: planning a run asks several times."""


def _of_file(trace: TraceRef) -> Trace:
    """The trace in a file. The first call reads it, and what it returns makes no second read."""
    file = trace.source
    wanted = None if trace.columns is None else tuple(column.strip() for column in trace.columns)
    key = (file, wanted, files.stamp(file))
    if key in _files:
        return _files[key]
    content = files.read(file, wanted)
    rows, channels = content.values.shape

    def read_again(rows: int) -> np.ndarray:
        return files.read(file, wanted).values

    help = f"the file {trace}"
    found = Trace(help, channels, rows, read_again, None, content.names, content.time)
    _files[key] = found
    return found._replace(make=lambda rows: content.values)


def _endless(trace: TraceRef, ending: str) -> Trace:
    """A trace that continues after its end."""
    found = trace.describe()
    length = found.length
    if length is None:
        raise InputError(f"trace {trace!r} has no end: leave {ending} out")

    def make(rows: int) -> np.ndarray:
        values, places = found.make(length), np.arange(rows)
        if ending == REPEAT:
            return values[places % length]
        return values[np.minimum(places, length - 1)]

    return found._replace(length=None, make=make, switches=None)


def _faster(trace: Trace, fraction: Fraction) -> Trace:
    """A trace that is played in a fraction of its time."""
    length = None if trace.length is None else int(trace.length * fraction)
    if length == 0:
        raise InputError(f"a trace of {trace.length:,} rows has none at {fraction} of its time")
    schedule = trace.switches

    def make(rows: int) -> np.ndarray:
        whole = fractions.rows_before(rows, fraction) if trace.length is None else trace.length
        return fractions.take(trace.make(whole), rows, fraction)

    def switches(rows: int) -> Switches:
        assert schedule is not None
        whole = schedule(fractions.rows_before(rows, fraction))
        return fractions.take_switches(whole, rows, fraction)

    help = f"{trace.help}, in {fraction} of the time"
    return trace._replace(
        help=help, length=length, make=make, switches=switches if schedule else None
    )


def check(values: np.ndarray, name: str) -> np.ndarray:
    """Raise InputError unless `values` is a usable trace; returns it as float32."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(f"trace {name!r} holds {kind}: needs an array of real numbers")
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"trace {name!r} has shape {values.shape}: needs [rows, channels]")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
        found = np.ascontiguousarray(values, np.float32)
    finite = np.isfinite(found)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"trace {name!r}: row {row + 1}, column {column + 1} (counted from 1) is "
            f"{values[row, column]}: every entry must be finite in float32"
        )
    return found

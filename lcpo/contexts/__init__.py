"""Context traces: arrays [rows, channels] that drive an environment, one row per step or episode.

A trace is named by a string, and the same string gives the same numbers everywhere:

    a name in `TRACES`      "1" .. "4" (the paper's), "revisit", "ou", "iid", ...
    family:KIND:SEED        a member of a family, e.g. family:drift:7
    a file                  mine.npy, mine.csv, mine.parquet
    FILE[COLUMNS]           mine.csv[rate,size], or by number: mine.npy[1,3]
    any of these +repeat    begins again at its end; +hold: its last row stays
    any of these @FRACTION  3@1/20: trace 3, played 20 times as fast
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lcpo import values as plain_values
from lcpo.contexts import columns, ends, families, files, fractions, generators, paper, probe
from lcpo.contexts.families import FAMILIES
from lcpo.contexts.generators import Switches
from lcpo.errors import InputError
from lcpo.names import unknown

__all__ = [
    "FAMILIES", "TRACES", "Switches", "Trace", "any_length", "check", "compose", "describe", "get",
    "has_switches", "is_file", "name_of", "shape", "stamp", "switches",
]  # fmt: skip


class Trace(NamedTuple):
    """A named trace."""

    help: str
    channels: int
    length: int | None
    """Rows it has; None: as many as are asked for."""
    make: Callable[[int], np.ndarray]
    """make(rows) -> [rows, channels]"""
    switches: Callable[[int], Switches] | None = None
    """switches(rows): its schedule, where it switches between contexts and comes back to them."""
    names: tuple[str, ...] = ()
    """Of the channels, where they have any."""
    time: tuple[str, ...] = ()
    """Columns of a file that are left out because they are the time."""


def _synthetic(generator: Callable[..., np.ndarray], **arguments: Any) -> Callable:
    return partial(generator, seed=0, **arguments)


def _mixture(rows: int) -> np.ndarray:
    parts = (generators.ornstein_uhlenbeck, generators.sinusoids, generators.piecewise_gaussian)
    return generators.mixture(rows, [partial(part, seed=i) for i, part in enumerate(parts)], seed=0)


TRACES: dict[str, Trace] = {
    "1": Trace("slow drift of the wind (paper)", 2, 20_000_000, paper.trace_1),
    "2": Trace("slow drift with wide swings (paper)", 2, 20_000_000, paper.trace_2),
    "3": Trace("piecewise constant wind with noise (paper)", 2, 8_000_000, paper.trace_3),
    "4": Trace("hand-crafted bursts of circling wind (paper)", 2, 8_000_000, paper.trace_4),
    "grid-world": Trace(
        "the grid world's trap, by episode (paper)", 2, 200_000, paper.trap_schedule
    ),
    "ou": Trace("Ornstein-Uhlenbeck drift", 2, None, _synthetic(generators.ornstein_uhlenbeck)),
    "piecewise": Trace(
        "a new constant wind now and then", 2, None, _synthetic(generators.piecewise_gaussian)
    ),
    "bursts": Trace("calm with bursts of circling wind", 2, None, _synthetic(generators.bursts)),
    "sinusoid": Trace("a sine per channel", 2, None, _synthetic(generators.sinusoids)),
    "iid": Trace("a new wind at every step", 2, None, _synthetic(generators.iid)),
    "markov": Trace("a Markov chain over three winds", 2, None, _synthetic(generators.markov)),
    "revisit": Trace(
        "three winds that take turns, 125,000 steps each", 2, None,
        _synthetic(generators.revisit), partial(generators.revisit_switches, seed=0),
    ),
    "turns-100": Trace(
        "contexts 0, 1 and 2 take turns, 100 episodes each", 1, 300,
        partial(generators.turns, dwell=100),
    ),
    "turns-3": Trace(
        "contexts 0, 1 and 2 take turns, 3 steps each", 1, None, partial(generators.turns, dwell=3)
    ),
    "two-contexts": Trace(
        "context -1, then 1, then -1 again, for the probe of memory", 1, probe.NUM_ROWS,
        probe.two_contexts, probe.two_contexts_switches,
    ),
    "mixture": Trace("drift, sines and steps by turns", 2, None, _mixture),
}  # fmt: skip


def name_of(trace: Any) -> str:
    """A trace's name, or the path of its file as text; InputError for anything else."""
    text = os.fspath(trace) if isinstance(trace, os.PathLike) else trace
    return plain_values.name("trace", text)


def compose(
    name: Any, columns_of_file: str | None = None, *, repeat: bool = False, hold: bool = False
) -> str:
    """The name of a trace of some columns of a file, or of one that goes on after its end."""
    text = name_of(name)
    if repeat and hold:
        raise InputError("--repeat and --hold: give one of them")
    base, fraction = fractions.split(text)
    if columns_of_file is not None:
        if not is_file(base) or columns.split(base)[1] is not None:
            raise InputError(f"columns of trace {text!r}: needs the path of a file")
        base = columns.join(base, columns_of_file)
    if (repeat or hold) and any_length(base):
        raise InputError(f"trace {text!r} has no end: leave --repeat and --hold out")
    base += ends.REPEAT if repeat else ends.HOLD if hold else ""
    return fractions.join(base, fraction)


def describe(name: str) -> Trace:
    """What is known of the trace called `name` without making it (a file is read)."""
    name, fraction = fractions.split(name_of(name))
    if fraction != 1:
        return _faster(describe(name), fraction)
    name, ending = ends.split(name)
    if ending:
        return _endless(describe(name), ending, name)
    if name in TRACES:
        return TRACES[name]
    if name.startswith("family:"):
        kind, _ = families.parse(name)
        schedule = partial(families.switches, name) if kind == "revisit" else None
        return Trace(FAMILIES[kind], 2, None, partial(families.make, name), schedule)
    file, wanted = columns.split(name)
    if files.is_file(file):
        found = _read_file(file, wanted, files.stamp(file))
        length, channels = found.values.shape
        return Trace(f"the file {name}", channels, length, lambda rows: found.values,
                     names=found.names, time=found.time)  # fmt: skip
    raise InputError(
        unknown("trace", name, TRACES)
        + " (or 'family:KIND:SEED', or a .npy, .csv or .parquet file)"
    )


@functools.lru_cache(maxsize=1)
def _read_file(
    file: str, wanted: tuple[str, ...] | None, stamp: tuple[int, int] | None
) -> files.Content:
    """The last one is kept: who plans a run asks for its length, its names and its rows."""
    del stamp  # another one means another content
    return files.read(file, wanted)


def _endless(trace: Trace, ending: str, name: str) -> Trace:
    """A trace that goes on after its end."""
    length = trace.length
    if length is None:
        raise InputError(f"trace {name!r} has no end: leave {ending} out")

    def make(rows: int) -> np.ndarray:
        return ends.extend(trace.make(length), rows, ending)

    return trace._replace(length=None, make=make, switches=None)


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


def any_length(name: str) -> bool:
    """Whether the trace called `name` has as many rows as are asked for."""
    name, ending = ends.split(fractions.split(name)[0])
    any_number = name.startswith("family:") or (name in TRACES and TRACES[name].length is None)
    return bool(ending) or any_number


def is_file(name: str) -> bool:
    """Whether the trace called `name` is a file."""
    name = _base(name)
    return name not in TRACES and not name.startswith("family:") and files.is_file(name)


def has_switches(name: str | None) -> bool:
    """Whether the trace called `name` has a schedule; None, of an environment without one: no."""
    return name is not None and not is_file(name) and describe(name).switches is not None


def _base(name: str) -> str:
    """The trace or file in a name, without columns, ending and fraction."""
    return columns.split(ends.split(fractions.split(name)[0])[0])[0]


def stamp(name: str) -> tuple[int, int] | None:
    """Of a file: when it was last written, and its size, which tell whether to read it again."""
    return files.stamp(_base(name)) if is_file(name) else None


def shape(name: str, rows: int | None = None) -> tuple[int, int]:
    """Rows and channels of what `get` would give, which is not made for it (a file is read)."""
    trace = describe(name)
    return _num_rows(trace, name, rows), trace.channels


def get(name: str | os.PathLike[str], rows: int | None = None, scale: float = 1.0) -> np.ndarray:
    """The trace called `name`, checked: at least `rows` rows (all of them where None), float32.

    A trace of fixed length is returned whole; one of any length has exactly `rows`. `scale`
    multiplies every entry: the wind scale of an environment.
    """
    name, scale = name_of(name), plain_values.number("scale", scale)
    trace = describe(name)
    length = _num_rows(trace, name, rows)
    try:
        values = check(trace.make(length), name)
        return values if scale == 1.0 else _scaled(values, scale, name)
    except MemoryError as error:
        raise InputError(f"trace {name!r}: {length:,} rows do not fit into memory") from error


def _scaled(values: np.ndarray, scale: float, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, and is told
        scaled = values * np.float32(scale)
    largest = max(abs(float(scaled.min())), abs(float(scaled.max())))
    if not np.isfinite(largest):
        raise InputError(
            f"trace {name!r} times {scale:g} is not finite in float32: give a smaller scale"
        )
    return scaled


def _num_rows(trace: Trace, name: str, rows: int | None) -> int:
    """How many rows a run gets that needs `rows` of them."""
    rows = None if rows is None else plain_values.whole("rows", rows)
    if trace.length is None:
        if rows is None:
            raise InputError(f"trace {name!r} can have any length: say how many steps to run")
        return rows
    if rows is not None and rows > trace.length:
        raise InputError(
            f"trace {name!r} has {trace.length:,} rows, the run needs {rows:,}: "
            "run fewer steps, use a longer trace, or say what comes after its end: --repeat (it "
            "begins again), --hold (its last row stays)"
        )
    return trace.length


def check(values: np.ndarray, name: str) -> np.ndarray:
    """Raise InputError unless `values` is a usable trace; returns it as float32."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise InputError(f"trace {name!r} holds {kind}: needs an array of real numbers")
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"trace {name!r} has shape {values.shape}: needs [rows, channels]")
    size = generators.BLOCK
    for start in range(0, len(values), size):
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf, and is told
            block = np.asarray(values[start : start + size], np.float32)
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, column = bad[0, 0] + start, bad[0, 1]
            raise InputError(
                f"trace {name!r}: row {row + 1}, column {column + 1} (counted from 1) is "
                f"{values[row, column]}: every entry must be finite in float32"
            )
    return np.ascontiguousarray(values, np.float32)


def switches(name: str, rows: int) -> Switches:
    """When the trace called `name` switches, to which context, and whether it has held before."""
    trace, rows = describe(name), plain_values.whole("rows", rows)
    if trace.switches is None:
        known = ", ".join(repr(n) for n, t in TRACES.items() if t.switches)
        raise InputError(
            f"trace {name!r} has no switching schedule: use {known} or 'family:revisit:SEED'"
        )
    return trace.switches(rows)

"""Reads and checks the file format for results of other code (docs/import.md)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.check import RESERVED, RESERVED_STARTS

FORMAT = "lcpo-import 1"
NEEDED = ("agent", "env", "trace", "seed", "step", "return")
ABOUT = (
    "format", "code", "commit", "command", "device", "date", "versions", "note", "steps", "epoch",
    "scale", "env_config",
)  # fmt: skip
"""Names of lines above the table; the first two are required."""
DEFAULT_EPOCH = 200


class Key(NamedTuple):
    """What identifies a run."""

    agent: str
    env: str
    trace: str
    """Empty: the environment makes its own context."""
    seed: int


class Rows(NamedTuple):
    """The lines of one run, column by column."""

    step: list[int]
    value: list[float]
    """Mean return of the episodes; NaN if none ended."""
    episodes: list[float]
    metrics: dict[str, list[float]]


class File(NamedTuple):
    """A parsed file."""

    about: dict[str, str]
    """The lines above the table."""
    epoch: int
    steps: int | None
    """Steps of a run; None: up to its last row."""
    runs: dict[Key, Rows]


def parse(content: bytes, where: str) -> File:
    """Read the content of a file; InputError names the line of a mistake."""
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 text: save it as CSV in UTF-8") from error
    first = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    about = _about(lines[:first], where)
    epoch, steps = (
        whole(about, name, f"{where}, '# {name}'") if name in about else None
        for name in ("epoch", "steps")
    )
    groups: dict[Key, Rows] = {}
    for key, at, row, metrics in _rows(lines[first:], first, where):
        mine = groups.setdefault(key, Rows([], [], [], {name: [] for name in metrics}))
        step = whole(row, "step", at)
        if mine.step and step < mine.step[-1]:
            after = f"step = {step} after {mine.step[-1]} of the same run"
            raise InputError(f"{at}: {after}: sort the rows of each run by step")
        if steps is not None and step > steps:
            raise InputError(
                f"{at}: step = {step} is beyond the {steps} steps in the file's header"
            )
        mine.step.append(step)
        mine.value.append(math.nan if row["return"] == "" else finite(row, "return", at))
        mine.episodes.append(float(whole(row, "episodes", at)) if row.get("episodes") else 1.0)
        for name in metrics:
            low = 0.0 if name == "seconds" else -plain_values.FLOAT_MAX
            mine.metrics[name].append(finite(row, name, at, low))
    if not groups:
        raise InputError(f"{where} has no rows below its header")
    return File(about, epoch or DEFAULT_EPOCH, steps, groups)


def _about(lines: list[str], where: str) -> dict[str, str]:
    """`# name: value`, line by line."""
    about: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        name, colon, value = line.removeprefix("#").partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not value:
            raise InputError(f"{where}, line {number}: needs '# name: value', got {line[:80]!r}")
        if name not in ABOUT:
            raise InputError(f"{where}, line {number}: {unknown('name', name, ABOUT)}")
        if name in about:
            raise InputError(f"{where}, line {number}: {name} is given twice")
        about[name] = value
    if about.get("format") != FORMAT:
        found = f"{about['format']!r}" if "format" in about else "no such line"
        raise InputError(f"{where} must begin with '# format: {FORMAT}', it has {found}: "
                         "docs/import.md describes the format")  # fmt: skip
    if "code" not in about:
        raise InputError(f"{where} does not name the code that made it: add '# code: NAME or URL'")
    return about


def _rows(
    lines: list[str], first: int, where: str
) -> Iterator[tuple[Key, str, dict[str, str], list[str]]]:
    """Yields each line's run, position, cells by name, and names of metrics."""
    reader = csv.reader(io.StringIO("\n".join(lines)), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        metrics = _check_header(header, f"{where}, line {first + 1}")
        for cells in reader:
            at = f"{where}, line {first + reader.line_num}"
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(f"{at}: {len(cells)} cells, the header has {len(header)}")
            row = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            for name in ("agent", "env"):
                if not row[name]:
                    raise InputError(f"{at}: {name} is empty: give a name")
            seed = whole(row, "seed", at, 0)
            yield Key(row["agent"], row["env"], row["trace"], seed), at, row, metrics
    except csv.Error as error:
        raise InputError(
            f"{where}, line {first + reader.line_num}: not valid CSV ({error})"
        ) from error


def _check_header(header: list[str], at: str) -> list[str]:
    """Returns the names of its metrics."""
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise InputError(f"{at}: the header has no {', '.join(missing)}: needs {', '.join(NEEDED)}")
    if len(set(header)) < len(header):
        raise InputError(f"{at}: the header names a column twice")
    more = [name for name in header if name not in (*NEEDED, "episodes", "reward")]
    for name in more:
        reserved = name in RESERVED or name.startswith(RESERVED_STARTS)
        if reserved or not name.isidentifier():
            raise InputError(f"{at}: a metric cannot be called {name[:80]!r}: choose another name")
    return [*more, *(["reward"] if "reward" in header else [])]


def whole(row: Mapping[str, str], name: str, at: str, low: int = 1) -> int:
    """A cell with an integer of at least `low`."""
    text = row[name]
    value = float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else text
    return plain_values.whole(f"{at}: {name}", value, low)


def finite(
    row: Mapping[str, str], name: str, at: str, low: float = -plain_values.FLOAT_MAX
) -> float:
    """A cell with a finite number of at least `low`."""
    try:
        return plain_values.number(f"{at}: {name}", float(row[name]), low)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        need = ", or an empty cell if no episode ended" if name == "return" else ""
        raise InputError(f"{at}: {name} = {row[name][:80]!r}: needs a number{need}") from error

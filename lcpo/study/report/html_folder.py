"""The content of a folder of results, as plain values for a page. Nothing it names is imported."""

from __future__ import annotations

import base64
import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store import layout
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import load_outcome
from lcpo.study.report import document, earlier
from lcpo.study.report.document import REPORT, Tables
from lcpo.study.report.output import MADE, SEEDS, read_made, written_by
from lcpo.study.report.tables import Table

LARGEST = 2**25
"""Bytes of a table or figure: browsers struggle with larger pages."""
PICTURES = {"svg": ("image/svg+xml", b"<svg"), "png": ("image/png", b"\x89PNG")}
"""By suffix, in order of preference: media type, and a mark in the first bytes."""


class PageRun(NamedTuple):
    """A run that was planned or has ended."""

    job: Job
    status: str
    seconds: float | None = None
    provenance: Mapping[str, Any] = {}


class PageFigure(NamedTuple):
    """A figure of a page."""

    address: str
    """A data URL."""
    heading: str
    caption: str


class Folder(NamedTuple):
    """The content of a page."""

    path: Path
    made: dict[str, Any]
    """made.json; empty if there is none."""
    tables: Mapping[str, Table]
    """By name; the main table comes first."""
    figures: dict[str, PageFigure]
    seeds: Table | None
    """The numbers of every run."""
    runs: list[PageRun]


def read_folder(path: Path) -> Folder:
    """Read a folder; InputError if it is damaged or holds no results."""
    check(path)
    tables, seeds, words = _tables(path)
    order = sorted(tables, key=lambda name: (name != "table", name))
    tables = {name: tables[name] for name in order}
    figures = {
        name: PageFigure(address, *words.get(name, (_heading(name), "")))
        for name, address in _figures(path).items()
    }
    return Folder(path, read_made(path), tables, figures, seeds, _runs(path))


def _heading(name: str) -> str:
    """Of a figure that does not say what it shows."""
    return {"curves": "Learning curves"}.get(name, name.replace("-", " ").capitalize())


def needs_tables(path: Path) -> bool:
    """Whether to make tables from the runs: there are none, or `lcpo report` made them.

    Those of a study or comparison are kept.
    """
    return written_by(read_made(path)) == "lcpo report" or not _tables(path).tables


def check(path: Path) -> None:
    """Raise InputError unless a folder holds results."""
    try:
        if not path.is_dir():
            raise InputError(f"{path} is not a folder: give the folder of a study or of runs")
        ours = (path / MADE, layout.plan_file(path), layout.runs_folder(path))
        if any(os.path.lexists(file) for file in ours):
            return
        inner = sorted(file.parent.name for file in path.glob(f"*/{MADE}"))
    except OSError as error:  # a name too long
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    hint = "give the folder that `lcpo reproduce`, `compare`, `train` or `import` wrote"
    if inner:
        more = ", ..." if len(inner) > 4 else ""
        hint = f"give one of the folders in it: {', '.join(inner[:4])}{more}"
    raise InputError(f"{path} holds no results (neither {MADE}, nor plan.json, nor runs/): {hint}")


def _tables(path: Path) -> Tables:
    """The tables of report.json, or, in a folder of an earlier version, of NAME.md or NAME.csv."""
    if os.path.lexists(path / REPORT):
        return document.read(_file(path, REPORT))
    found = {}
    for file in path.glob("*.md"):
        table = earlier.read_markdown(_text(path, file.name))
        if table is not None:
            found[file.stem] = table
    for file in path.glob("*.csv"):
        if file.name == SEEDS or not file.with_suffix(".md").exists():
            try:
                found[file.stem] = earlier.read_csv(_text(path, file.name))
            except csv.Error as error:
                raise InputError(f"{file} is damaged or not a CSV file ({error})") from error
    return Tables(found, found.pop(Path(SEEDS).stem, None))


def _figures(path: Path) -> dict[str, str]:
    """NAME.svg, or else NAME.png, as data URLs.

    Images, not elements of the page: an image runs no script, loads nothing, and shares no ids.
    """
    found = {}
    for suffix, (kind, mark) in PICTURES.items():
        for file in sorted(path.glob(f"*.{suffix}")):
            if file.stem in found:
                continue
            content = _bytes(path, file.name)
            if mark not in content[:1000]:
                raise InputError(f"{file} is damaged or not {suffix.upper()}")
            found[file.stem] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return dict(sorted(found.items()))


def _runs(path: Path) -> list[PageRun]:
    """In the order of the plan, including planned runs that have not ended."""
    found = {job.name: PageRun(job, "not ended") for job in planned_jobs(path)}
    for files in layout.ended_runs(path):
        outcome = load_outcome(files)
        assert outcome is not None, "its manifest was found"
        job, status, failure = outcome["job"], outcome["status"], outcome.get("failure")
        if isinstance(failure, dict):
            failure = ", ".join(f"{name} {value}" for name, value in failure.items())
        status += f": {failure}" if failure else ""
        found[job.name] = PageRun(job, status, outcome["seconds"], outcome["provenance"])
    return list(found.values())


def _text(path: Path, name: str) -> str:
    try:
        return _bytes(path, name).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path / name} is damaged: it is not UTF-8 text") from error


def _bytes(path: Path, name: str) -> bytes:
    file = _file(path, name)
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error


def _file(path: Path, name: str) -> Path:
    """A file of the folder. A link out of it is refused: a page may be shared."""
    file = path / name
    layout.check_links(path, file)
    if not file.is_file():
        raise InputError(f"{file} is not a regular file")
    if file.stat().st_size > LARGEST:
        raise InputError(f"{file} is larger than {LARGEST:,} bytes: too much for a page")
    return file

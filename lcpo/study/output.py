"""The files of a report: tables, figures, the runs behind them, and how they were made."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import InputError
from lcpo.run.plan.check import check_folder
from lcpo.run.store.files import load_json, save_bytes, save_json
from lcpo.run.store.provenance import provenance
from lcpo.run.store.results import Result
from lcpo.study import tables
from lcpo.study.imports import imported_agents
from lcpo.study.study import Picture, Report

SUFFIXES = {f".{suffix}" for suffix in (*tables.FORMATS, *Picture._fields)}
PACKAGES = ("lcpo", "python", "jax", "optax", "numpy")


def write_files(
    report: Report, results: Sequence[Result], out: str | Path, command: str | None = None
) -> list[Path]:
    """Write a report into a folder: a table as NAME.txt, .md, .tex and .csv, seeds.csv, made.json,
    a figure as NAME.png and .svg.

    `results`: the runs that it was made from; `command`: the command line that made it. Returns
    the paths, in this order. What an earlier report left in the folder, and this one has not, is
    deleted: a page would show it as if it were of these runs.
    """
    out, paths = Path(out), []
    earlier = _files_made(out)
    for name, table in report.tables.items():
        for suffix, render in tables.FORMATS.items():
            chosen = report.numbers.get(name, table) if suffix == "csv" else table
            paths.append(out / f"{name}.{suffix}")
            write_bytes(paths[-1], render(chosen).encode())
    paths.append(out / "seeds.csv")
    write_bytes(paths[-1], report.seeds.to_csv().encode())
    paths.append(out / "made.json")
    made = len(paths) - 1
    for name, picture in report.figures.items():
        for suffix, content in picture._asdict().items():
            paths.append(out / f"{name}.{suffix}")
            write_bytes(paths[-1], content)
    files = [path.name for path in paths]
    save_json(paths[made], {**how_made(results, command), **report.made, "files": files})
    for name in earlier - set(files):
        (out / name).unlink(missing_ok=True)
    return paths


def _files_made(out: Path) -> set[str]:
    """The files that made.json of an earlier report names; none where that is damaged."""
    try:
        made = load_json(out / "made.json")
    except (OSError, InputError):
        return set()
    files = made.get("files", []) if isinstance(made, dict) else []
    names = {name for name in files if isinstance(name, str)} if isinstance(files, list) else set()
    return {name for name in names if Path(name).name == name and Path(name).suffix in SUFFIXES}


def how_made(results: Sequence[Result], command: str | None = None) -> dict[str, Any]:
    """How a report was made: the command, and what the manifests of its runs say.

    Lists hold every value that occurs: runs that were resumed elsewhere may differ. Empty: unknown.
    Without runs, the report was made by this process.
    """
    jobs = [result.job for result in results]
    sources = [result.provenance for result in results] or [provenance()]

    imported = imported_agents(results)

    def values(name: str) -> list[Any]:
        return _distinct([source.get(name) for source in sources])

    return {
        "command": [] if command is None else [command],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": values("commit"),
        "device": values("device"),
        "versions": {name: values(name) for name in PACKAGES},
        "agents": _distinct([job.agent for job in jobs]),
        "envs": _distinct([job.env for job in jobs]),
        "traces": _distinct([job.trace for job in jobs]),
        "steps": _distinct([job.steps for job in jobs]),
        "seeds": len({job.seed for job in jobs}),
        "finished": sum(result.status == "finished" for result in results),
        "failed": sum(result.status != "finished" for result in results),
        **({"imported": imported} if imported else {}),
    }


def check_file(path: Path, kind: str) -> None:
    """Raise InputError unless a file of this kind can be written, before the work for it."""
    check_folder(path.parent)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: give the name of a {kind}")
    except OSError as error:  # a name too long
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that the user asked for, atomically."""
    try:
        save_bytes(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _distinct(values: Sequence[Any]) -> list[Any]:
    return [value for value in dict.fromkeys(values) if value is not None]

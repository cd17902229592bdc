"""The files of a report: report.json with all values, tables and figures for readers, seeds.csv,
and made.json, which says how the report was made.

made.json names the command that wrote the report and has the digest of each file. The next report
of that command replaces these files if they are unchanged, and no others.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import InputError
from lcpo.run.store import layout
from lcpo.run.store.files import load_json, save_bytes
from lcpo.run.store.outputs import check_file
from lcpo.run.store.results import Result, provenance
from lcpo.study.measure.comparable import imported_agents
from lcpo.study.report import document, tables
from lcpo.study.report.document import REPORT, Words
from lcpo.study.study import Report

MADE, SEEDS = "made.json", "seeds.csv"
SUFFIXES = {f".{suffix}" for suffix in (*tables.FORMATS, "png", "svg")}
PACKAGES = ("lcpo", "python", "jax", "optax", "numpy")
LARGEST, DEEPEST = 2**25, 8
"""Limits on made.json: bytes and nesting."""
FILES = (*(f"table.{suffix}" for suffix in tables.FORMATS), SEEDS, REPORT)
"""Files of every report in addition to made.json."""


def write_files(
    report: Report,
    results: Sequence[Result],
    out: str | Path,
    command: str | None = None,
    *,
    by: str,
    warnings: Sequence[str] = (),
) -> list[Path]:
    """Write a report into a folder: report.json, seeds.csv, made.json, a table as NAME.txt, .md,
    .tex and .csv, a figure as NAME.png and .svg; returns the paths.

    `results`: the runs behind it; `command`: the command line that made it; `by`: its command, such
    as `lcpo compare` or `lcpo reproduce windy`; `warnings`: what a
    reader must know first, at the top of the page. Files of its earlier report that this one lacks
    are deleted, so that no page shows them with these runs. InputError, before anything is written,
    if a file there is not the command's.
    """
    contents: dict[str, bytes] = {}
    for name, table in report.tables.items():
        for suffix, render in tables.FORMATS.items():
            contents[f"{name}.{suffix}"] = render(table).encode()
    contents[SEEDS] = report.seeds.to_csv().encode()
    words = {name: Words(x.heading, x.caption) for name, x in report.figures.items()}
    contents[REPORT] = document.write(document.Tables(report.tables, report.seeds, words))
    pictures = {
        f"{name}.{suffix}": content
        for name, picture in report.figures.items()
        for suffix, content in (("png", picture.png), ("svg", picture.svg))
    }
    made = {**how_made(results, command), **report.made, "warnings": list(warnings)}
    write_made(Path(out), {**contents, **pictures}, made, by)
    return [Path(out) / name for name in (*contents, MADE, *pictures)]


def write_made(out: Path, contents: Mapping[str, bytes], made: Mapping[str, Any], by: str) -> None:
    """Write files into a folder, and made.json, which says whose they are.

    made.json is written first, with the digests of each file before and after: if this process is
    killed, the same command still recognizes all of them.
    """
    check_report(out, by, contents)
    known = _known(out, by)
    stale = [name for name in known if name not in contents and _is_known(out / name, known)]
    new = {name: [hashlib.sha256(content).hexdigest()] for name, content in contents.items()}
    either = {
        name: [*([_digest(out / name)] if (out / name).exists() else []), *new.get(name, [])]
        for name in (*contents, *stale)
    }

    def write(files: Mapping[str, Sequence[str]]) -> None:
        write_bytes(out / MADE, json.dumps({"by": by, **made, "files": files}, indent=1).encode())

    write(either)
    for name, content in contents.items():
        write_bytes(out / name, content)
    for name in stale:
        (out / name).unlink()
    write(new)


def check_report(out: Path, by: str, names: Iterable[str] = FILES) -> None:
    """Raise InputError unless the command `by` may write these files of a report into a folder."""
    mine = is_report(out, by)
    if not mine and (other := written_by(_made(out))):
        raise InputError(f"{out} holds files that {other} wrote: give {by} another folder")
    check_file(out / MADE, by, lambda path: mine)
    known = _known(out, by)
    for name in names:
        check_file(out / name, by, lambda path: _is_known(path, known))


def is_report(out: Path, by: str) -> bool:
    """Whether a folder holds a report of the command `by`."""
    made = _made(out)
    who = written_by(made)
    # An earlier version named no command for `lcpo.compare`, which writes a plan beside the report.
    unnamed = who is None and made.get("command") == [] and layout.plan_file(out).exists()
    return who == by or (unnamed and by == "lcpo compare")


def read_made(out: Path) -> dict[str, Any]:
    """The content of made.json; empty if there is none; InputError if it is damaged.

    A link out of the folder is refused: the page shows made.json and may be shared.
    """
    path = out / MADE
    layout.check_links(out, path)
    if not path.exists():
        return {}
    if path.is_file() and path.stat().st_size > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST:,} bytes: lcpo did not write it")
    made = load_json(path)
    if not isinstance(made, dict):
        raise InputError(f"{path} holds a {type(made).__name__}: lcpo did not write it")
    level: list[Any] = [made]
    for _ in range(DEEPEST):
        inner = [
            x for value in level for x in (value.values() if isinstance(value, dict) else value)
        ]
        level = [x for x in inner if isinstance(x, (dict, list))]
    if level:
        raise InputError(f"{path} has values nested deeper than {DEEPEST}: lcpo did not write it")
    return made


def written_by(made: Mapping[str, Any]) -> str | None:
    """The command that wrote a made.json; None: it does not say."""
    by, command = made.get("by"), made.get("command")
    if isinstance(by, str):
        return by
    line = command[0] if isinstance(command, list) and command else None  # of an earlier version
    words = line.split() if isinstance(line, str) else []
    if len(words) < 2 or words[0] != "lcpo":
        return None
    return " ".join(words[: 3 if words[1] == "reproduce" else 2])


def _made(out: Path) -> dict[str, Any]:
    """made.json; empty if it is damaged."""
    with contextlib.suppress(InputError):
        return read_made(out)
    return {}


def _known(out: Path, by: str) -> dict[str, list[str]]:
    """The files that the command `by` wrote, and the digests that they may have."""
    files = _made(out).get("files") if is_report(out, by) else None
    if isinstance(files, list):  # of an earlier version, which kept names only
        there = {name: out / name for name in files if isinstance(name, str)}
        files = {name: [_digest(path)] for name, path in there.items() if path.is_file()}
    if not isinstance(files, dict):
        return {}
    return {
        name: digests
        for name, digests in files.items()
        if Path(name).name == name and isinstance(digests, list)
        if Path(name).suffix in SUFFIXES or name == REPORT
    }


def _is_known(path: Path, known: Mapping[str, list[str]]) -> bool:
    """Whether a file is as the command left it."""
    if not path.is_file() or path.is_symlink() or path.name not in known:
        return False
    return _digest(path) in known[path.name]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def how_made(results: Sequence[Result], command: str | None = None) -> dict[str, Any]:
    """How a report was made: the command, and the manifests of its runs.

    Lists hold every value that occurs, because resumed runs may differ; empty: unknown. Without
    runs, this process made the report.
    """
    jobs = [result.job for result in results]
    sources = [result.provenance for result in results] or [provenance()]
    imported = imported_agents(results)
    finished = sum(result.status == "finished" for result in results)

    def distinct(values: Iterable[Any]) -> list[Any]:
        return [value for value in dict.fromkeys(values) if value is not None]

    def origin(name: str) -> list[Any]:
        return distinct(source.get(name) for source in sources)

    return {
        "command": [] if command is None else [command],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": origin("commit"),
        "device": origin("device"),
        "versions": {name: origin(name) for name in PACKAGES},
        "agents": distinct(job.agent for job in jobs),
        "envs": distinct(job.env for job in jobs),
        "traces": distinct(job.trace_name for job in jobs),
        "steps": distinct(job.steps for job in jobs),
        "seeds": len({job.seed for job in jobs}),
        "finished": finished,
        "failed": len(results) - finished,
        **({"imported": imported} if imported else {}),
    }


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that the user asked for, atomically."""
    try:
        save_bytes(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error

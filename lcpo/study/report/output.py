"""The files of a report: report.json, which has all of it as values, tables and figures for
readers, the runs behind them, and how they were made.

made.json says which command wrote the report, and has the digest of each file. So the next report
replaces what that command wrote, as it wrote it, and nothing else.
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
from lcpo.study.report import document, tables
from lcpo.study.report.document import REPORT
from lcpo.study.report.imports import imported_agents
from lcpo.study.study import Picture, Report

MADE, SEEDS = "made.json", "seeds.csv"
SUFFIXES = {f".{suffix}" for suffix in (*tables.FORMATS, *Picture._fields)}
PACKAGES = ("lcpo", "python", "jax", "optax", "numpy")
LARGEST, DEEPEST = 2**25, 8
"""Bytes of made.json, and levels of its values."""
FILES = (*(f"table.{suffix}" for suffix in tables.FORMATS), SEEDS, REPORT)
"""That every report has, but for made.json."""


def write_files(
    report: Report,
    results: Sequence[Result],
    out: str | Path,
    command: str | None = None,
    *,
    by: str,
) -> list[Path]:
    """Write a report into a folder: report.json, seeds.csv, made.json, a table as NAME.txt, .md,
    .tex and .csv, a figure as NAME.png and .svg.

    `results`: the runs that it was made from; `command`: the command line that made it; `by`: its
    command, as `lcpo compare` or `lcpo reproduce windy`. Returns the paths. What an
    earlier report left in the folder, and this one has not, is deleted: a page would show it as if
    it were of these runs. InputError, and nothing is written, where a file is not the command's.
    """
    contents: dict[str, bytes] = {}
    for name, table in report.tables.items():
        for suffix, render in tables.FORMATS.items():
            contents[f"{name}.{suffix}"] = render(table).encode()
    contents[SEEDS] = report.seeds.to_csv().encode()
    contents[REPORT] = document.write(document.Tables(report.tables, report.seeds))
    pictures = {
        f"{name}.{suffix}": content
        for name, picture in report.figures.items()
        for suffix, content in picture._asdict().items()
    }
    made = {**how_made(results, command), **report.made}
    write_made(Path(out), {**contents, **pictures}, made, by)
    return [Path(out) / name for name in (*contents, MADE, *pictures)]


def write_made(out: Path, contents: Mapping[str, bytes], made: Mapping[str, Any], by: str) -> None:
    """Write files into a folder, and made.json, which says whose they are.

    made.json comes first, and names what each file holds before and after: whenever this is killed,
    the same command knows all of it for its own.
    """
    check_report(out, by, contents)
    known = _digests(out, _made_by(out, by) or {})
    stale = [name for name in known if name not in contents and _is_known(out / name, known)]
    before = {n: [_digest(out / n)] for n in (*contents, *stale) if (out / n).exists()}
    new = {name: [hashlib.sha256(content).hexdigest()] for name, content in contents.items()}
    either = {n: [*before.get(n, []), *new.get(n, [])] for n in (*contents, *stale)}
    _write_json(out / MADE, {"by": by, **made, "files": either})
    for name, content in contents.items():
        write_bytes(out / name, content)
    for name in stale:
        (out / name).unlink()
    _write_json(out / MADE, {"by": by, **made, "files": new})


def check_report(out: Path, by: str, names: Iterable[str] = FILES) -> None:
    """Raise InputError unless the command `by` may write these files of a report into a folder.

    (Into folders of any kind: whether the folder is the command's is for the command to say.)
    """
    made = _made_by(out, by)
    known = _digests(out, made or {})
    if made is None and (other := written_by(_made(out))):
        raise InputError(f"{out} holds files that {other} wrote: give {by} a folder of its own")
    check_file(out / MADE, by, lambda path: made is not None)
    # The first version did not name them: in a folder of this command, the files were its own.
    trusted = made is not None and "files" not in made
    for name in names:
        check_file(out / name, by, lambda path: trusted or _is_known(path, known))


def is_report(out: Path, by: str) -> bool:
    """Whether a folder holds a report of the command `by`."""
    return _made_by(out, by) is not None


def read_made(out: Path) -> dict[str, Any]:
    """What made.json of a folder says; empty where there is none; InputError where it is damaged.

    One that leads elsewhere is refused: a page shows it, and may be given to others.
    """
    path = out / MADE
    layout.check_links(out, path)
    if not path.exists():
        return {}
    if path.is_file() and path.stat().st_size > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST:,} bytes: no file of ours")
    made = load_json(path)
    if not isinstance(made, dict):
        raise InputError(f"{path} is no file of ours: it holds a {type(made).__name__}")
    level = [made]
    for _ in range(DEEPEST):
        level = [x for value in level for x in _inner(value)]
    if level:
        raise InputError(f"{path} is no file of ours: its values are nested deeper than {DEEPEST}")
    return made


def written_by(made: Mapping[str, Any]) -> str | None:
    """Which command wrote a made.json; None: it does not say."""
    by, command = made.get("by"), made.get("command")
    if isinstance(by, str):
        return by
    line = command[0] if isinstance(command, list) and command else None  # of an earlier version
    words = line.split() if isinstance(line, str) else []
    if len(words) < 2 or words[0] != "lcpo":
        return None
    return " ".join(words[: 3 if words[1] == "reproduce" else 2])


def _made_by(out: Path, by: str) -> dict[str, Any] | None:
    """made.json of a folder, if the command `by` wrote it; None: another did, or there is none."""
    made = _made(out)
    who = written_by(made)
    # An earlier version, called from Python, did not say; where a plan stands beside, it compared.
    unsaid = who is None and made.get("command") == [] and layout.plan_file(out).exists()
    return made if who == by or (unsaid and by == "lcpo compare") else None


def _made(out: Path) -> dict[str, Any]:
    """made.json of a folder; empty where it is damaged, too."""
    with contextlib.suppress(InputError):
        return read_made(out)
    return {}


def _digests(out: Path, made: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of the files that made.json names: what they may hold."""
    files = made.get("files")
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


def _inner(value: Any) -> list[Any]:
    """The lists and objects in one."""
    found = value.values() if isinstance(value, dict) else value
    return [x for x in found if isinstance(x, (dict, list))]


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
        "traces": _distinct([job.trace_name for job in jobs]),
        "steps": _distinct([job.steps for job in jobs]),
        "seeds": len({job.seed for job in jobs}),
        "finished": sum(result.status == "finished" for result in results),
        "failed": sum(result.status != "finished" for result in results),
        **({"imported": imported} if imported else {}),
    }


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that the user asked for, atomically."""
    try:
        save_bytes(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value, indent=1).encode())


def _distinct(values: Sequence[Any]) -> list[Any]:
    return [value for value in dict.fromkeys(values) if value is not None]

"""A folder of results as one page that needs nothing else: no server, no network, no file beside.

Everything that comes from files is escaped, and a policy in the page's head allows its own script
and style, by their digests, and images that are part of it: nothing else runs or loads.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from lcpo.run.store import outputs
from lcpo.study.report.cells import Column
from lcpo.study.report.html_folder import Folder, read_folder
from lcpo.study.report.html_runs import (
    RUNS,
    SETTINGS,
    Setting,
    command_cell,
    find_settings,
    row_commands,
    runs_rows,
    settings_rows,
)
from lcpo.study.report.html_table import beside_paper, render
from lcpo.study.report.output import write_bytes
from lcpo.study.report.tables import Table

PAGE = "report.html"
GENERATOR = '<meta name="generator" content="'
EARLIER = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n<meta '
    'http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'sha256-"
)
"""How a page of an earlier version begins, which had no mark."""
LONGEST = 9
"""Digits of a number that may count on."""


def write_page(out: str | Path, file: str | Path | None = None, by: str = "lcpo report") -> Path:
    """Write the page of a folder of results, into `file` or OUT/report.html; returns its path.

    `by`: the command that writes it. InputError where the folder is damaged, or none of ours.
    """
    out = Path(out)
    file = out / PAGE if file is None else Path(file)
    check_page(out, file, by)
    page = make_page(read_folder(out), by)
    write_bytes(file, page.encode("utf-8", "backslashreplace"))  # names of files may be no UTF-8
    return file


def check_page(out: Path, file: Path, by: str) -> None:
    """Raise InputError unless the command `by` may write the page of a folder into a file.

    OUT/report.html is the page of the folder, whichever command wrote it.
    """
    anyone = file.name == PAGE and file.parent.resolve() == out.resolve()
    wanted = GENERATOR + (outputs.mark("lcpo ") if anyone else f'{outputs.mark(by)}"')

    def is_ours(path: Path) -> bool:
        head = outputs.ends(path)
        return wanted.encode() in head or head.startswith(EARLIER.encode())

    outputs.check_file(file, by, is_ours)


def make_page(folder: Folder, by: str = "lcpo report") -> str:
    """The text of the page."""
    settings = find_settings(folder.runs)
    name = folder.path.resolve().name
    body = "".join(
        [
            f"<header><h1>{escape(name)}</h1>{_made(folder.made)}</header>\n<main>\n",
            *(_table(folder, name, folder.tables[name], settings) for name in folder.order()),
            *(_figure(name, address) for name, address in folder.figures.items()),
            _runs(settings),
            _seeds(folder.seeds),
            "</main>\n",
        ]
    )
    style, script = _own("report.css"), _own("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(style)}; "
        f"script-src {_digest(script)}; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'{GENERATOR}{escape(outputs.mark(by))}">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(name)}</title>\n<style>{style}</style></head>\n"
        f"<body>\n{body}<script>{script}</script></body></html>\n"
    )


def _own(name: str) -> str:
    return (importlib.resources.files("lcpo") / "study" / "data" / name).read_text("utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _made(made: Mapping[str, Any]) -> str:
    """How it was made, in a list of names and values; what is not known is left out.

    Its files, too: they stand below each table.
    """
    known = {name: value for name, value in made.items() if name not in ("by", "files")}
    shown = {k: _code(v) if k == "command" else _words(v) for k, v in known.items()}
    items = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{value}</dd>\n" for name, value in shown.items() if value
    )
    return f'<dl class="made">{items}</dl>' if items else ""


def _code(value: Any) -> str:
    lines = value if isinstance(value, list) else [value]
    return "".join(f"<code>{escape(str(line))}</code>" for line in lines)


def _words(value: Any, between: str = " · ") -> str:
    if isinstance(value, dict):
        known = {k: _words(v, " / ") for k, v in value.items()}
        return between.join(f"{escape(str(k))} {words}" for k, words in known.items() if words)
    if isinstance(value, list):
        return between.join(map(_words, _in_rows(value)))
    if value is None:
        return ""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else escape(str(value))


def _in_rows(values: list[Any]) -> list[Any]:
    """Names that count on, such as family:drift:0, family:drift:1, ..., as first and last."""
    found: list[Any] = []
    first, before, last = "", "", -1
    for value in values:
        start, colon, end = str(value).rpartition(":")
        number = int(end) if colon and end.isdecimal() and len(end) <= LONGEST else -1
        if number >= 0 and (start, number) == (before, last + 1):
            found[-1] = f"{first} to {number}"
        else:
            found.append(value)
            first, before = str(value), start
        last = number
    return found


def _table(folder: Folder, name: str, table: Table, settings: list[Setting]) -> str:
    columns, rows, notes = beside_paper(table)
    commands = row_commands(table, settings)
    if any(commands):
        columns = [*columns, Column("command", side="l")]
        rows = [[*row, command_cell(mine)] for row, mine in zip(rows, commands, strict=True)]
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    files = ", ".join(escape(file) for file in folder.forms(name))
    return (
        f'<section class="table"><h2>{escape(table.title or name)}</h2>\n{render(columns, rows)}'
        f'<ul class="notes">{items}<li>this table as a file: {files}</li></ul></section>\n'
    )


def _figure(name: str, address: str) -> str:
    return (
        f'<figure><img src="{address}" alt="figure {escape(name)}">'
        f"<figcaption>{escape(name)}</figcaption></figure>\n"
    )


def _runs(settings: list[Setting]) -> str:
    if not settings:
        return ""
    total = sum(len(setting.runs) for setting in settings)
    return _folded(
        f"Settings ({len(settings)})",
        render(SETTINGS, settings_rows(settings)),
    ) + _folded(f"Runs ({total})", render(RUNS, runs_rows(settings)))


def _seeds(table: Table | None) -> str:
    if table is None or not table.header:
        return ""
    columns, rows, _ = beside_paper(table)
    return _folded(f"Numbers of every run ({len(rows)})", render(columns, rows))


def _folded(title: str, table: str) -> str:
    """A table that is opened, and can be filtered."""
    return (
        f'<details class="folded"><summary><h2>{escape(title)}</h2></summary>\n'
        '<label class="filter">only rows with <input type="search" '
        'placeholder="words, such as lcpo 3"> <output></output></label>\n'
        f"{table}</details>\n"
    )

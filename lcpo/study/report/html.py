"""A folder of results as one self-contained page: no server, no network, no other files.

Everything that comes from files is escaped. A content security policy allows the page's own script
and style, by their digests, and embedded images. Nothing else runs or loads.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from lcpo.contexts.families import ranges
from lcpo.run.store import outputs
from lcpo.study.report.cells import Column
from lcpo.study.report.html_folder import Folder, PageFigure, read_folder
from lcpo.study.report.html_table import (
    PageSetting,
    beside_paper,
    command_cell,
    find_settings,
    render,
    row_commands,
    runs_table,
    settings_table,
    without_constants,
)
from lcpo.study.report.output import write_bytes, written_by
from lcpo.study.report.tables import Table

PAGE = "report.html"
GENERATOR = '<meta name="generator" content="'
EARLIER = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n<meta '
    'http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'sha256-"
)
"""The beginning of pages from earlier versions, which did not name their generator."""
COMMANDS = "what repeats the runs of the row"
SHOWN_ELSEWHERE = ("by", "files", "warnings")
"""Entries of made.json: files stand below their tables, warnings at the top."""


def write_page(out: str | Path, file: str | Path | None = None, by: str = "lcpo report") -> Path:
    """Write the page of a folder to `file`, by default OUT/report.html; returns its path.

    `by`: the command that writes it. InputError if the folder is damaged or holds no results.
    """
    out = Path(out)
    file = out / PAGE if file is None else Path(file)
    check_page(out, file, by)
    page = make_page(read_folder(out), by)
    write_bytes(file, page.encode("utf-8", "backslashreplace"))  # file names may not be UTF-8
    return file


def check_page(out: Path, file: Path, by: str) -> None:
    """Raise InputError unless the command `by` may write the page of a folder to this file.

    Every command may replace OUT/report.html if another one wrote it.
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
    out, name = folder.path, folder.path.resolve().name
    body = "".join(
        [
            f"{_head(name, folder.made)}<main>\n",
            *(_table(out, name, table, settings) for name, table in folder.tables.items()),
            *map(_figure, folder.figures.values()),
            _made(folder.made),
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


def _head(name: str, made: Mapping[str, Any]) -> str:
    """The title, who wrote the report, and what a reader must know first."""
    by, date, found = written_by(made), made.get("date"), made.get("warnings")
    words = " on ".join(escape(str(word)) for word in (by, date) if word)
    texts = [escape(str(text)) for text in (found if isinstance(found, list) else [])]
    warning = "".join(texts)
    if len(texts) > 1:
        items = "".join(f"<li>{text}</li>" for text in texts)
        title = f"{len(texts)} warnings about the runs"
        warning = f"<details><summary>{title}</summary><ul>{items}</ul></details>"
    return (
        f"<header><h1>{escape(name)}</h1>\n"
        + (f'<p class="by">Written by {words}</p>\n' if words else "")
        + (f'<div class="warning" role="note">{warning}</div>\n' if warning else "")
        + "</header>\n"
    )


def _made(made: Mapping[str, Any]) -> str:
    """made.json as a list of names and values."""
    items = ""
    for name, value in made.items():
        if name == "command":
            lines = value if isinstance(value, list) else [value]
            shown = "".join(f"<code>{escape(str(line))}</code>" for line in lines)
        else:
            shown = "" if name in SHOWN_ELSEWHERE else _words(value)
        items += f"<dt>{escape(str(name))}</dt><dd>{shown}</dd>\n" if shown else ""
    return _folded("How this report was made", f'<dl class="made">{items}</dl>') if items else ""


def _words(value: Any, between: str = " · ") -> str:
    if isinstance(value, dict):
        known = {k: _words(v, " / ") for k, v in value.items()}
        return between.join(f"{escape(str(k))} {words}" for k, words in known.items() if words)
    if isinstance(value, list):
        named = all(isinstance(one, str) for one in value)
        return between.join(map(_words, ranges(value) if named else value))
    if value is None:
        return ""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else escape(str(value))


def _table(out: Path, name: str, table: Table, settings: list[PageSetting]) -> str:
    columns, rows = beside_paper(table)
    commands = row_commands(table, settings)
    if any(commands):
        columns = [*columns, Column("command", side="l", about=COMMANDS)]
        rows = [[*row, command_cell(mine)] for row, mine in zip(rows, commands, strict=True)]
    meanings = "".join(
        f"<div><dt>{escape(c.name)}</dt><dd>{escape(c.about)}</dd></div>"
        for c in columns
        if c.about
    )
    items = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    forms = [f"{name}.{suffix}" for suffix in ("md", "tex", "csv", "txt")]
    files = ", ".join(escape(file) for file in forms if (out / file).exists())
    columns, rows, shared = without_constants(columns, rows)
    heading = table.heading or table.title or name
    caption = "; ".join([*shared, *([table.title] if table.heading and table.title else [])])
    return (
        f"<section><h2>{escape(heading)}</h2>\n"
        + (f'<p class="caption">{escape(caption)}</p>\n' if caption else "")
        + render(columns, rows)
        + (f'<dl class="meanings">{meanings}</dl>\n' if meanings else "")
        + f'<ul class="notes">{items}<li>this table as a file: {files}</li></ul></section>\n'
    )


def _figure(figure: PageFigure) -> str:
    heading, caption = escape(figure.heading), escape(figure.caption)
    return (
        f'<figure><h2>{heading}</h2>\n<div class="scroll" tabindex="0">'
        f'<img src="{figure.address}" alt="{heading}"></div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _runs(settings: list[PageSetting]) -> str:
    if not settings:
        return ""
    total = sum(len(setting.runs) for setting in settings)
    shown = _folded(f"Settings ({len(settings)})", FILTER + settings_table(settings))
    return shown + _folded(f"Runs ({total})", FILTER + runs_table(settings))


def _seeds(table: Table | None) -> str:
    if table is None or not table.header:
        return ""
    columns, rows = beside_paper(table)
    return _folded(f"Numbers of every run ({len(rows)})", FILTER + render(columns, rows))


FILTER = (
    '<label class="filter">only rows with <input type="search" '
    'placeholder="words, such as lcpo 3"> <output></output></label>\n'
)


def _folded(title: str, content: str) -> str:
    """What unfolds."""
    return (
        f'<details class="folded"><summary><h2>{escape(title)}</h2></summary>\n'
        f"{content}</details>\n"
    )

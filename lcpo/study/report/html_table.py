"""The tables of a page: those of the report, next to the paper's, and the runs behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from lcpo.run.plan.job import Job
from lcpo.study.commands import train_command
from lcpo.study.measure.comparable import source_of
from lcpo.study.report import document
from lcpo.study.report.cells import NONE, Cell, Column, Printed, sort_number
from lcpo.study.report.html_folder import PageRun
from lcpo.study.report.tables import Table

DIFFERENCE = "minus paper"
BREAK = re.compile(r"(=|[-_,:/](?=[^\d\W]))")
"""Where long names, such as lcpo-value_steps=5-sigma=2, may continue in the next line."""
MOST_COMMANDS = 4
"""Commands behind a row of a table; further ones are counted."""


class Shown(NamedTuple):
    """A cell of the page that is more than a value."""

    text: str
    more: Sequence[str] = ()
    """Lines that unfold below it."""
    mark: str = ""
    """A word that styles it."""
    sort: float | None = None
    """Sort key; None: its text."""


def beside_paper(
    table: Table,
) -> tuple[list[Column], Sequence[Sequence[Cell | Shown]]]:
    """Columns and cells, with the paper's number and the difference right after ours.

    A table that compares none of its columns with the paper's stays as it is.
    """
    columns, rows = table.shown, table.values()
    if table.compared is None:
        return columns, rows
    ours, theirs = map(table.header.index, table.compared)
    gaps = [
        difference(columns[ours].printed(row[ours]), columns[theirs].printed(row[theirs]))
        for row in rows
    ]
    if all(gap.text == NONE for gap in gaps):
        return columns, rows
    order = [i for i in range(len(columns)) if i != theirs]
    at = order.index(ours) + 1

    def arranged(items: Sequence[Any], new: Any) -> list[Any]:
        before, after = ([items[i] for i in some] for some in (order[:at], order[at:]))
        return [*before, items[theirs], new, *after]

    about = (
        f"{columns[ours].name} less the paper's number; overlap: both intervals share values, "
        "apart: they do not"
    )
    shown = [arranged(row, gap) for row, gap in zip(rows, gaps, strict=True)]
    return arranged(columns, Column(DIFFERENCE, about=about)), shown


def difference(ours: Printed | None, theirs: Printed | None) -> Shown:
    """Ours minus the paper's, as shown, and whether the intervals overlap if both have one."""
    if ours is None or theirs is None:
        return Shown(NONE)
    gap, places = ours.mean - theirs.mean, min(ours.places, theirs.places)
    word = ""
    if ours.half is not None and theirs.half is not None:
        word = "overlap" if abs(gap) <= ours.half + theirs.half else "apart"
    gap = round(gap, places) + 0.0
    return Shown(f"{gap:+.{places}f}", mark=word, sort=gap)


def without_constants(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell | Shown]]
) -> tuple[list[Column], list[list[Cell | Shown]], list[str]]:
    """Columns and cells without names that are the same in all rows, and these in words."""
    key = key_column(columns)
    same = [
        i
        for i, column in enumerate(columns)
        if column.side == "l" and i != key and len(rows) > 1
        if isinstance(rows[0][i], str) and all(row[i] == rows[0][i] for row in rows)
    ]
    words = [f"{columns[i].name} {rows[0][i]}" for i in same]
    kept = [i for i in range(len(columns)) if i not in same]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], words


def key_column(columns: Sequence[Column]) -> int:
    """The column that names the rows."""
    names = [column.name for column in columns]
    return names.index("agent") if "agent" in names else 0


def render(columns: Sequence[Column | str], rows: Iterable[Sequence[Cell | Shown]]) -> str:
    """An HTML element that scrolls on a narrow page; the column that names rows stays visible."""
    columns = [Column(c, side="l") if isinstance(c, str) else c for c in columns]
    key = key_column(columns)
    sides = [column.side + " key" * (i == key) for i, column in enumerate(columns)]
    titles = "".join(
        f'<th scope="col" class="{side}" title="{escape(column.about)}">'
        f'<button type="button">{escape(column.name) or "&nbsp;"}</button></th>'
        for column, side in zip(columns, sides, strict=True)
    )
    lines = ""
    for row in rows:
        cells = (_cell(*x) for x in zip(row, columns, sides, strict=True))
        lines += f"<tr>{''.join(cells)}</tr>\n"
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{titles}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>\n"
    )


def _cell(cell: Cell | Shown, column: Column, side: str) -> str:
    if not isinstance(cell, Shown):
        cell = Shown(column.text(cell), sort=sort_number(cell))
    sort = "" if cell.sort is None else f' data-n="{cell.sort!r}"'
    inner = escape(cell.text)
    if column.side == "l":
        inner = BREAK.sub(r"\1<wbr>", inner)
    if cell.mark:
        inner += f' <span class="mark {escape(cell.mark)}">{escape(cell.mark)}</span>'
    if cell.more:
        below = "".join(f"<code>{escape(line)}</code>" for line in cell.more)
        inner = f"<details><summary>{inner}</summary>{below}</details>"
    return f'<td class="{side}"{sort}>{inner}</td>'


class PageSetting(NamedTuple):
    """Runs that differ only in the seed."""

    job: Job
    """The job of the first run."""
    runs: list[PageRun]


def command_of(runs: Sequence[PageRun]) -> str:
    """The command that makes runs of one setting; for imported runs, what their file says."""
    source = source_of(runs[0].provenance)
    if source is not None:
        return str(source.get("command", ""))
    return train_command(runs[0].job, [run.job.seed for run in runs])


def find_settings(runs: Sequence[PageRun]) -> list[PageSetting]:
    """In the order of the runs."""
    found: dict[str, PageSetting] = {}
    for run in runs:
        same = {**run.job.to_json(), "name": None, "seed": None}
        key = json.dumps(same, sort_keys=True)
        found.setdefault(key, PageSetting(run.job, [])).runs.append(run)
    return list(found.values())


def settings_table(settings: Sequence[PageSetting]) -> str:
    """A row per setting, with all of its values."""
    rows: list[list[Cell | Shown]] = []
    for i, (job, runs) in enumerate(settings, start=1):
        groups = {"": job.config, "env.": job.env_config, "training.": job.training or {}}
        values = [
            f"{prefix}{name} = {value if isinstance(value, str) else json.dumps(value)}"
            for prefix, fields in groups.items()
            for name, value in fields.items()
        ]
        config = Shown(f"{len(values)} values" if values else NONE, values)
        where = [job.label, job.env, job.trace_name]
        rows.append([i, *where, job.steps, len(runs), config, command_cell([command_of(runs)])])
    names = ["agent", "env", "trace", Column("steps", ","), Column("seeds"), "config", "command"]
    return render([Column("no."), *names], rows)


def runs_table(settings: Sequence[PageSetting]) -> str:
    """A row per run; `no.` is the number of its setting."""
    rows: list[list[Cell | Shown]] = []
    for i, setting in enumerate(settings, start=1):
        for run in setting.runs:
            job, known = run.job, run.provenance
            status = f"{run.status}{', imported' if source_of(known) is not None else ''}"
            origin = [str(known.get(name) or NONE) for name in ("device", "commit")]
            first = [job.name, i, job.agent, job.trace_name, job.seed, status]
            rows.append([*first, run.seconds, *origin, command_cell([command_of([run])])])
    columns = ["run", Column("no."), "agent", "trace", Column("seed"), "status", Column("seconds")]
    return render([*columns, "device", "commit", "command"], rows)


def command_cell(commands: Sequence[str]) -> Shown:
    """Unfolds to the commands."""
    known = [command for command in commands if command]
    left = len(known) - MOST_COMMANDS
    more = [f"and {left} more"] if left > 0 else []
    return Shown("show", [*known[:MOST_COMMANDS], *more]) if known else Shown(NONE)


def row_commands(table: Table, settings: Sequence[PageSetting]) -> list[list[str]]:
    """Per row of a table, the commands of the settings whose names are in its cells.

    The column agent holds the label of a setting, its variant or point of a sweep, or its agent,
    and perhaps a remark in parentheses. Columns env, trace and setting narrow the choice.
    """
    if "agent" not in table.header:
        return [[] for _ in table.rows]
    known = [(one, _names(one.job)) for one in settings]
    found = []
    for row in table.texts():
        cells = dict(zip(table.header, row, strict=True))
        agent = cells["agent"].split(" (")[0]
        mine = [
            (one, names["agent"])
            for one, names in known
            if all(
                cells[name] in names[name] for name in ("env", "trace", "setting") if name in cells
            )
        ]
        same = ([one for one, names in mine if names[i] == agent] for i in range(3))
        found.append([command_of(one.runs) for one in next(filter(None, same), [])])
    return found


def _names(job: Job) -> dict[str, Sequence[str]]:
    """What tables call a job, by column. Of 3@1/20, trace 3 played faster, they may say 3."""
    trace, point = job.trace, (f"{k.replace('_', ' ')} {v}" for k, v in job.point.items())
    drawn = (trace.family, "all") if trace and trace.family else ()
    return {
        "agent": (job.label, job.kind or job.agent, job.agent),
        "env": (job.env,),
        "trace": (str(trace), str(trace.whole), *drawn) if trace else (NONE,),
        "setting": (document.setting(job), ", ".join(point)),
    }

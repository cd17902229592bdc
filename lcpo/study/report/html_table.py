"""A table of a report as HTML: sortable, the paper's numbers beside ours with the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from lcpo.study.report.cells import NONE, Column, Printed, sort_number
from lcpo.study.report.tables import Table

DIFFERENCE = "minus paper"


class Shown(NamedTuple):
    """A cell of the page: its text, and what stands below it when it is opened."""

    text: str
    more: Sequence[str] = ()
    mark: str = ""
    """A word that styles it."""
    sort: float | None = None
    """By which it is sorted; None: by its text."""


def beside_paper(table: Table) -> tuple[list[Column], list[list[Shown]], list[str]]:
    """The columns, cells and notes to show: the paper's number and the difference follow ours.

    A table that compares none of its columns with the paper's stays as it is.
    """
    columns, notes = table.shown, list(table.notes)
    rows = [
        [Shown(c.text(cell), sort=sort_number(cell)) for c, cell in zip(columns, row, strict=True)]
        for row in table.values()
    ]
    if table.compared is None:
        return columns, rows, notes
    ours, theirs = map(table.header.index, table.compared)
    gaps = [
        difference(columns[ours].printed(row[ours]), columns[theirs].printed(row[theirs]))
        for row in table.values()
    ]
    if all(gap.text == NONE for gap in gaps):
        return columns, rows, notes
    order = [i for i in range(len(columns)) if i != theirs]
    at = order.index(ours) + 1

    def arranged(items: Sequence[Any], new: Any) -> list[Any]:
        return [
            *(items[i] for i in order[:at]),
            items[theirs],
            new,
            *(items[i] for i in order[at:]),
        ]

    note = (
        f"{DIFFERENCE}: {columns[ours].name} less the paper's number; overlap: both intervals "
        "share values, apart: they do not"
    )
    shown = [arranged(row, gap) for row, gap in zip(rows, gaps, strict=True)]
    return arranged(columns, Column(DIFFERENCE)), shown, [*notes, note]


def difference(ours: Printed | None, theirs: Printed | None) -> Shown:
    """Ours minus the paper's, and whether the intervals overlap, where both have one.

    Of the numbers as they are shown, so that a reader finds the same.
    """
    if ours is None or theirs is None:
        return Shown(NONE)
    gap, places = ours.mean - theirs.mean, min(ours.places, theirs.places)
    word = ""
    if ours.half is not None and theirs.half is not None:
        word = "overlap" if abs(gap) <= ours.half + theirs.half else "apart"
    gap = round(gap, places) + 0.0
    return Shown(f"{gap:+.{places}f}", mark=word, sort=gap)


def render(columns: Sequence[Column], rows: Iterable[Sequence[Shown]]) -> str:
    """The element, in a box of its own that scrolls where the page is too narrow.

    What a row is about, its agent, stays in sight then.
    """
    header = [column.name for column in columns]
    key = header.index("agent") if "agent" in header else 0
    sides = [column.side + " key" * (i == key) for i, column in enumerate(columns)]
    titles = "".join(
        f'<th scope="col" class="{side}"><button type="button">{escape(name) or "&nbsp;"}'
        "</button></th>"
        for name, side in zip(header, sides, strict=True)
    )
    lines = "".join(f"<tr>{_cells(row, sides)}</tr>\n" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{titles}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div>\n"
    )


def _cells(row: Sequence[Shown], sides: Sequence[str]) -> str:
    return "".join(_cell(cell, side) for cell, side in zip(row, sides, strict=True))


def _cell(cell: Shown, side: str) -> str:
    sort = "" if cell.sort is None else f' data-n="{cell.sort!r}"'
    inner = escape(cell.text)
    if cell.mark:
        inner += f' <span class="mark {escape(cell.mark)}">{escape(cell.mark)}</span>'
    if cell.more:
        below = "".join(f"<code>{escape(line)}</code>" for line in cell.more)
        inner = f"<details><summary>{inner}</summary>{below}</details>"
    return f'<td class="{side}"{sort}>{inner}</td>'

"""A table of a report as HTML: sortable, the paper's numbers beside ours with the difference."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from lcpo.study.report.tables import NONE, Table

PAPER, DIFFERENCE = "paper", "minus paper"
NUMBER = r"[+-]?(?:\d[\d,]*+\.?\d*+|\.\d++)(?:e[+-]?\d++)?"
"""Nothing is tried twice (`*+`): a cell of a thousand digits would take seconds."""
_LEADING = re.compile(rf"[<>~ ]*+({NUMBER})(?=$|[\s%(\[±;])")
_INTERVAL = re.compile(rf"({NUMBER})(?: ± ({NUMBER}))?(?=$|\s)")


class Cell(NamedTuple):
    """Text and what stands below it when it is opened; `mark` is a word that styles it."""

    text: str
    more: Sequence[str] = ()
    mark: str = ""


class Interval(NamedTuple):
    """A mean with its half-width, and the decimals with which the mean is printed."""

    mean: float
    half: float | None
    """None: it has no interval."""
    places: int


def sort_value(text: str) -> float | None:
    """The number by which a cell is sorted: that at its beginning; None: it is sorted as text."""
    found = _LEADING.match(text)
    value = _number(found[1]) if found else math.inf
    return value if math.isfinite(value) else None


def read_interval(text: str) -> Interval | None:
    """What `tables.plus_minus` wrote, or the paper printed; None: no such thing."""
    found = _INTERVAL.match(text)
    if not found:
        return None
    places = len(found[1].partition(".")[2])
    return Interval(_number(found[1]), _number(found[2]) if found[2] else None, places)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def our_column(header: Sequence[str]) -> int | None:
    """The column that the paper's numbers are to be compared with; None: no such column.

    "ours" where there is one, else the return that the paper's tables have, after the warm-up;
    in its other tables the latency, and the time per interaction.
    """
    wanted = (r"ours", r"(return|reward) after .*", r"(return|reward)", r"p95", r"microseconds")
    for pattern in wanted:
        for i, name in enumerate(header):
            if re.fullmatch(pattern, name):
                return i
    return None


def beside_paper(table: Table) -> tuple[Table, list[list[Cell]]]:
    """The header and cells to show: the paper's number and the difference follow ours.

    A table without numbers of the paper, or without a column to compare, stays as it is.
    """
    cells = [[Cell(text) for text in row] for row in table.rows]
    ours, header = our_column(table.header), list(table.header)
    if PAPER not in header or ours is None:
        return table, cells
    theirs = header.index(PAPER)
    differences = [difference(row[ours], row[theirs]) for row in table.rows]
    if all(cell.text == NONE for cell in differences):
        return table, cells
    order = [i for i in range(len(header)) if i != theirs]
    at = order.index(ours) + 1
    rows = [
        [*(row[i] for i in order[:at]), row[theirs], cell, *(row[i] for i in order[at:])]
        for row, cell in zip(cells, differences, strict=True)
    ]
    head = [*(header[i] for i in order[:at]), PAPER, DIFFERENCE, *(header[i] for i in order[at:])]
    sides = "".join(table.align[i] for i in order)
    note = (
        f"{DIFFERENCE}: {header[ours]} less the paper's number; overlap: both intervals share "
        "values, apart: they do not"
    )
    shown = table._replace(
        header=head, align=f"{sides[:at]}rr{sides[at:]}", notes=[*table.notes, note]
    )
    return shown, rows


def difference(ours: str, theirs: str) -> Cell:
    """Ours minus the paper's, and whether the intervals overlap, where both have one."""
    a, b = read_interval(ours), read_interval(theirs)
    if a is None or b is None:
        return Cell(NONE)
    gap, places = a.mean - b.mean, min(a.places, b.places)
    word = ""
    if a.half is not None and b.half is not None:
        word = "overlap" if abs(gap) <= a.half + b.half else "apart"
    return Cell(f"{round(gap, places) + 0.0:+.{places}f}", mark=word)


def render(header: Sequence[str], rows: Iterable[Sequence[Cell]], align: str) -> str:
    """The element, in a box of its own that scrolls where the page is too narrow.

    What a row is about, its agent, stays in sight then.
    """
    key = header.index("agent") if "agent" in header else 0
    sides = [side + " key" * (i == key) for i, side in enumerate(align)]
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


def _cells(row: Sequence[Cell], sides: Sequence[str]) -> str:
    return "".join(_cell(cell, side) for cell, side in zip(row, sides, strict=True))


def _cell(cell: Cell, side: str) -> str:
    value = sort_value(cell.text)
    sort = "" if value is None else f' data-n="{value!r}"'
    inner = escape(cell.text)
    if cell.mark:
        inner += f' <span class="mark {escape(cell.mark)}">{escape(cell.mark)}</span>'
    if cell.more:
        below = "".join(f"<code>{escape(line)}</code>" for line in cell.more)
        inner = f"<details><summary>{inner}</summary>{below}</details>"
    return f'<td class="{side}"{sort}>{inner}</td>'

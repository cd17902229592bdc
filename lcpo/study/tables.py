r"""A table of strings, and its four dresses: text, Markdown, LaTeX, CSV.

Cells are written once, in plain characters ("-373 ± 3"); each format only escapes and joins them.
"""

from __future__ import annotations

import csv as csv_module
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lcpo.study.stats import Estimate

NONE = "-"
"""The cell of a value that does not exist."""


class Table(NamedTuple):
    """Cells as text; `align` has 'l' or 'r' per column."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    title: str = ""
    notes: Sequence[str] = ()


def text(table: Table) -> str:
    """For a terminal."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]

    def join(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(cells, widths, table.align, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    head = [table.title] if table.title else []
    body = [join(table.header), rule, *map(join, table.rows)]
    return "\n".join([*head, *body, *table.notes]) + "\n"


def markdown(table: Table) -> str:
    """A GitHub table, the title above and the notes below it."""

    def join(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---:" if side == "r" else "---" for side in table.align) + "|"
    head = [table.title, ""] if table.title else []
    notes = ["", *(f"- {note}" for note in table.notes)] if table.notes else []
    return "\n".join([*head, join(table.header), rule, *map(join, table.rows), *notes]) + "\n"


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": r"\textbar{}", "±": r"$\pm$",
}  # fmt: skip


def latex(table: Table) -> str:
    """A booktabs tabular to be \\input into a table; title and notes are comments."""

    def escape(cell: str) -> str:
        # A sign needs math mode, a hyphen between letters must not have it.
        parts = re.split(r"(?<![\w.])-(?=\d)", cell)
        return "$-$".join("".join(_LATEX.get(c, c) for c in part) for part in parts)

    def join(cells: Iterable[str]) -> str:
        return " & ".join(map(escape, cells)) + r" \\"

    comments = [f"% {line}" for line in (table.title, *table.notes) if line]
    begin, end = rf"\begin{{tabular}}{{{table.align}}}", r"\end{tabular}"
    body = [r"\toprule", join(table.header), r"\midrule", *map(join, table.rows), r"\bottomrule"]
    return "\n".join([*comments, begin, *body, end]) + "\n"


def csv(table: Table) -> str:
    """Header and rows; title and notes are left out."""
    out = io.StringIO()
    csv_module.writer(out, lineterminator="\n").writerows([table.header, *table.rows])
    return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "txt": text, "md": markdown, "tex": latex, "csv": csv,
}  # fmt: skip


def places(value: float) -> int:
    """Decimals as in the paper: none from 100 on, one from 10 on, else two."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def number(value: float | None, sign: bool = False) -> str:
    """A number in the paper's format; `sign`: with a plus."""
    if value is None or math.isnan(value):
        return NONE
    return _fixed(value, places(value), sign)


def plus_minus(estimate: Estimate | None, sign: bool = False) -> str:
    """Mean ± half-width, with the decimals of the larger; a half-width is never shown as 0."""
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    half = 0.5 * (estimate.high - estimate.low)
    if math.isnan(half):
        return f"{number(estimate.mean, sign)} (no interval)"
    digits = min(places(estimate.mean), places(half))
    if 0.0 < half < 0.5 * 10**-digits:
        digits = min(-math.floor(math.log10(half)), 9)
    return f"{_fixed(estimate.mean, digits, sign)} ± {half:.{digits}f}"


def bracketed(estimate: Estimate | None) -> str:
    """Mean [low, high], for an interval that is not symmetric; two decimals."""
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    if math.isnan(estimate.low):
        return f"{estimate.mean:.2f} (no interval)"
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _fixed(value: float, digits: int, sign: bool) -> str:
    value = round(value, digits) + 0.0  # no "-0"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"

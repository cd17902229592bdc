"""A table of strings, and how to write it as text, Markdown, LaTeX or CSV.

Cells are written once, in plain characters ("-373 ± 3"); each format only escapes and joins them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lcpo.study.measure.stats import Estimate

NONE = "-"
"""The cell of a value that does not exist."""


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": r"\textbar{}", "±": r"$\pm$",
}  # fmt: skip


class Table(NamedTuple):
    """Cells as text; `align` has 'l' or 'r' per column."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    title: str = ""
    notes: Sequence[str] = ()

    def to_text(self, width: int | None = None) -> str:
        """For a terminal; with a width, without the last columns that do not fit into it."""
        if width is not None:
            return self.narrowed(width).to_text()
        widths = self._widths()

        def join(cells: Sequence[str]) -> str:
            padded = (
                cell.rjust(width) if side == "r" else cell.ljust(width)
                for cell, width, side in zip(cells, widths, self.align, strict=True)
            )
            return "  ".join(padded).rstrip()

        head = [self.title] if self.title else []
        rule = "  ".join("-" * width for width in widths)
        body = [join(self.header), rule, *map(join, self.rows)]
        return "\n".join([*head, *body, *self.notes]) + "\n"

    def narrowed(self, width: int) -> Table:
        """At most so wide: names and headers are cut, then the last columns are left out.

        The first two columns stay. A note tells what was left out.
        """
        if _width(self._widths()) <= width:
            return self
        names = _cut_apart([row[0] for row in self.rows])
        header = [_cut(name, HEADER_WIDTH) for name in self.header]
        rows = [[name, *row[1:]] for name, row in zip(names, self.rows, strict=True)]
        short = Table(header, rows, self.align)
        kept = len(header)
        while kept > 2 and _width(short._widths()[:kept]) > width:
            kept -= 1
        left_out = ", ".join(header[kept:])
        notes = [*self.notes, *([f"left out for want of room: {left_out}"] if left_out else [])]
        rows = [row[:kept] for row in rows]
        return Table(header[:kept], rows, self.align[:kept], self.title, notes)

    def _widths(self) -> list[int]:
        lines = [self.header, *self.rows]
        return [max(len(line[i]) for line in lines) for i in range(len(self.header))]

    def to_markdown(self) -> str:
        """A GitHub table, the title above and the notes below it."""

        def join(cells: Iterable[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        head = [self.title, ""] if self.title else []
        rule = "|" + "|".join("---:" if side == "r" else "---" for side in self.align) + "|"
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([*head, join(self.header), rule, *map(join, self.rows), *notes]) + "\n"

    def to_latex(self) -> str:
        """A booktabs tabular to be \\input into a table; title and notes are comments."""

        def escape(cell: str) -> str:
            # A sign needs math mode, a hyphen between letters must not have it.
            parts = re.split(r"(?<![\w.])-(?=\d)", cell)
            return "$-$".join("".join(_LATEX.get(c, c) for c in part) for part in parts)

        def join(cells: Iterable[str]) -> str:
            return " & ".join(map(escape, cells)) + r" \\"

        comments = [f"% {line}" for line in (self.title, *self.notes) if line]
        begin, end = rf"\begin{{tabular}}{{{self.align}}}", r"\end{tabular}"
        body = [r"\toprule", join(self.header), r"\midrule", *map(join, self.rows), r"\bottomrule"]
        return "\n".join([*comments, begin, *body, end]) + "\n"

    def to_csv(self) -> str:
        """Header and rows; title and notes are left out."""
        out = io.StringIO()
        lines = ([plain_text(cell) for cell in line] for line in (self.header, *self.rows))
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()


_FORMULA = ("=", "+", "-", "@")
_VALUE = r"(inf|nan|[\d.,]+(e[+-]?\d+)?)"
_NUMBER = re.compile(
    rf"[+-]?{_VALUE}( ± (-|{_VALUE}))?( \[[\d., e+-]+\])?( \([\w .,=-]+\))?", re.IGNORECASE
)
"""With its interval, and what a table says of it in brackets."""


def plain_text(cell: str) -> str:
    """A cell of a CSV file as a spreadsheet takes it for text, or for the number that it is.

    One that begins as a formula does would be computed, and may call programs: names come from
    files of others. A quote before it, which spreadsheets know, makes it text. (A carriage return
    would end the line: Python writes it without quotes.)
    """
    cell = cell.replace("\r", " ")
    if not cell.lstrip().startswith(_FORMULA) or cell == NONE or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


NAME_WIDTH, HEADER_WIDTH = 20, 16
"""Characters of a name and of a header, where a terminal is too narrow for all of them."""


def _width(columns: Sequence[int]) -> int:
    return sum(columns) + 2 * (len(columns) - 1)


def _cut(text: str, size: int) -> str:
    """Both ends of a text that is too long."""
    if len(text) <= size:
        return text
    head = (size - 2) // 2
    return f"{text[:head]}..{text[len(text) - (size - 2 - head) :]}"


def _cut_apart(names: Sequence[str]) -> list[str]:
    """Names as short as they can be, and still be told apart."""
    for size in range(NAME_WIDTH, max(map(len, names), default=0)):
        short = [_cut(name, size) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


FORMATS: dict[str, Callable[[Table], str]] = {
    "txt": Table.to_text, "md": Table.to_markdown, "tex": Table.to_latex, "csv": Table.to_csv,
}  # fmt: skip
"""By suffix of a file."""


def short_count(steps: int) -> str:
    """6M for 6,000,000."""
    return f"{steps / 1e6:g}M" if steps >= 1_000_000 else f"{steps:,}"


def lengths(steps: Iterable[int]) -> str:
    """Of the runs of a table, each once: "20,000,000 or 8,000,000"."""
    return " or ".join(dict.fromkeys(f"{count:,}" for count in steps))


def places(value: float) -> int:
    """Decimals as in the paper: none from 100 on, one from 10 on, else two."""
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def number(value: float | None, sign: bool = False) -> str:
    """A number in the paper's format; `sign`: with a plus."""
    if value is None or math.isnan(value):
        return NONE
    return _decimals(value, places(value), sign)


def plus_minus(estimate: Estimate | None, sign: bool = False) -> str:
    """Mean ± half-width, with the decimals of the larger; a half-width is never shown as 0.

    Without an interval, a dash stands for it.
    """
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    half = 0.5 * (estimate.high - estimate.low)
    if math.isnan(half):
        return f"{number(estimate.mean, sign)} ± {NONE}"
    digits = min(places(estimate.mean), places(half))
    if 0.0 < half < 0.5 * 10**-digits:
        digits = min(-math.floor(math.log10(half)), 9)
    return f"{_decimals(estimate.mean, digits, sign)} ± {half:.{digits}f}"


def with_bounds(estimate: Estimate | None) -> str:
    """Mean [low, high], for an interval that is not symmetric; two decimals."""
    if estimate is None or math.isnan(estimate.mean):
        return NONE
    if math.isnan(estimate.low):
        return f"{estimate.mean:.2f} [{NONE}]"
    return f"{estimate.mean:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _decimals(value: float, digits: int, sign: bool) -> str:
    value = round(value, digits) + 0.0  # no "-0"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"

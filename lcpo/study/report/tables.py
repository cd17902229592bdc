"""A table of values and its renderers: terminal, Markdown, LaTeX, CSV (`html_table` has HTML).

    Table(
        ["agent", Column("seeds"), Column("return"), Column("paper")],
        [["lcpo", 8, Estimate(-231.0, -239.0, -223.0, 8), Printed.of("-240", "4")]],
        heading="Return of each agent",
        title="pendulum, trace 3",
        compared=("return", "paper"),
    )

A column given by its name alone holds text. Rows hold values (`lcpo.study.report.cells`), which
their columns format for readers. A CSV file has every number in full, and an estimate as four
columns (NAME_mean, _low, _high, _n). `compared` names our column and the paper's; the page shows
their difference.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from lcpo.study.report.cells import NONE, Cell, Column, Plain, parts

_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": r"\textbar{}", "±": r"$\pm$",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of values under their columns."""

    columns: Sequence[Column | str]
    """A name alone is a text column, aligned to the left."""
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    """Where and over how many steps and seeds; above the table in every format."""
    notes: Sequence[str] = ()
    compared: tuple[str, str] | None = None
    """The names of our column and the paper's that the page compares; None: it compares none."""
    heading: str = ""
    """What the table shows: its heading on the page, where the title is the caption."""

    def __post_init__(self) -> None:
        columns = tuple(
            Column(one, side="l") if isinstance(one, str) else one for one in self.columns
        )
        rows = tuple(tuple(map(_plain, row)) for row in self.rows)
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"{len(row)} cells under {len(columns)} columns: {row!r}")
        for name, value in (("columns", columns), ("rows", rows), ("notes", tuple(self.notes))):
            object.__setattr__(self, name, value)

    @property
    def every(self) -> tuple[Column, ...]:
        """All columns, including hidden ones."""
        return cast("tuple[Column, ...]", self.columns)

    @property
    def shown(self) -> list[Column]:
        return [column for column in self.every if not column.hidden]

    @property
    def header(self) -> list[str]:
        return [column.name for column in self.shown]

    def values(self) -> list[list[Cell]]:
        """The rows without hidden columns."""
        kept = [i for i, column in enumerate(self.every) if not column.hidden]
        return [[row[i] for i in kept] for row in self.rows]

    def texts(self) -> list[list[str]]:
        """The same, formatted for readers."""
        return [
            [column.text(cell) for column, cell in zip(self.shown, row, strict=True)]
            for row in self.values()
        ]

    def to_text(self, width: int | None = None) -> str:
        """For a terminal. With a width, long cells are wrapped; then the last columns that do not
        fit are left out, but never the first two."""
        header, rows, notes = [self.header], self.texts(), list(self.notes)
        if width is not None and _width([*header, *rows]) > width:
            header, rows = ([line for row in x for line in _wrapped(row)] for x in (header, rows))
            kept = len(self.shown)
            while kept > 2 and _width([line[:kept] for line in (*header, *rows)]) > width:
                kept -= 1
            header, rows = ([x[:kept] for x in lines if any(x[:kept])] for lines in (header, rows))
            if left_out := ", ".join(self.header[kept:]):
                notes.append(f"columns that do not fit: {left_out}")
        widths = [max(map(len, column)) for column in zip(*header, *rows, strict=True)]

        def join(cells: Sequence[str]) -> str:
            padded = (
                cell.rjust(width) if column.side == "r" else cell.ljust(width)
                for cell, width, column in zip(cells, widths, self.shown, strict=False)
            )
            return "  ".join(padded).rstrip()

        head = [self.title] if self.title else []
        rule = "  ".join("-" * width for width in widths)
        return "\n".join([*head, *map(join, header), rule, *map(join, rows), *notes]) + "\n"

    def to_markdown(self) -> str:
        """A GitHub table with the title above and the notes below it."""

        def join(cells: Iterable[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        head = [self.title, ""] if self.title else []
        rule = "|".join("---:" if column.side == "r" else "---" for column in self.shown)
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        body = [join(self.header), f"|{rule}|", *map(join, self.texts())]
        return "\n".join([*head, *body, *notes]) + "\n"

    def to_latex(self) -> str:
        """A booktabs tabular to \\input into a table; title and notes are comments."""

        def escape(cell: str) -> str:
            # A sign needs math mode, a hyphen between letters must not have it.
            pieces = re.split(r"(?<![\w.])-(?=\d)", cell)
            return "$-$".join("".join(_LATEX.get(c, c) for c in piece) for piece in pieces)

        def join(cells: Iterable[str]) -> str:
            return " & ".join(map(escape, cells)) + r" \\"

        comments = [f"% {line}" for line in (self.title, *self.notes) if line]
        sides = "".join(column.side for column in self.shown)
        begin, end = rf"\begin{{tabular}}{{{sides}}}", r"\end{tabular}"
        rows = map(join, self.texts())
        body = [r"\toprule", join(self.header), r"\midrule", *rows, r"\bottomrule"]
        return "\n".join([*comments, begin, *body, end]) + "\n"

    def to_csv(self) -> str:
        """Header and rows with every number in full, without title and notes."""
        data = self._data()
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n").writerow
        write(map(plain_text, data))
        for line in zip(*data.values(), strict=True):
            write([_in_full(value) for value in line])
        return out.getvalue()

    def records(self) -> list[dict[str, Plain]]:
        """The rows as in the CSV file, by the names of its columns."""
        data = self._data()
        return [dict(zip(data, line, strict=True)) for line in zip(*data.values(), strict=True)]

    def _data(self) -> dict[str, list[Plain]]:
        columns = {}
        for i, column in enumerate(self.every):
            found = [parts(row[i]) for row in self.rows]
            ends = dict.fromkeys(end for values in found for end in values) or {"": None}
            key = column.code
            while any(key + end in columns for end in ends):
                key += "_"
            columns |= {key + end: [values.get(end) for values in found] for end in ends}
        return columns


def _plain(cell: Any) -> Cell:
    return cell.item() if hasattr(cell, "item") else cell  # a number of NumPy's


def _in_full(value: Plain) -> str:
    if isinstance(value, str):
        return plain_text(value)
    return "" if value is None or value != value else str(value)


def plain_text(cell: str) -> str:
    """Text for a CSV file that no spreadsheet takes for a formula.

    A formula may call programs, and names come from other people's files. A leading quote makes it
    text. A carriage return would end the line, because Python does not quote it.
    """
    cell = cell.replace("\r", " ")
    is_formula = cell.lstrip().startswith(("=", "+", "-", "@")) and cell != NONE
    return f"'{cell}" if is_formula else cell


CELL_WIDTH = 20
"""Characters of a cell in a line, on a terminal that is too narrow for the whole table."""
PIECE = re.compile(rf"[^-, ]{{1,{CELL_WIDTH - 1}}}(?:[-, ](?!\d))?|.")
"""What a wrapped cell keeps in one line."""


def _wrapped(row: Sequence[str]) -> list[list[str]]:
    """The lines of a row whose long cells continue in the next line."""
    cells = []
    for text in row:
        lines = [""]
        for piece in PIECE.findall(text):
            if len(lines[-1] + piece) > CELL_WIDTH:
                lines.append("")
            lines[-1] += piece
        cells.append([line.strip() for line in lines])
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]


def _width(lines: Sequence[Sequence[str]]) -> int:
    columns = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return sum(columns) + 2 * (len(columns) - 1)


FORMATS: dict[str, Callable[[Table], str]] = {
    "txt": Table.to_text, "md": Table.to_markdown, "tex": Table.to_latex, "csv": Table.to_csv,
}  # fmt: skip
"""By file suffix."""

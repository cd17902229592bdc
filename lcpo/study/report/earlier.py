"""Tables of folders without report.json, made by earlier versions or by hand.

The only module that parses numbers in formatted text, because such folders hold nothing else.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence

from lcpo.study.report.cells import Cell, Column, Printed
from lcpo.study.report.tables import Table

RULE = r"\|(?:\s*:?-+:?\s*\|)+"
"""The line below the header of a table in Markdown."""
NUMBER = r"[+-]?(?:\d[\d,]*+\.?\d*+|\.\d++)(?:e[+-]?\d++)?"
"""Nothing is tried twice (`*+`): a cell of a thousand digits would take seconds."""
LEADING = re.compile(rf"[<>~ ]*+({NUMBER})(?: ± ({NUMBER})(?=$|\s))?(?=$|[\s%(\[±;])")
OURS = (r"ours", r"(return|reward) after .*", r"(return|reward)", r"p95", r"microseconds")
"""Columns that are compared with the paper's numbers, the best one first."""
PAPER = "paper"


def read_markdown(text: str) -> Table | None:
    """The first table of a Markdown file with title and notes; None if there is none.

    Rows may be shorter or longer than the header.
    """
    lines = text.splitlines()
    found = [i for i, line in enumerate(lines) if i and re.fullmatch(RULE, line.strip())]
    if not found:
        return None
    rule = found[0]
    header = _split(lines[rule - 1])
    rows, rest = [], rule + 1
    while rest < len(lines) and lines[rest].startswith("|"):
        rows.append(_fit(_split(lines[rest]), header))
        rest += 1
    sides = (_split(lines[rule]) + ["---"] * len(header))[: len(header)]
    columns = [
        Column(name, side="r" if side.endswith(":") else "l")
        for name, side in zip(header, sides, strict=True)
    ]
    title = " ".join(line.strip() for line in lines[: rule - 1] if line.strip())
    notes = [line.removeprefix("- ").strip() for line in lines[rest:] if line.strip()]
    return Table(columns, rows, title=title, notes=notes, compared=_compared(header))


def read_csv(text: str) -> Table:
    """Header and rows; a column of numbers is aligned to the right. Raises csv.Error."""
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    header, *body = lines or [[]]
    rows = [_fit(line, header) for line in body]
    columns = []
    for i, name in enumerate(header):
        known = [row[i] for row in rows if row[i] != ""]
        numbers = known and all(isinstance(cell, Printed) for cell in known)
        columns.append(Column(name, side="r" if numbers else "l"))
    return Table(columns, rows, compared=_compared(header))


def read_cell(text: str) -> Cell:
    """The number at the beginning of a text, which is shown as it is; else the text alone."""
    found = LEADING.match(text)
    if found is None or not math.isfinite(mean := _number(found[1])):
        return text
    half = _number(found[2]) if found[2] else None
    return Printed(text, mean, half, len(found[1].partition(".")[2]))


def _fit(line: Sequence[str], header: Sequence[str]) -> list[Cell]:
    return [read_cell(text) for text in [*line, *[""] * len(header)][: len(header)]]


def _split(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    cells = re.split(r"(?<!\\)\|", inner)
    return [re.sub(r"\\([|*])", r"\1", cell).strip() for cell in cells]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _compared(header: Sequence[str]) -> tuple[str, str] | None:
    """Our column and the paper's, by their names."""
    found = [name for pattern in OURS for name in header if re.fullmatch(pattern, name)]
    return (found[0], PAPER) if found and PAPER in header else None

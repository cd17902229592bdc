"""Pages that quote results: which numbers they have, and which cells those are.

A table below `<!-- results/FOLDER/FILE.md -->` is copied: rows of that file, with some of its
columns. Everything else that states a result (a paragraph, an item of a list, a row of a table) is
followed by a comment that a reader does not see:

    - After 6M steps of trace 4 LCPO is ahead of A2C by 15.1 ± 9.7.
      <!-- cells da79f8
      15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]
      -->

A line of it names the cell of a number (`quoted_cells`), or says that it is `no result: WHY`. A
line `see FILE[keys | column]` names cells of one row or several that a claim without a number rests
on; `< 0`, `> 0` or `~ 0` after it says that all of those intervals lie below, above or around zero,
`near paper` or `far from paper` whether they overlap the paper's in the same row, `all` or `none`
that counts are "8 of 8" or "0 of 8". A comment on a row of a table stands below the table:
`<!-- cells da79f8 row FIRST CELL`.

What a block names (agents, traces, windows) must be what some of its cells are about, and `da79f8`
seals the words of its claim (`quoted_words.seal`): where they change, a person has to compare them
with the cells again. `python tests/support/quoted.py PAGE` proposes cells for numbers that have
none, and seals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import quoted_cells as cells
import quoted_words as words

SOURCE = re.compile(r"<!-- (results/\S+) -->")
CELLS = re.compile(r"<!-- cells(?: ([0-9a-f]{6}))?(?: row (.+))?$")
MEASURED = re.compile(
    r"\bseeds\b|return after|\binteractions?\b|\bms\b|microseconds|end of A|whole step"
    r"|constraint active|best policy|P\(better\)|\(0, 0\)|LCPO \| A2C"
)
"""In the header of a table of measurements."""
RELATION = re.compile(r"(?<=\] )(?:[<>~] 0|all|none|near paper|far from paper)$")


class Note(NamedTuple):
    """A comment that names cells."""

    start: int
    """Of its lines, counted from 0."""
    stop: int
    seal: str
    entries: list[tuple[str, str]]
    """Number and expression."""
    evidence: list[tuple[str, str]]
    """Cells and relation."""


class Block(NamedTuple):
    """A paragraph, an item, or a row of a table; with what its comment says."""

    section: str
    start: int
    stop: int
    text: str
    row: str | None
    """The first cell of it, in a table."""
    measured: bool
    """Whether the table has measurements, by its header."""
    note: Note | None


class Copy(NamedTuple):
    """A table that is copied from a file, with the caption above it."""

    section: str
    source: str
    caption: str
    rows: list[list[str]]


class Page(NamedTuple):
    """What is on a page."""

    blocks: list[Block]
    copies: list[Copy]
    stray: list[int]
    """Lines at which a comment follows nothing that it could belong to."""


def parse(text: str) -> Page:
    """A page, line by line."""
    lines = text.split("\n")
    page, section, number = Page([], [], []), "", 0
    source: str | None = None
    caption = ""
    while number < len(lines):
        line = lines[number]
        marker = SOURCE.match(line.strip())
        if line.lstrip().startswith("```"):
            number = _end(lines, number + 1, lambda x: x.lstrip().startswith("```")) + 1
        elif line.startswith("#"):
            section, source, number = line, None, number + 1
        elif marker:
            source, caption, number = marker[1], "", number + 1
        elif match := CELLS.match(line.strip()):
            number = _attach(page, lines, number, match)
        elif line.lstrip().startswith("<!--"):
            number = _end(lines, number, lambda x: "-->" in x) + 1
        elif line.startswith("|"):
            stop = _end(lines, number, lambda x: not x.startswith("|"))
            rows = [cells.split_row(row) for row in lines[number:stop]]
            if source is not None:
                page.copies.append(Copy(section, source, caption, rows))
            else:
                page.blocks.extend(_rows(section, number, rows))
            source, number = None, stop
        elif line.strip():
            stop = _end(lines, number + 1, _begins)
            block = Block(section, number, stop, "\n".join(lines[number:stop]), None, False, None)
            if source is not None:
                caption = block.text
            else:
                page.blocks.append(block)
            number = stop
        else:
            number += 1
    return page


def _begins(line: str) -> bool:
    """Does something else begin with this line?"""
    return not line.strip() or bool(re.match(r"\s*(?:[-*] |\d+\. |\||#|<!--|```)", line))


def _end(lines: list[str], start: int, is_end: Callable[[str], bool]) -> int:
    return next((i for i in range(start, len(lines)) if is_end(lines[i])), len(lines))


def _rows(section: str, start: int, rows: list[list[str]]) -> Iterator[Block]:
    """Each cell with the name of its column, which is a part of what it says."""
    for i, row in enumerate(rows[2:], start + 2):
        text = " | ".join(f"{name} {cell}" for name, cell in zip(rows[0], row, strict=False))
        measured = bool(MEASURED.search(" | ".join(rows[0])))
        yield Block(section, i, i + 1, text, words.plain(row[0]), measured, None)


def _attach(page: Page, lines: list[str], start: int, match: re.Match[str]) -> int:
    """Read a comment, and give it to its block; returns the line after it."""
    stop = _end(lines, start, lambda x: x.strip().endswith("-->")) + 1
    body = [line.strip().removesuffix("-->").strip() for line in lines[start + 1 : stop]]
    entries, evidence = [], []
    for line in filter(None, body):
        if line.startswith("see "):
            relation = RELATION.search(line)
            word = relation[0] if relation else ""
            word = relation[0] if relation else ""
            evidence.append((line[4:].removesuffix(word).strip(), word))
        else:
            number, _, expression = line.partition(" = ")
            entries.append((number, expression))
    note = Note(start, stop, match[1] or "", entries, evidence)
    row = match[2].removesuffix("-->").strip() if match[2] else None
    for i in range(len(page.blocks) - 1, -1, -1):
        block = page.blocks[i]
        if block.row == row and block.note is None:
            page.blocks[i] = block._replace(note=note)
            return stop
        if row is None or block.row is None:
            break
    page.stray.append(start)
    return stop

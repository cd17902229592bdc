"""Pages that quote results: which numbers they have, and which cells those are.

A table below `<!-- results/FOLDER/FILE.md -->` is copied: rows of that file, with some of its
columns. Everything else that states a result (a paragraph, an item of a list, a row of a table, a
heading) has an entry in a file of its page, tests/study/cells/PAGE.txt:

    [da79f8] After 6M steps of trace 4 LCPO is ahead of A2C by ...
    15.1 ± 9.7 = -pendulum-trace4/table.md[a2c | minus lcpo]

A line of it names the cell of a number (`quoted_cells`), or says that it is `no result: WHY`. A
line `see FILE[keys | column]` names cells of one row or several that a claim without a number rests
on; `< 0`, `> 0` or `~ 0` after it says that all of those intervals lie below, above or around zero,
`near paper` or `far from paper` whether they overlap the paper's in the same row, `all` or `none`
that counts are "8 of 8" or "0 of 8". A blank line ends the entry.

`da79f8` seals the words of the claim (`quoted_words.seal`), and the entry belongs to the block with
that seal: when the words change, a person has to compare them with the cells again. The first words
help to find the block. What a block names (agents, traces, windows) must be what some of its cells
are about. `python tests/support/quoted.py PAGE` proposes and re-seals entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import quoted_cells as cells
import quoted_words as words

SOURCE = re.compile(r"<!-- (results/\S+) -->")
HEAD = re.compile(r"\[([0-9a-f]{6})\] (.+)")
MEASURED = re.compile(
    r"\bseeds\b|return after|\binteractions?\b|\bms\b|microseconds|end of A|whole step"
    r"|constraint active|best policy|P\(better\)|\(0, 0\)|LCPO \| A2C"
)
"""In the header of a table of measurements."""
EVIDENCE = re.compile(r"see (.+?)(?: ([<>~] 0|all|none|near paper|far from paper))?")


class Note(NamedTuple):
    """An entry: the cells of a block."""

    line: int
    """Of its file, where it begins."""
    seal: str
    head: str
    """The first words of the block."""
    lines: tuple[str, ...]

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Number and expression."""
        parts = [line.partition(" = ") for line in self.lines if not line.startswith("see ")]
        return [(number, expression) for number, _, expression in parts]

    @property
    def evidence(self) -> list[tuple[str, str]]:
        """Cells and relation."""
        return [(m[1], m[2] or "") for m in map(EVIDENCE.fullmatch, self.lines) if m]


class Block(NamedTuple):
    """A paragraph, an item, a row of a table, or a heading that compares; with its entry."""

    section: str
    start: int
    text: str
    row: str | None
    """The cells of it without their columns, in a table."""
    measured: bool
    """Whether the table has measurements, by its header."""
    note: Note | None

    @property
    def seal(self) -> str:
        """Of its words; empty where it claims nothing, as a bare link."""
        return words.seal(words.plain(self.text))


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
    unused: list[Note]
    """Entries whose claim was edited or removed."""


def file_of(name: str) -> Path:
    """Where the entries of a page are."""
    return cells.ROOT / "tests" / "study" / "cells" / f"{name}.txt"


def notes_of(name: str) -> str:
    """The entries of a page, as text."""
    return file_of(name).read_text(encoding="utf-8") if file_of(name).is_file() else ""


def read_notes(text: str) -> list[Note]:
    """The entries of a file; ValueError where one does not begin with its seal."""
    found = []
    for entry in re.finditer(r"(?:.+(?:\n|$))+", text):
        first, *lines = entry[0].splitlines()
        number = text.count("\n", 0, entry.start()) + 1
        head = HEAD.fullmatch(first)
        if head is None:
            raise ValueError(f"line {number} is not '[SEAL] first words': {first}")
        found.append(Note(number, head[1], head[2], tuple(lines)))
    return found


def parse(text: str, notes: str) -> Page:
    """A page with its entries. Of several with the same seal, blocks take one each, in order."""
    page, known = _parse(text), read_notes(notes)
    waiting: dict[str, list[Note]] = {}
    for note in known:
        waiting.setdefault(note.seal, []).append(note)
    for i, block in enumerate(page.blocks):
        if mine := waiting.get(block.seal):
            page.blocks[i] = block._replace(note=mine.pop(0) if len(mine) > 1 else mine[0])
    used = {block.note for block in page.blocks}
    page.unused.extend(note for note in known if note not in used)
    return page


def _parse(text: str) -> Page:
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
            above = section.split(" ### ")[0] if line.startswith("### ") else ""
            section, source, title = f"{above} {line}".lstrip(), None, line.lstrip("# ")
            if words.compares(title):
                page.blocks.append(Block(section, number, title, None, False, None))
            number += 1
        elif marker:
            source, caption, number = marker[1], "", number + 1
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
            block = Block(section, number, "\n".join(lines[number:stop]), None, False, None)
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
        yield Block(section, i, text, words.plain(" | ".join(row)), measured, None)

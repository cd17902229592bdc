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
RESULT = re.compile(
    rf"(?<![\w.]){cells.INTERVAL.pattern}"
    r"|(?<!\d )(?<![\w,.-])\d{1,3} of (?:the |those )?\d{1,3}(?!\d|,\d| \d{3})"
    r"|(?<![\w.)\]-])-\d{3,4}(?:\.\d+)?(?!\.?\d|[A-Za-z-])"
)
"""Intervals, counts and returns: numbers that must have a cell."""
MEASURED = re.compile(
    r"\bseeds\b|return after|\binteractions?\b|\bms\b|microseconds|end of A|whole step"
    r"|constraint active|best policy|P\(better\)|\(0, 0\)|LCPO \| A2C"
)
"""In the header of a table of measurements."""
RELATION = re.compile(r"(?<=\] )(?:[<>~] 0|all|none|near paper|far from paper)$")
NO_RESULT = "no result: "
"""Of examples and of facts about code."""
LINK = re.compile(r"\]\([./]*results/[^)]+/[^)]+\.(?:md|csv)\)")
OF_RESULTS = ("docs/results.md", "docs/which_agent.md")


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


def results_in(text: str) -> list[str]:
    """The numbers of a block that must have a cell."""
    return [match[0] for match in RESULT.finditer(words.plain(text))]


def is_of_results(page: str, section: str) -> bool:
    """Does a section compare agents, so that what it says without a number needs cells, too?"""
    if page == "README.md":
        return section in ("## What it shows", "## Speed")
    return page in OF_RESULTS or section.startswith("## Results")


def check(name: str, text: str) -> list[str]:
    """Everything that is wrong with a page."""
    page = parse(text)
    problems = [f"{name}:{line + 1}: this comment belongs to nothing" for line in page.stray]
    for block in page.blocks:
        found = check_block(block, is_of_results(name, block.section))
        problems += [f"{name}:{block.start + 1}: {problem}" for problem in found]
    tables = [problem for copy in page.copies for problem in check_copy(copy)]
    return problems + [f"{name}: {problem}" for problem in tables + check_headings(page)]


def check_block(block: Block, verdicts: bool) -> list[str]:
    """What is wrong with a block. `verdicts`: who is better, without a number, needs cells, too."""
    text, note = words.plain(block.text), block.note
    needed = results_in(block.text)
    if note is None:
        if needed:
            return [f"no comment names the cells of {', '.join(needed)}"]
        wanted = block.measured or LINK.search(block.text) or (verdicts and words.compares(text))
        return ["no comment names the cells that this rests on"] if wanted else []
    problems, placed = _check_entries(text, note.entries)
    problems += _without_a_line(text, placed)
    evidence: list[cells.Cell] = []
    for name, relation in note.evidence:
        found, wrong = check_evidence(name, relation)
        evidence, problems = evidence + found, problems + wrong
    problems += _check_names(text, block, placed, evidence)
    if note.seal != words.seal(text):
        problems.append(f"the claim has changed since it was sealed: {words.seal(text)}")
    return problems


class Placed(NamedTuple):
    """A number in a text, and its cells."""

    start: int
    stop: int
    cells: list[cells.Cell]


def _check_entries(text: str, entries: list[tuple[str, str]]) -> tuple[list[str], list[Placed]]:
    """The numbers that a comment names, where they stand, and which of them are wrong."""
    problems: list[str] = []
    placed: list[Placed] = []
    for number, expression in entries:
        start = placed[-1].stop if placed else 0
        place = re.compile(rf"(?<![\d.,])(?:{re.escape(number)})(?!\d|[.,]\d)").search(text, start)
        if place is None:
            problems.append(f"'{number}' is not in the text, or not in this order")
            continue
        placed.append(Placed(*place.span(), []))
        if expression.startswith(NO_RESULT):
            continue
        try:
            value = cells.evaluate(expression)
        except ValueError as error:
            problems.append(f"{number}: {error}")
            continue
        placed[-1].cells.extend(value.cells)
        if not cells.agrees(number, value.shown):
            problems.append(f"'{number}', but {expression} is {value.shown}")
    return problems, placed


def _without_a_line(text: str, placed: list[Placed]) -> list[str]:
    return [
        f"no line names the cell of '{match[0]}'"
        for match in RESULT.finditer(text)
        if not any(p.start <= match.start() and match.end() <= p.stop for p in placed)
    ]


def _check_names(
    text: str, block: Block, placed: list[Placed], evidence: list[cells.Cell]
) -> list[str]:
    """What is named beside a number, one of its cells must be about, or a cell it rests on."""
    rest = [cell.words for cell in evidence]
    missing = words.unsupported(
        _claim(text, block), [*rest, *(cell.words for p in placed for cell in p.cells)]
    )
    start = 0
    for end in [*(match.end() for match in re.finditer(r"[.;:|] ", text)), len(text)]:
        here = [cell.words for p in placed if start <= p.start < end for cell in p.cells]
        missing += words.unsupported(text[start:end], [*here, *rest]) if here else []
        start = end
    return [f"{name} is named, and no cell is about it" for name in dict.fromkeys(missing)]


def _claim(text: str, block: Block) -> str:
    """Of a row of a table: the cells that have results, if any has."""
    parts = [part for part in text.split(" | ") if RESULT.search(part)]
    return " | ".join(parts) if block.row is not None and parts else text


def check_evidence(name: str, relation: str) -> tuple[list[cells.Cell], list[str]]:
    """The cells that a claim rests on, and where they do not bear it out."""
    term = cells.TERM.fullmatch(name)
    if term is None:
        return [], [f"cannot read 'see {name}'"]
    try:
        found = cells.parse_term(term)
    except ValueError as error:
        return [], [str(error)]
    problems = [
        f"see {name}: {cell.row} has {cell.shown}, not {relation}"
        for cell in found
        if relation and not _bears_out(cell, relation)
    ]
    return found, problems


def _bears_out(cell: cells.Cell, relation: str) -> bool:
    if count := cells.COUNT.fullmatch(cell.shown):
        return relation == {count[2]: "all", "0": "none"}.get(count[1])
    interval = _interval(cell.shown)
    if interval is None:
        return False
    mean, half = interval
    if relation.endswith("paper"):
        theirs = _interval(cell.row[cell.table.header.index("paper")])
        near = theirs is not None and abs(mean - theirs[0]) <= half + theirs[1]
        return near == (relation == "near paper")
    return relation == ("~ 0" if abs(mean) <= half else "> 0" if mean > 0 else "< 0")


def _interval(shown: str) -> tuple[float, float] | None:
    match = cells.INTERVAL.match(shown)
    return (float(match[1]), float(match[2])) if match else None


def check_headings(page: Page) -> list[str]:
    """What a heading names, a table below it must be about."""
    below: dict[str, list[str]] = {}
    for copy in page.copies:
        table = cells.read(copy.source.removeprefix("results/"))
        traced = table.header.index("trace") if "trace" in table.header else None
        rows = [f"trace {row[traced]}" for row in table.rows if traced is not None]
        all_words = [copy.source, table.title, *rows, *(cell for row in copy.rows for cell in row)]
        below.setdefault(copy.section, []).append(" | ".join(all_words))
    return [
        f"{heading}: {name} is named, and no table below is about it"
        for heading, tables in below.items()
        for name in words.unsupported(heading, tables)
        if not name.startswith("window")
    ]


def check_copy(copy: Copy) -> list[str]:
    """Every row is one of the file's, in its order, with some of its columns."""
    file = copy.source.removeprefix("results/")
    table = cells.read(file)
    problems = []
    if copy.caption and copy.caption not in (cells.RESULTS / file).read_text():
        problems.append(f"{copy.source} does not say: {copy.caption}")
    header = copy.rows[0]
    if header == table.header:
        columns = list(range(len(header)))
    elif set(header) <= set(table.header):
        columns = [table.header.index(name) for name in header]
    else:
        return [f"{copy.source} has no column {sorted(set(header) - set(table.header))}"]
    if columns != sorted(columns):
        problems.append(f"{copy.source} has its columns in another order")
    known = [[row[i] for i in columns] for row in _as_written(file)]
    for row in copy.rows[2:]:
        if row not in known:
            return [*problems, f"{copy.source} has no row {row}, or not in this order"]
        known = known[known.index(row) + 1 :]
    return problems


def _as_written(file: str) -> list[list[str]]:
    lines = (cells.RESULTS / file).read_text(encoding="utf-8").split("\n")
    return [cells.split_row(line) for line in lines if line.startswith("|")][2:]

"""Is what pages say of results what their cells say? `quoted_pages` has the notation."""

from __future__ import annotations

import re
from typing import NamedTuple

import quoted_cells as cells
import quoted_words as words
from quoted_pages import Block, Copy, Page, file_of, parse

RESULT = re.compile(
    rf"(?<![\w.]){cells.INTERVAL.pattern}"
    r"|(?<!\d )(?<![\w,.-])\d{1,3} of (?:the |those )?\d{1,3}(?!\d|,\d| \d{3})"
    r"|(?<![\w.)\]-])-\d{3,4}(?:\.\d+)?(?!\.?\d|[A-Za-z-])"
)
"""Intervals, counts and returns: numbers that must have a cell."""
NO_RESULT = "no result: "
"""Of examples and of facts about code."""
LINK = re.compile(r"\]\([./]*results/([^)]+/[^)]+\.(?:md|csv))\)")
OF_RESULTS = ("docs/results.md", "docs/where_lcpo_loses.md", "docs/which_agent.md")


def results_in(text: str) -> list[str]:
    """The numbers of a block that must have a cell."""
    return [match[0] for match in RESULT.finditer(words.plain(text))]


def is_of_results(page: str, section: str) -> bool:
    """Does a section compare agents, so that what it says without a number needs cells, too?"""
    if page.startswith("docs/results/"):
        return True
    if page == "README.md":
        return section.startswith(("## When to use it", "## Benchmarks"))
    return page in OF_RESULTS or section.startswith("## Results")


def check(name: str, text: str, notes: str) -> list[str]:
    """Everything that is wrong with a page, or with its entries."""
    page = parse(text, notes)
    problems = []
    for block in page.blocks:
        found = check_block(block, is_of_results(name, block.section))
        problems += [f"{name}:{block.start + 1}: {problem}" for problem in found]
    for note in page.unused:
        where = f"{file_of(name).relative_to(cells.ROOT)}:{note.line}"
        problems.append(f"{where}: the claim was edited or removed: [{note.seal}] {note.head}")
    tables = [problem for copy in page.copies for problem in check_copy(copy)]
    return problems + [f"{name}: {problem}" for problem in tables + check_headings(page)]


def check_block(block: Block, verdicts: bool) -> list[str]:
    """What is wrong with a block. `verdicts`: who is better, without a number, needs cells, too."""
    text, note = words.plain(block.text), block.note
    needed = results_in(block.text)
    if note is None:
        missing = f"no entry with the seal {block.seal} names the cells"
        if needed:
            return [f"{missing} of {', '.join(needed)}"]
        wanted = block.measured or LINK.search(block.text) or (verdicts and words.compares(text))
        return [f"{missing} that this rests on"] if wanted and block.seal else []
    problems, placed = _check_numbers(text, note.numbers)
    problems += _without_a_line(text, placed)
    evidence: list[cells.Cell] = []
    for name, relation in note.evidence:
        found, wrong = check_evidence(name, relation)
        evidence, problems = evidence + found, problems + wrong
    return problems + _check_names(text, block, placed, evidence)


class Placed(NamedTuple):
    """A number in a text, and its cells."""

    start: int
    stop: int
    cells: list[cells.Cell]


def _check_numbers(text: str, numbers: list[tuple[str, str]]) -> tuple[list[str], list[Placed]]:
    """The numbers that an entry names, where they stand, and which of them are wrong."""
    problems: list[str] = []
    placed: list[Placed] = []
    for number, expression in numbers:
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
    """Every row is one of the file's, in its order, with some of its columns in any order."""
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
    known = [[row[i] for i in columns] for row in _as_written(file)]
    for row in copy.rows[2:]:
        if row not in known:
            return [*problems, f"{copy.source} has no row {row}, or not in this order"]
        known = known[known.index(row) + 1 :]
    return problems


def _as_written(file: str) -> list[list[str]]:
    lines = (cells.RESULTS / file).read_text(encoding="utf-8").split("\n")
    return [cells.split_row(line) for line in lines if line.startswith("|")][2:]

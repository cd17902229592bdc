"""What README and docs quote is what the files in results/ say.

A table of measurements stands below a marker, `<!-- results/FOLDER/FILE.md -->`: each of its rows
is a row of that file, with all of its columns or some. A "mean ± half-width" in a sentence, and a
return of three digits or more, stands in a file that its section names (by such a marker, or by
`<!-- numbers: results/FOLDER/FILE.md -->` for sentences alone) or in results/quotes.csv. In a table
of words, below `<!-- rows name their files -->`, they stand in a file that the row links.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

MARKER = re.compile(r"<!-- (numbers: )?(results/\S+) -->")
OWN_FILES = "<!-- rows name their files -->"
LINK = re.compile(r"\((?:\.\./)*(results/[^)]+)\)")
MEASURED = re.compile(
    r"\bseeds\b|return after|\binteractions?\b|\bms\b|microseconds|end of A|whole step"
    r"|constraint active|best policy|P\(better\)|\(0, 0\)|\| LCPO \| A2C"
)
"""In the header of a table of measurements. One with "-375 ± 4" in a row is one as well."""
INTERVAL = re.compile(r"(?<![\w.])[+-]?(\d[\d.]*) (?:±|\+-) (\d[\d.]*\d|\d)")
RETURN = re.compile(r"(?<![\w.-])-(\d{3,4}(?:\.\d+)?)(?![\d.]*\d| (?:±|\+-))")


class Quote(NamedTuple):
    """A Markdown table, as rows of cells, and the file that it says it is from."""

    source: str | None
    rows: list[list[str]]


class Section(NamedTuple):
    """What stands below a heading."""

    heading: str
    quotes: list[Quote]
    sources: list[str]
    text: str
    """Without tables, code and markers."""


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def sections(page: str) -> Iterator[Section]:
    """Of a page; a marker is for the next table."""
    page = re.sub(r"```.*?```", "", page, flags=re.S)
    for part in re.split(r"^(?=#+ )", page, flags=re.M):
        quotes: list[Quote] = []
        sources, text, source, rows = [], [], None, []
        for line in [*part.split("\n"), ""]:
            marker = MARKER.search(line)
            if line.startswith("|"):
                rows.append(cells(line))
                continue
            if rows:
                quotes.append(Quote(source, rows))
                source, rows = None, []
            if line == OWN_FILES:
                source = OWN_FILES
            elif marker:
                sources.append(marker[2])
                source = source if marker[1] else marker[2]
            else:
                text.append(line)
        yield Section(part.split("\n")[0], quotes, sources, "\n".join(text))


def table_of(source: str) -> list[list[str]]:
    """The table of a Markdown file, as rows of cells; the header is the first."""
    lines = (ROOT / source).read_text().split("\n")
    rows = [cells(line) for line in lines if line.startswith("|")]
    return [rows[0], *rows[2:]]


def check_quote(quote: Quote) -> None:
    """Every row is one of the file's, in its order, with some of its columns."""
    assert quote.source is not None
    header, *known = table_of(quote.source)
    whole = quote.rows[0] == header
    columns = list(range(len(header))) if whole else [header.index(n) for n in quote.rows[0]]
    assert columns == sorted(columns)
    rows = [[row[i] for i in columns] for row in known]
    for row in quote.rows[2:]:
        assert row in rows, f"{quote.source} has no row {row}"
        rows = rows[rows.index(row) + 1 :]


def check_rows(quote: Quote) -> None:
    """Every number of a row stands in a file that the row links."""
    for row in quote.rows[2:]:
        line = " | ".join(row)
        known = numbers_in("\n".join((ROOT / file).read_text() for file in LINK.findall(line)))
        quoted = [f"{mean} ± {half}" for mean, half in INTERVAL.findall(line)]
        for number in [*quoted, *RETURN.findall(line)]:
            assert number in known, f"row {row[0]}: no file that it links has {number}"


def is_measured(quote: Quote) -> bool:
    header = " | ".join(quote.rows[0])
    rows = "\n".join(" | ".join(row) for row in quote.rows)
    return bool(MEASURED.search(header) or INTERVAL.search(rows))


def quoted_lines() -> list[list[str]]:
    with (RESULTS / "quotes.csv").open(encoding="utf-8") as file:
        return list(csv.reader(file))


def numbers_in(text: str) -> set[str]:
    """Intervals as "mean ± half", and plain numbers, without sign."""
    found = {f"{mean} ± {half}" for mean, half in INTERVAL.findall(text)}
    return found | set(re.findall(r"\d+(?:\.\d+)?", text))


@pytest.mark.parametrize("name", NAMES)
def test_quoted_tables_are_the_files_tables(name: str) -> None:
    for section in sections((ROOT / name).read_text()):
        for quote in section.quotes:
            if quote.source == OWN_FILES:
                check_rows(quote)
            elif quote.source is not None:
                check_quote(quote)
            else:
                assert not is_measured(quote), f"{section.heading}: no marker: {quote.rows[0]}"


@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_sentences_are_the_files_numbers(name: str) -> None:
    by_script = numbers_in("\n".join(line[4] for line in quoted_lines()))
    for section in sections((ROOT / name).read_text()):
        known = by_script | numbers_in(
            "\n".join((ROOT / source).read_text() for source in section.sources)
        )
        for mean, half in INTERVAL.findall(section.text):
            assert f"{mean} ± {half}" in known, f"{section.heading}: {mean} ± {half}"
        if section.sources:
            for number in RETURN.findall(section.text):
                assert number in known, f"{section.heading}: -{number}"


def test_every_source_says_how_it_was_made() -> None:
    sources = {s for page in PAGES for part in sections(page.read_text()) for s in part.sources}
    assert len(sources) > 20
    for source in sources:
        made = json.loads((ROOT / source).parent.joinpath("made.json").read_text())
        assert made["command"], source
        assert made["commit"], source


def test_quotes_are_what_the_script_computes() -> None:
    path = ROOT / "benchmarks" / "quotes.py"
    spec = importlib.util.spec_from_file_location("quotes", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert quoted_lines() == [script.HEADER, *script.lines()]


def test_a_changed_digit_is_found() -> None:
    """Of a table and of a sentence."""
    page = (ROOT / "docs/results.md").read_text()
    (right,) = [s for s in sections(page) if s.heading == "## Windy Pendulum, trace 4"]
    (quote,) = right.quotes
    check_quote(quote)
    for i, row in enumerate(quote.rows[2:], 2):
        for j, cell in enumerate(row):
            if any(c.isdigit() for c in cell):
                digit = re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), cell, count=1)
                changed = [*row[:j], digit, *row[j + 1 :]]
                rows = [*quote.rows[:i], changed, *quote.rows[i + 1 :]]
                with pytest.raises(AssertionError, match="has no row"):
                    check_quote(quote._replace(rows=rows))

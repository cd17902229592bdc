"""Cells of the files in results/, and how a page names them.

rivals/table.md[all; a2c | whole run]   of results/, the row with these cells, this column
-quotes.csv[...]                      as the other one sees it: b - a for a - b, 8 for 82 of 90
A + B, A - B                          of counts or plain numbers
A of 8                                a plain count, of so many
"""

from __future__ import annotations

import csv
import functools
import itertools
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAPER = ROOT / "lcpo" / "study" / "data"

NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
INTERVAL = re.compile(rf"({NUMBER}) (?:±|\+-) (\d+(?:\.\d+)?)")
COUNT = re.compile(r"(\d+) of (?:the |those )?(\d+)")
TERM = re.compile(r"\s*([+-]?)\s*(-?)([\w./-]+)\[((?:[^][|]|\[[^][]*\])*)(?:\|([^\]]*))?\]")


class Table(NamedTuple):
    """A file, as text; empty cells of the first column repeat the one above."""

    title: str
    header: list[str]
    rows: list[list[str]]


class Cell(NamedTuple):
    """What stands in a row and column, and the words that say what it is."""

    file: str
    table: Table
    row: list[str]
    column: str
    shown: str

    @property
    def words(self) -> str:
        """Names of agents, traces and windows are looked for here."""
        header = self.table.header
        names = [
            f"trace {cell}" if name == "trace" else cell
            for name, cell in zip(header, self.row, strict=False)
        ]
        against = [name.replace("minus", "against", 1) for name in header if "minus " in name]
        late = any(name.startswith(("return after", "reward after")) for name in header)
        window = {"better on": "whole run", "better then on": "after warm-up"}.get(self.column, "")
        if late and self.column.startswith(("P(better)", "minus ")) and "run" not in self.column:
            window = "after warm-up"
        return " | ".join([self.file, self.table.title, *against, *names, self.column, window])


def split_row(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip()[1:].rstrip("|"))
    return [cell.strip().replace("\\|", "|") for cell in cells]


@functools.cache
def read(file: str) -> Table:
    """A CSV file, or the table of a Markdown file."""
    path = PAPER / file.removeprefix("paper/") if file.startswith("paper/") else RESULTS / file
    if not path.is_file():
        raise ValueError(f"there is no such file: {file}")
    if path.suffix == ".csv":
        with path.open(encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        return Table("", header, rows)
    lines = path.read_text(encoding="utf-8").split("\n")
    title = lines[0] if not lines[0].startswith("|") else ""
    header, _, *rows = [split_row(line) for line in lines if line.startswith("|")]
    for above, row in itertools.pairwise(rows):
        row[0] = row[0] or above[0]
    return Table(title, header, rows)


def places(keys: list[str], row: list[str]) -> list[int] | None:
    """Where the keys stand in a row, in this order; None where they do not."""
    found, start = [], 0
    for key in keys:
        if key not in row[start:]:
            return None
        found.append(row.index(key, start))
        start = found[-1] + 1
    return found


def find(file: str, keys: list[str], column: str) -> list[Cell]:
    """The cells of all rows that have the keys."""
    table, found = read(file), []
    named = [i for i, name in enumerate(table.header) if name == column]
    if not named:
        raise ValueError(f"results/{file} has no column '{column}': {table.header}")
    for row in table.rows:
        there = places(keys, row)
        if there is not None:
            after = [i for i in named if not there or i > there[-1]]
            place = (after or named)[0]
            found.append(Cell(file, table, row, column, row[place]))
    if not found:
        raise ValueError(f"results/{file} has no row with {keys}")
    return found


def parse_term(term: re.Match[str]) -> list[Cell]:
    """The cells that FILE[keys | column] names."""
    keys = [key.strip() for key in term[4].split("; ") if key.strip()]
    column = (term[5] or ("difference" if term[3] == "quotes.csv" else "")).strip()
    return find(term[3], keys, column)


def flipped(shown: str) -> str:
    """As the other one sees it."""
    if count := COUNT.fullmatch(shown):
        return f"{int(count[2]) - int(count[1])} of {count[2]}"
    if shown[:1] in "+-" and len(shown) > 1:
        return {"+": "-", "-": "+"}[shown[0]] + shown[1:]
    return f"-{shown}"


class Value(NamedTuple):
    """What an expression says, and the cells that it is made of."""

    shown: str
    cells: list[Cell]


@functools.cache
def evaluate(expression: str) -> Value:
    """Of `A`, `-A`, `A + B`, `A - B` or `A of 8`, each naming one row; ValueError otherwise."""
    whole = re.search(r"\] of (\d+)$", expression)
    rest, cells, shown = expression, [], []
    while term := TERM.match(rest):
        found = parse_term(term)
        if len(found) != 1:
            raise ValueError(f"{len(found)} rows fit {term[0].strip()}: name one")
        cells += found
        turned = term[2] or (term[1] == "-" and not shown)
        one = flipped(found[0].shown) if turned else found[0].shown
        shown.append(("+" if turned else term[1] or "+", one))
        rest = rest[term.end() :]
    if not shown or (rest.strip() and not whole):
        raise ValueError(f"cannot read '{expression}'")
    if len(shown) == 1:
        one = shown[0][1]
        return Value(f"{one} of {whole[1]}" if whole else one, cells)
    counts = [COUNT.fullmatch(one) for _, one in shown]
    if all(counts):
        parts = [(int(count[1]), int(count[2])) for count in counts if count]
        return Value(f"{sum(n for n, _ in parts)} of {sum(m for _, m in parts)}", cells)
    total = sum(float(one.split(" ")[0]) * (-1 if sign == "-" else 1) for sign, one in shown)
    return Value(f"{total:.10g}", cells)


def agrees(quoted: str, shown: str) -> bool:
    """Is it what the page says?

    "+34.1 ± 5.8" may be quoted without its plus, "82 of 90" as 82, and 84.1 % as 84 %. A number
    that is negative must be quoted as such: `-A` names it where a sentence turns it round.
    """
    quoted = quoted.replace("+-", "±").replace("the ", "").replace("those ", "")
    if quoted == shown or f"+{quoted}" == shown:
        return True
    mine = re.match(NUMBER, quoted)
    theirs = re.match(NUMBER, shown)
    if "±" in quoted or COUNT.search(quoted) or not mine or not theirs:
        return False
    digits = len(mine[0].partition(".")[2])
    x, y = (float(m[0].replace(",", "")) for m in (mine, theirs))
    signed = mine[0][0] in "+-" or y >= 0
    return signed and abs(x - y) <= 0.501 * 10.0**-digits

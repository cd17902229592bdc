"""Propose cells for the numbers of pages, and seal claims: python tests/support/quoted.py PAGE ...

For every block that needs a comment and has none, it writes one with the cells that fit best: read
them before you commit them. `?` stands where no file has the number. A comment that is there keeps
its cells; if all of them hold, the words are sealed anew. See `quoted_pages`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import quoted_cells as cells
import quoted_checks as checks
import quoted_pages as pages
import quoted_words as words


@functools.cache
def index() -> dict[str, list[tuple[str, cells.Cell]]]:
    """Expressions by what they say, for every cell of the files in results/."""
    found: dict[str, list[tuple[str, cells.Cell]]] = {}
    files = [str(path.relative_to(cells.RESULTS)) for path in sorted(cells.RESULTS.glob("*/*.md"))]
    for file in [*files, "quotes.csv"]:
        table = cells.read(file)
        for row in table.rows:
            for i, column in enumerate(table.header[: len(row)]):
                if file == "quotes.csv" and column != "difference":
                    continue
                if not any(c.isdigit() for c in row[i]):
                    continue
                name = f"{file}[{'; '.join(_keys(table, row))} | {column}]"
                name = name.replace(" | difference]", "]")
                cell = cells.Cell(file, table, row, column, row[i])
                found.setdefault(row[i].lstrip("+"), []).append((name, cell))
                turned = cells.flipped(row[i]).lstrip("+")
                found.setdefault(turned, []).append((f"-{name}", cell))
    return found


def _keys(table: cells.Table, row: list[str]) -> list[str]:
    """The first cells of a row, as many as no other row has; of a difference, all that it is of."""
    if table.header[0] == "number":
        return [key for key in row[:4] if key]
    for count in range(1, len(row) + 1):
        keys = [key for key in row[:count] if key]
        if sum(cells.places(keys, other) is not None for other in table.rows) == 1:
            return keys[1:] if keys[0] == "pendulum" else keys
    return row


def best(number: str, text: str, at: int, section: str, near: set[str], used: list[str]) -> str:
    """The expression that fits a number best, by what stands around it."""
    quoted = number.replace("the ", "").replace("those ", "").lstrip("+")
    ranked = []
    sentence = text[max(text.rfind(". ", 0, at), text.rfind(": ", 0, at), 0) : at + 60]
    around = f"{section} {text}"
    for name, cell in index().get(quoted, []):
        score = 4.0 * (cell.file in near) - 6.0 * (name in used)
        for find in (words.agents, words.traces, words.windows, words.families):
            there = find(cell.words)
            score += 2 * len(there & find(around)) - 2 * len(there - find(around) - {"lcpo"})
            score += len(there & find(sentence))
        score -= 1.0 * name.startswith("-") + 0.5 * (cell.column == "paper")
        place = max((text.rfind(x, 0, at) for x in _forms(cell)), default=-1)
        ranked.append((score + place / 1000.0, name))
    return max(ranked)[1] if ranked else "?"


def _forms(cell: cells.Cell) -> list[str]:
    """How a text may call the row of a cell."""
    rows = " ".join(cell.row)
    return [f for a in words.agents(rows) for f in (a, a.upper(), a.replace("-", " "))] + [
        f"trace {t}" for t in words.traces(cell.words)
    ]


def comment(block: pages.Block, page: pages.Page) -> list[str]:
    """Lines of a new one."""
    text, used = words.plain(block.text), []
    near = {c.source.removeprefix("results/") for c in page.copies if c.section == block.section}
    near |= {link.split("results/")[1] for link in _links(block.text)}
    at, entries = 0, []
    for number in checks.results_in(block.text):
        at = text.index(number, at)
        used.append(best(number, text, at, block.section, near, used))
        entries.append(f"{number} = {used[-1]}")
        at += len(number)
    row = "" if block.row is None else f" row {block.row}"
    indent = "  " if block.text.startswith("- ") else ""
    lines = [
        f"<!-- cells {words.seal(text)}{row}",
        *entries,
        *([] if entries else ["see ?"]),
        "-->",
    ]
    return [indent + line for line in lines]


def _links(text: str) -> list[str]:
    return [part.split(")")[0] for part in text.split("](")[1:] if "results/" in part.split(")")[0]]


def annotate(path: Path) -> list[str]:
    """Write comments that are missing, and seals; returns what is left to a person."""
    lines, left = path.read_text(encoding="utf-8").split("\n"), []
    page = pages.parse("\n".join(lines))
    inserted: dict[int, list[str]] = {}
    inside = path.resolve().is_relative_to(cells.ROOT)
    name = str(path.resolve().relative_to(cells.ROOT)) if inside else path.name
    for block in page.blocks:
        problems = checks.check_block(block, checks.is_of_results(name, block.section))
        if block.note is None and problems:
            after = block.stop
            while block.row is not None and after < len(lines) and lines[after].startswith("|"):
                after += 1
            inserted.setdefault(after, []).extend(comment(block, page))
        elif block.note is not None and problems:
            mine = words.seal(words.plain(block.text))
            if all("sealed" in problem for problem in problems):
                first = lines[block.note.start]
                lines[block.note.start] = first.replace(f"cells {block.note.seal}", f"cells {mine}")
            else:
                left += [f"{path}:{block.start + 1}: {problem}" for problem in problems]
    for after in sorted(inserted, reverse=True):
        above = [""] if lines[after - 1].startswith("|") else []
        lines[after:after] = [*above, *inserted[after]]
    path.write_text("\n".join(lines), encoding="utf-8")
    return left


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(*annotate(Path(name)), sep="\n")

"""Propose entries for the results on a page, and re-seal edited claims: quoted.py PAGE ...

A block without an entry takes over the unused entry with the most similar first words and numbers,
provided that all of its cells hold; otherwise the differences are printed. If none is similar, a
new entry is proposed, with the cells that fit best: check them before you commit them. `?` stands
where no file has the number. See `quoted_pages`.
"""

from __future__ import annotations

import difflib
import functools
import sys
import textwrap
from pathlib import Path

import prose
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


def propose(block: pages.Block, page: pages.Page) -> pages.Note:
    """A new entry."""
    text, used = words.plain(block.text), []
    near = {c.source.removeprefix("results/") for c in page.copies if c.section == block.section}
    near |= set(checks.LINK.findall(block.text))
    at, lines = 0, []
    for number in checks.results_in(block.text):
        at = text.index(number, at)
        used.append(best(number, text, at, block.section, near, used))
        lines.append(f"{number} = {used[-1]}")
        at += len(number)
    return pages.Note(0, block.seal, first_words(block), tuple(lines or ["see ?"]))


def first_words(block: pages.Block) -> str:
    """As many as a person needs to find it."""
    text = words.plain(block.text).removeprefix("- ") if block.row is None else block.row
    return textwrap.shorten(text, 90, placeholder=" ...")


def likeness(note: pages.Note, block: pages.Block) -> float:
    """Of the first words and the numbers."""
    mine = [*first_words(block).split(), *checks.results_in(block.text)]
    theirs = [*note.head.split(), *(number for number, _ in note.numbers)]
    return difflib.SequenceMatcher(None, mine, theirs).ratio()


def annotate(name: str, text: str, notes: str) -> tuple[str, list[str]]:
    """The entries of a page, in its order and re-sealed; and what is left to a person."""
    page, left = pages.parse(text, notes), []
    found = {i: block.note for i, block in enumerate(page.blocks) if block.note is not None}
    pairs = [
        (likeness(note, block), i, note)
        for i, block in enumerate(page.blocks)
        for note in page.unused
        if block.note is None
    ]
    for like, i, note in sorted(pairs, key=lambda pair: -pair[0]):
        if like > 0.5 and i not in found and note not in found.values():
            found[i] = note
    rest = [note for note in page.unused if note not in found.values()]
    for i, block in enumerate(page.blocks):
        verdicts = checks.is_of_results(name, block.section)
        problems = checks.check_block(block._replace(note=found.get(i)), verdicts)
        if i in found and not problems:
            found[i] = found[i]._replace(seal=block.seal, head=first_words(block))
        elif i in found:
            left += [f"{name}:{block.start + 1}: {problem}" for problem in problems]
        elif problems:
            found[i] = propose(block, page)
    left += [f"no claim is similar to the entry [{note.seal}] {note.head}" for note in rest]
    once: dict[int, pages.Note] = {}  # several blocks may share an entry
    for i in sorted(found):
        once.setdefault(found[i].line or -1 - i, found[i])
    written = [[f"[{n.seal}] {n.head}", *n.lines, ""] for n in (*once.values(), *rest)]
    return "\n".join("\n".join(lines) for lines in written), left


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument).resolve()
        name = str(path.relative_to(cells.ROOT))
        entries, left = annotate(name, prose.read(path), pages.notes_of(name))
        pages.file_of(name).parent.mkdir(parents=True, exist_ok=True)
        pages.file_of(name).write_text(entries, encoding="utf-8")
        print(*left, sep="\n")

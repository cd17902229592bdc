"""What people read is plain English: pages, docstrings, comments, messages and option help."""

from __future__ import annotations

import ast
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path

import prose

ROOT = prose.ROOT
COVERAGE = ROOT / "docs/coverage.md"
"""Made by benchmarks/cells.py."""


def test_pages_have_short_sentences_and_no_banned_phrase() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{problem.line}: {problem.what}: {problem.text}"
        for page in prose.PAGES
        if page != COVERAGE
        for problem in prose.problems(prose.read(page))
    ]
    assert found == []


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Strings and comments of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_docstrings_comments_and_messages_have_no_banned_phrase() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {old!r}: write {new!r}"
        for path in [*sorted((ROOT / "lcpo").rglob("*.py")), *sorted(ROOT.glob("examples/*.py"))]
        for line, text in texts(path)
        for old, new in prose.banned(text)
    ]
    assert found == []


def test_it_sees_what_it_looks_for() -> None:
    long = "word " * 31 + "end."
    assert [p.what for p in prose.problems(f"{long}\n")] == ["a sentence of 32 words"]
    assert prose.problems(f"```\n{long}\n```\n| {long} |\n") == []
    many = "A short sentence. " * 30
    assert [p.what for p in prose.problems(many)] == ["a paragraph of 90 words"]
    assert [p.what for p in prose.problems("It goes on where it was.")] == ["write 'resumes where'"]


def test_notebooks_are_pages(tmp_path: Path) -> None:
    assert ROOT / "docs/tutorials/battery.ipynb" in prose.PAGES
    cells = [
        {"cell_type": "markdown", "source": ["## Results\n", "One."]},
        {"cell_type": "code", "source": ["print('goes on where')"], "outputs": []},
        {"cell_type": "markdown", "source": "Two."},
    ]
    path = tmp_path / "page.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert prose.read(path) == "## Results\nOne.\n\nTwo."

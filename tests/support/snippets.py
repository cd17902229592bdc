"""The snippets of README and docs: blocks of Python and of shell commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import prose

ROOT = prose.ROOT
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


class Snippet(NamedTuple):
    """One block of code in a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """docs/compare.md:38."""
        return f"{self.page}:{self.line}"


def snippets(page: Path) -> Iterator[Snippet]:
    """The blocks of Python and of shell commands in a page, in order."""
    text = prose.read(page)
    for found in re.finditer(r"^```(python|bash)\n(.*?)^```$", text, re.S | re.M):
        line = text.count("\n", 0, found.start()) + 1
        yield Snippet(str(page.relative_to(ROOT)), line, found[1], found[2])


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell snippet as words, without variables and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if word != "|":
                words.append(word)
                continue
            end = next((i for i, each in enumerate(words) if each in (">", ">>")), len(words))
            start = next((i for i, each in enumerate(words) if "=" not in each), end)
            if words[start:end]:
                yield words[start:end]
            words = []


def excerpt_of(text: str) -> Path | None:
    """The example that a snippet is a part of."""
    return next((path for path in EXAMPLES if text in path.read_text() != text), None)

"""Prose that is hard to read: long sentences, long paragraphs, phrases that no native speaker uses.

`python tests/support/prose.py PAGE ...` lists what it finds in Markdown pages and in the Markdown
cells of notebooks. Tables, code, math and HTML comments are not prose.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(
        path
        for path in ROOT.glob("docs/**/*")
        if path.suffix in (".md", ".ipynb") and not {"generated", "_build"} & {*path.parts}
    ),
]
"""What people wrote; docs/generated is made with the site."""
MAX_SENTENCE, MAX_PARAGRAPH = 30, 80
"""In words."""
BANNED = {
    r"goes on where": "resumes where",
    r"(that|which|who) learns? no more": "frozen",
    r"learn no more": "are frozen",
    r"told apart": "statistically significant",
    r"tells? (the two|them|these|those) apart": "the difference is statistically significant",
    r"\b(is|are|was|were) told\b": "is reported",
    r"before any work": "before training starts",
    r"is named before": "is reported before",
    r"for want of": "without",
    r"draws? them at work": "renders them",
    r"at work\b": "rendered, or running",
    r"be it that": "even if",
    r"\bis no LCPO\b": "reduces to A2C",
    r"what we would take": "recommended settings",
    r"what was taken": "the default that was used",
    r"says? a word": "reports",
    r"is the truth": "is authoritative",
    r"\bwhomever\b": "anyone",
    r"\bthereof\b": "of it",
    r"\bspoilt\b": "no longer valid",
    r"\bof ours\b": "written by lcpo",
    r"all of it with": "with",
    r"\bof one's own\b": "your own",
    r"\blearnt\b": "learned",
    r"\bjudges? (trained )?policies": "evaluates policies",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwith which others\b": "that others",
    r"\bin turns\b": "alternately",
    r"\ba like machine\b": "a similar machine",
    r"\bnor any\b": "or any",
    r"\btakes? the place of\b": "replaces",
    r"\bhas a row of its own\b": "has its own row",
    r"\bspeaks? for\b": "supports",
    r"\bdo(es)? not come back\b": "do not recur",
    r"\bcomes? back\b": "recurs, or returns",
    r"\bmuch the same\b": "similar",
    r"\bcontent with\b": "satisfied by",
    r"\bby hand of\b": "by",
    r"\bup to now\b": "so far",
    r"\bhas to be seen\b": "is an open question",
    r"\b(is|are) judged\b": "is evaluated",
    r"\bgo(es)? on (beyond|from|over|through|until|with)\b": "continue",
    r"\bfor ever\b": "forever",
    r"\bis no (event|file|folder|key|part|plain|regular|text)\b": "is not a",
    r"\b(wrote|makes?) no such\b": "did not write",
    r"\bbelongs to no\b": "does not belong to any",
    r"\bnothing in it says\b": "was not written by",
    r"\bwhat \S+ raises is raised\b": "its exceptions propagate",
    r"\bwith a word\b": "with a note",
    r"\bby turns\b": "alternately, or in rotation",
    r"\bagain and again\b": "repeatedly",
    r"\bof no use\b": "cannot be used",
    r"\ball with all\b": "every combination",
    r"\bat the same moment\b": "at the same time",
    r"\ba bug of\b": "a bug in",
    r"\breplac(e|es|ed) the [\w ]+ by\b": "replace ... with",
}
"""Phrases, and what to write instead."""


def read(page: Path) -> str:
    """The Markdown of a page; of a notebook, its Markdown cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


class Problem(NamedTuple):
    """One place that is hard to read."""

    line: int
    what: str
    text: str


class Block(NamedTuple):
    """A paragraph or an item of a list, as one line of words."""

    line: int
    text: str


def problems(text: str, lengths: bool = True) -> list[Problem]:
    """What is hard to read in a Markdown page; `lengths`: long sentences and paragraphs, too."""
    found = []
    for line, block in blocks(text):
        words = len(block.split())
        if lengths and words > MAX_PARAGRAPH:
            found.append(Problem(line, f"a paragraph of {words} words", block[:60]))
        for sentence in sentences(block):
            count = len(sentence.split())
            if lengths and count > MAX_SENTENCE:
                found.append(Problem(line, f"a sentence of {count} words", sentence[:60]))
        found += [Problem(line, f"write {new!r}", old) for old, new in banned(block)]
    return found


def banned(text: str) -> Iterator[tuple[str, str]]:
    """The banned phrases of a text, with what to write instead."""
    for pattern, instead in BANNED.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield match[0], instead


def blocks(text: str) -> Iterator[Block]:
    """The paragraphs and list items of a Markdown page."""
    start, lines, fence = 0, [], None
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        mark = re.match(r"(`{3,}|~{3,}|:{3,}|\$\$)", bare)
        if mark and fence is None:
            fence = mark[1]
        elif fence is not None:
            fence = None if bare.startswith(fence) and (bare == fence or fence == "$$") else fence
            continue
        item = re.match(r"(\s*)([-*+]|\d+\.)\s", line)
        is_code = line.startswith("    ") and not lines
        ends = not bare or mark or item or bare[0] in "|#<" or is_code
        if ends and lines:
            yield Block(start, plain(" ".join(lines)))
            lines = []
        if not bare or mark or bare[0] in "|#<" or is_code:
            continue
        start = start if lines else number
        lines.append(line[item.end() :].strip() if item else bare.lstrip("> "))


def plain(text: str) -> str:
    """Words as a reader sees them: a link is its text, a piece of code one word."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(`+)(.+?)\1", "code", text)
    text = re.sub(r"\$[^$]+\$", "math", text)
    return re.sub(r"[*_]{1,2}(\S.*?\S|\S)[*_]{1,2}", r"\1", text)


def sentences(text: str) -> list[str]:
    """A block, split at the ends of its sentences."""
    return re.split(r"(?<=[.!?:;])\s+(?=[A-Z0-9(\"'])", text)


if __name__ == "__main__":
    total = 0
    for name in sys.argv[1:]:
        for problem in problems(read(Path(name))):
            total += 1
            print(f"{name}:{problem.line}: {problem.what}: {problem.text}")
    sys.exit(bool(total))

"""What a sentence about results names - agents, traces, windows - and the words of its claim."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable

from lcpo.agents import AGENTS

_VARIANTS = {"lcpo-agg", "lcpo-med", "lcpo-cons"}
"""Of the straggler task."""
_NAMES = sorted({*AGENTS, *_VARIANTS} - {"random", "constant"}, key=len, reverse=True)
AGENT = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(name.replace("-", "[- ]") for name in _NAMES)
    + r")(?![\w-]| paper)",
    re.I,
)
_DIGIT = r"\d(?![\d,.]*\d|M|/| seeds)"
TRACES = re.compile(rf"\btraces? ({_DIGIT}(?:, {_DIGIT})*(?:,? (?:and|to|or) {_DIGIT})?)", re.I)
FAMILY = re.compile(r"\b(revisit|drift|burst)s?\b")
LATE = re.compile(
    r"\bafter (?:the )?(?:\d[\d,.]*M?\b|warm-up)|_after_warmup|\blast[ _](?:\d+M|\d+,|quarter|two)|"
    r"\blate in|once (?:all|they) have learn",
    re.I,
)
WHOLE = re.compile(r"\bwhole (?:run|\d)|\bwhole_run", re.I)
VERDICT = re.compile(
    r"\b(?:ahead|(?<!code )behind|told apart|(?<!\()better|worse|overlaps?|agrees?|level with|"
    r"does not learn|statistically significant|wins?)\b"
)
_CLAIM = re.compile(
    r"[+-]?\d[\d.,]*(?<![.,])|\b(?:ahead|behind|better|best|worse|worst|above|below|more|most|less|"
    r"least|lower|lowest|higher|highest|larger|smaller|fewer|not|no|none|never|neither|nor|nothing|"
    r"all|every|each|both|only|but|except|whole|run|after|warm-up|late|last|first|early|quarter|"
    r"half|thirds?|one|two|three|four|five|six|seven|eight|nine|ten|twice|times|published|"
    r"corrected|overlaps?|agrees?|level|apart|significant|gains?|loses?|costs?|lead|revisits?|"
    r"drifts?|bursts?|iid|traces?|OOD|past|far|without|with)\b",
    re.I,
)


def plain(text: str) -> str:
    """Without emphasis, targets of links and line breaks, and without the name of the command."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`lcpo (?=[a-z])", "`", text)
    return re.sub(r"\s+", " ", text.replace("**", "").replace("`", "")).strip()


@functools.cache
def agents(text: str) -> frozenset[str]:
    """Names as the library has them: "online EWC" is online-ewc."""
    return frozenset(match[0].lower().replace(" ", "-") for match in AGENT.finditer(text))


@functools.cache
def traces(text: str) -> frozenset[str]:
    """Numbers of the paper's traces: of "traces 1 to 3", three of them."""
    found: set[str] = set()
    for match in TRACES.finditer(text):
        digits = [int(digit) for digit in re.findall(r"\d", match[1])]
        if " to " in match[1]:
            digits = list(range(digits[0], digits[-1] + 1))
        found |= {str(digit) for digit in digits}
    return frozenset(found)


@functools.cache
def windows(text: str) -> frozenset[str]:
    """Which part of a run: late, or whole."""
    kinds = {"late in a run": LATE, "whole run": WHOLE}
    return frozenset(name for name, pattern in kinds.items() if pattern.search(text))


@functools.cache
def families(text: str) -> frozenset[str]:
    """Of drawn traces."""
    return frozenset(match[1] for match in FAMILY.finditer(text))


def compares(text: str) -> bool:
    """On a page of results: does it say who is better, where, when, or by a measured number?"""
    precise = re.search(r"\d\.\d|\b(?!95 %)\d+ %|\b\d+ (?:seeds|microseconds)\b", text)
    return bool(VERDICT.search(text) or traces(text) or windows(text) or precise)


def unsupported(text: str, cells: Iterable[str]) -> list[str]:
    """What a text names and no cell is about. `cells`: the words of each."""
    words = list(cells)
    missing = []
    for what, find in (("trace", traces), ("window", windows), ("family", families)):
        there = frozenset().union(*map(find, words))
        if there or find is not families:
            missing += [f"{what} '{name}'" for name in sorted(find(text) - there)]
    there = {f"-{name}-" for name in frozenset().union(*map(agents, words))}
    missing += [
        f"agent '{name}'"
        for name in sorted(agents(text))
        if there and not any(f"-{name}-" in other for other in there)
    ]
    return missing


def seal(text: str) -> str:
    """Of the claim: its numbers, names and words such as "ahead", in their order; "" if none."""
    found = [(match.start(), match[0].lower()) for match in _CLAIM.finditer(text)]
    found += [(match.start(), match[0].lower()) for match in AGENT.finditer(text)]
    claim = " ".join(word for _, word in sorted(set(found)))
    return hashlib.sha256(claim.encode()).hexdigest()[:6] if claim else ""

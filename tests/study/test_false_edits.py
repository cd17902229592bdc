"""False edits of README and docs, one at a time: does the guard of quoted results notice?

An edit is drawn from all lines that state a result, by words of its own, not by those of the guard:
a sign is flipped, a digit changed, an agent, a trace or a window put in place of another, or a
count turned round.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
import quoted_cells as cells
import quoted_checks as checks
import quoted_pages as pages

NAMES = [
    "README.md", "docs/where_lcpo_loses.md", "docs/results.md", "docs/which_agent.md",
    "docs/deviations.md", "docs/compare.md",
    "docs/reproduce.md", "docs/theory.md", "docs/envs/grid_world.md", "docs/envs/mujoco.md",
    "docs/envs/straggler.md",
    *(f"docs/{folder}/{path.name}" for folder in ("agents", "results")
      for path in sorted((cells.ROOT / "docs" / folder).glob("*.md"))),
]  # fmt: skip
STATES = re.compile(
    r"±|(?<!\w)(?<!\d )\d+ of (?:the |those )?\d+(?!e)|\b(?:ahead|behind|told apart|significant)\b"
)
AGENTS = ("LCPO", "LCPO-P", "A2C", "TRPO", "PPO", "DDQN", "SAC", "CLEAR", "BFDQN", "PT-DQN", "MBPO",
          "MBCD", "lcpo", "lcpo-uniform", "lcpo-noent", "a2c", "a2c-entropy", "sac", "ppo", "trpo",
          "ddqn", "clear", "bfdqn", "pt-dqn", "mbpo", "mbcd")  # fmt: skip
_ANY = "|".join(sorted(AGENTS, key=len, reverse=True))
AGENT = re.compile(rf"(?<![\w/-])(?:{_ANY})(?![\w-]|\.\w)")
"""Not in the target of a link, and not in the name of a function."""
WINDOWS = {
    "whole run": "last 2M",
    "after 6M": "over the whole run",
    "after warm-up": "over the whole run",
    "last quarter": "first quarter",
}


class Edit(NamedTuple):
    """A line of a page with one thing changed."""

    page: str
    line: int
    old: str
    new: str


@functools.cache
def text_of(name: str) -> str:
    return (cells.ROOT / name).read_text(encoding="utf-8")


def problems_of(name: str, text: str) -> list[str]:
    return checks.check(name, text, pages.notes_of(name))


@functools.cache
def lines_of_results() -> list[tuple[str, int, str]]:
    """(page, number, line) of all lines that a reader sees and that state a result."""
    found = []
    for name in NAMES:
        for number, line in enumerate(text_of(name).split("\n")):
            if not line.startswith("<!--") and STATES.search(line):
                found.append((name, number, line))
    return found


def put(line: str, match: re.Match[str], new: str) -> str:
    return line[: match.start()] + new + line[match.end() :]


def flip_sign(line: str, rng: random.Random) -> str | None:
    found = list(re.finditer(r"(?<![\w.)\]-])[+-](?=\d[\d.]*(?: ±|\b))", line))
    if not found:
        return None
    match = rng.choice(found)
    return put(line, match, {"+": "-", "-": "+"}[match[0]])


def change_digit(line: str, rng: random.Random) -> str | None:
    numbers = list(
        re.finditer(r"[\d.]+ ± [\d.]*\d|(?<!\w)(?<!\d )\d+ of (?:the |those )?\d+(?!e)", line)
    )
    if not numbers:
        return None
    number = rng.choice(numbers)
    match = rng.choice(list(re.finditer(r"\d", number[0])))
    new = rng.choice([digit for digit in "123456789" if digit != match[0]])
    return put(line, number, put(number[0], match, new))


def swap_agent(line: str, rng: random.Random) -> str | None:
    """For another of the same line, where there is one."""
    found = list(AGENT.finditer(line))
    if not found:
        return None
    match = rng.choice(found)
    alike = [name for name in AGENTS if name.islower() == match[0].islower() and name != match[0]]
    here = [name[0] for name in found if name[0] in alike]
    return put(line, match, rng.choice(here or alike))


def swap_trace(line: str, rng: random.Random) -> str | None:
    found = list(re.finditer(r"(?<=trace )[1-4](?!\d)|(?<=^\| )[1-4](?= \|)", line, flags=re.I))
    found += list(re.finditer(r"(?<=pendulum \| )[1-4](?= \|)", line))
    if not found:
        return None
    match = rng.choice(found)
    return put(line, match, rng.choice([digit for digit in "1234" if digit != match[0]]))


def swap_window(line: str, rng: random.Random) -> str | None:
    found = list(re.finditer("|".join(WINDOWS), line))
    if not found:
        return None
    match = rng.choice(found)
    return put(line, match, WINDOWS[match[0]])


def turn_count(line: str, rng: random.Random) -> str | None:
    """28 of 90 for 82 of 90, 2 of 8 for 6 of 8."""
    found = list(re.finditer(r"(?<!\w)(?<!\d )(\d+)( of (?:the |those )?)(\d+)(?!e)", line))
    if not found:
        return None
    match = rng.choice(found)
    back, other = match[1][::-1], str(int(match[3]) - int(match[1]))
    new = back if back != match[1] and not back.startswith("0") else other
    return None if new == match[1] else put(line, match, f"{new}{match[2]}{match[3]}")


KINDS: dict[str, Callable[[str, random.Random], str | None]] = {
    "sign": flip_sign,
    "digit": change_digit,
    "agent": swap_agent,
    "trace": swap_trace,
    "window": swap_window,
    "count": turn_count,
}


def draw(kind: str, rng: random.Random) -> Edit:
    while True:
        page, number, line = rng.choice(lines_of_results())
        new = KINDS[kind](line, rng)
        if new is not None and new != line:
            return Edit(page, number, line, new)


def is_noticed(edit: Edit) -> bool:
    lines = text_of(edit.page).split("\n")
    assert lines[edit.line] == edit.old
    lines[edit.line] = edit.new
    return bool(problems_of(edit.page, "\n".join(lines)))


@pytest.mark.parametrize("kind", KINDS)
def test_false_edits_are_noticed(kind: str) -> None:
    """Five of each kind, thirty in all."""
    rng = random.Random(f"{kind}, 28")
    for edit in (draw(kind, rng) for _ in range(5)):
        assert is_noticed(edit), edit


ONCE_UNNOTICED = [
    ("README.md", "on 90 of 90 drawn", "on 80 of 90 drawn"),
    ("README.md", "better than the paper's LCPO", "worse than the paper's LCPO"),
    ("README.md", "| 82 of 90 |", "| 28 of 90 |"),
    ("docs/where_lcpo_loses.md", "on 82 of 90", "on 28 of 90"),
    (
        "docs/where_lcpo_loses.md",
        "LCPO is behind SAC and LCPO-P",
        "LCPO is ahead of SAC and LCPO-P",
    ),
    (
        "docs/where_lcpo_loses.md",
        "LCPO is ahead of A2C after 6M",
        "A2C is ahead of LCPO after 6M",
    ),
    ("docs/results/baselines.md", "(+34.1 ± 5.8)", "(-34.1 ± 5.8)"),
    ("docs/results/baselines.md", "-32.4 ± 13.1 (SAC)", "-32.4 ± 13.1 (DDQN)"),
    ("docs/which_agent.md", "| `sac --updates-per", "| `ddqn --updates-per"),
    ("docs/which_agent.md", "[67 of 90 traces]", "[76 of 90 traces]"),
    ("docs/results/drawn_traces.md", "on 67 of 90 traces", "on 76 of 90 traces"),
    ("docs/agents/clear.md", "-2.05 ± 6.40 on trace 3", "-2.05 ± 6.40 on trace 4"),
    ("docs/deviations.md", "Trace 4: SAC -362 ± 8", "Trace 4: A2C -362 ± 8"),
]


@pytest.mark.parametrize(("name", "old", "new"), ONCE_UNNOTICED)
def test_what_was_once_unnoticed_is_noticed(name: str, old: str, new: str) -> None:
    """Edits of the kinds that an audit found to pass all tests."""
    assert text_of(name).count(old) == 1
    assert problems_of(name, text_of(name)) == []
    assert problems_of(name, text_of(name).replace(old, new))

"""The table of docs/deviations.md knows every fault and published value, and invents none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from lcpo import config as configs
from lcpo.agents import AGENTS
from lcpo.defaults import ENVIRONMENTS
from lcpo.envs import ENVS

PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| |", "| no."))
]
HOW = 5
"""The column that says how to get the published behaviour."""


def codes() -> list[str]:
    """What stands between backticks in that column."""
    return [code for row in ROWS for code in re.findall(r"`([^`]+)`", row[HOW])]


def faults(classes: Iterable[type]) -> set[str]:
    return {name for cls in classes for name in configs.published_faults(cls).get("faults", ())}


def test_every_id_stands_there_once() -> None:
    ids = [row[0] for row in ROWS]
    assert sorted(int(i) for i in ids if i.isdigit()) == list(range(1, 45))
    letters = sorted(i for i in ids if not i.isdigit())
    assert letters == [chr(ord("A") + i) for i in range(len(letters))]
    assert all(len(row) == 7 and all(row) for row in ROWS), "a cell is empty"


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--faults", faults(agent.Config for agent in AGENTS.values())),
        ("--env.faults", faults(ENVS.values())),
    ],
)
def test_faults_are_the_library_s(option: str, known: set[str]) -> None:
    named = {
        word
        for code in codes()
        if option in code.split()
        for word in code.split(f"{option} ")[1].split()
        if not word.startswith("-")
    }
    assert named == known


def test_published_values_are_named() -> None:
    named = [values for known in ENVIRONMENTS.values() for values in known.published.values()]
    assert {name for values in named for name in values} <= set(codes())

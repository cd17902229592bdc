"""The list of mutants is not stale: `make mutants` runs them, here nothing is run."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from each import for_each
from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@for_each("mutant", MUTANTS)
def test_mutant_can_be_made_and_its_tests_exist(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert mutant.apply(source) != source
    ast.parse(mutant.apply(source))
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in functions(file), test


def test_names_are_unique() -> None:
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    mutant = Mutant("name", "file", "x", "y", (), "")
    assert mutant.apply("a x b") == "a y b"
    for source in ("", "x x"):
        with pytest.raises(ValueError, match=r"name: file has 'x' [02] times, not once"):
            mutant.apply(source)

"""A test of a list reports every entry that fails."""

from __future__ import annotations

import inspect

import pytest
from each import for_each


def test_all_that_fail_are_named_and_fixtures_are_passed_on() -> None:
    seen = []

    @for_each("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, word: str, fixture: str) -> None:
        seen.append((number, word, fixture))
        assert word != "a", "no a"
        if word == "c":
            pytest.fail("no c")

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(AssertionError, match=r"2 of 3 fail\n1, a: .*no a(.*\n)*3, c: .*no c"):
        check(fixture="x")
    assert seen == [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")]


def test_an_empty_list_fails() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        for_each("name", [])(lambda name: None)()

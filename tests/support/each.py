"""Check a whole list in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def for_each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Call a test for every value, in one test that reports all values for which it fails.

    For lists whose entries need no fixture of their own: files, options, agents. `names` (separated
    by commas) and `values` are those of `pytest.mark.parametrize`.
    """
    arguments, cases = names.split(", "), list(values)

    def decorate(check: Callable[..., None]) -> Any:
        def test(**fixtures: Any) -> None:
            assert cases, "there is nothing to check"
            wrong: list[tuple[str, BaseException]] = []
            for case in cases:
                given = case if len(arguments) > 1 else (case,)
                try:
                    check(**dict(zip(arguments, given, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append((", ".join(str(value)[:80] for value in given), error))
            if wrong:
                told = [f"{case}: {type(error).__name__}: {error}" for case, error in wrong]
                count = f"{len(wrong)} of {len(cases)} fail"
                raise AssertionError("\n".join([count, *told])) from wrong[0][1]

        functools.update_wrapper(test, check)
        del test.__dict__["__wrapped__"]  # pytest would ask for its fixtures
        signature = inspect.signature(check)
        left = [p for name, p in signature.parameters.items() if name not in arguments]
        test.__signature__ = signature.replace(parameters=left)  # pyright: ignore
        return test

    return decorate

"""What a contract is: a function that raises `Broken`, and whose docstring is the rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from lcpo.errors import InputError, tell
from lcpo.names import unknown

CaseT = TypeVar("CaseT")
Contracts = Mapping[str, Callable[[CaseT], None]]
"""By name."""


class ContractError(AssertionError):
    """A contract is broken: the message says which one, what was seen and what is expected."""


class Broken(Exception):
    """Raised by a contract, with what was seen."""


def check(subject: str, contracts: Contracts[CaseT], name: str, case: CaseT) -> None:
    """Raise ContractError if the contract `name` is broken."""
    rule = " ".join((inspect.getdoc(contracts[name]) or "").split())
    try:
        contracts[name](case)
    except Exception as error:  # of the user's code, or a rule that was broken
        seen = str(error) if isinstance(error, (Broken, InputError)) else f"raised {tell(error)}"
        raise ContractError(
            f"{subject} breaks the contract {name!r}.\n  seen: {seen}\n  expected: {rule}"
        ) from error


def check_all(
    subject: str, contracts: Contracts[CaseT], case: CaseT, skip: Collection[str] = ()
) -> None:
    """Raise ContractError for the first contract that is broken."""
    for name in skip:
        if name not in contracts:
            raise InputError(unknown("contract", name, contracts))
    for name in contracts:
        if name not in skip:
            check(subject, contracts, name, case)


def require(holds: Any, seen: str) -> None:
    """Raise Broken with what was seen, unless it holds."""
    if not holds:
        raise Broken(seen)

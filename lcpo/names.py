"""Lookup of agents, environments and other things by name, and the message for unknown names."""

from __future__ import annotations

import difflib
import importlib
import operator
import os
import sys
from collections import UserDict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from lcpo.errors import InputError, tell
from lcpo.values import refuse, shown


def find(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """The thing with this name, or the user's own: "package.module:name".

    A module is looked for in the current folder, too. Raises InputError, with the nearest names, or
    with the place in the user's module that raised.
    """
    if not isinstance(name, str):
        refuse(kind, name, "a name, or your own as package.module:name")
    if name in known:
        return known[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InputError(unknown(kind, name, known))
    if "<locals>" in attribute:
        raise InputError(
            f"{kind} {shown(name)} is defined inside a function and cannot be imported: move it to "
            "the top level of its module"
        )
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InputError(f"{kind} {shown(name)}: name your own as package.module:name")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return load(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's module may raise anything, and even exit
        raise InputError(f"cannot import {kind} {shown(name)}: {tell(error)}") from error


def load(name: str) -> Any:
    """What "package.module:name" names."""
    module, _, attribute = name.partition(":")
    return operator.attrgetter(attribute)(importlib.import_module(module))


def imported(name: str, known: Mapping[str, Any]) -> Any:
    """The thing with this name, or the user's own if its module has been imported; else None."""
    if name in known:
        return known[name]
    module, _, attribute = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found


T = TypeVar("T")


class Registry(UserDict[str, T]):
    """Things by name. One given as "package.module:name" is imported when it is first asked for.

    So a package built on top of the registry's package, such as a whole task, needs one line in it.
    """

    def __init__(self, entries: Mapping[str, T | str]) -> None:
        self.data: dict[str, Any] = dict(entries)

    def __getitem__(self, name: str) -> T:
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = load(found)
        return found


def is_in_main(name: object) -> bool:
    """Whether a name is defined in a script or notebook, which other processes cannot import."""
    return isinstance(name, str) and name.startswith("__main__:")


def is_ours(name: str, known: Iterable[str]) -> bool:
    """Whether a name is part of this library and needs no trust."""
    return name in known or name.startswith("lcpo.")


def unknown(kind: str, name: object, known: Iterable[str], of: str = "") -> str:
    """The error text for a name that does not exist, with the nearest ones that do."""
    known, given = sorted(known), str(name)[:80]
    near = difflib.get_close_matches(given.replace("_", "-"), known, n=3, cutoff=0.5)
    near = near or difflib.get_close_matches(given.replace("-", "_"), known, n=3, cutoff=0.5)
    where = f" of {of}" if of else ""
    hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return (
        f"unknown {kind} {shown(name)}{where}: {hint or 'known: ' + (', '.join(known) or 'none')}"
    )

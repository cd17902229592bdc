"""Typed options to command-line flags, and back.

Arguments are parsed here because argparse silently keeps the last of two equal options. argparse
formats the help.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import functools
import inspect
import itertools
import re
import types
import typing
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lcpo import values as plain_values
from lcpo.cli import HELP
from lcpo.errors import InputError

RUN_FAILED, BAD_INPUT, BUG, STOPPED, NOT_READ = 1, 2, 70, 130, 141
"""Exit codes. 70 is EX_SOFTWARE of sysexits.h; a shell uses the last two for SIGINT and SIGPIPE."""
T = TypeVar("T")


class Option(NamedTuple):
    """One option of a command. The name `env.num_bins` is the flag `--env.num-bins`."""

    name: str
    type: Any
    help: str
    default: Any = dataclasses.MISSING
    is_positional: bool = False

    @property
    def flag(self) -> str:
        """--steps, --env.num-bins; the name of a positional argument."""
        return self.name if self.is_positional else f"--{self.name.replace('_', '-')}"

    @property
    def off(self) -> str:
        """The flag that switches it off: --no-resume, --env.no-noise."""
        where, dot, name = self.flag[2:].rpartition(".")
        return f"--{where}{dot}no-{name}"

    @property
    def flags(self) -> list[str]:
        """Every flag that sets it."""
        return [self.flag, self.off] if self.type is bool else [self.flag]

    @property
    def is_list(self) -> bool:
        """Whether it takes any number of words."""
        return typing.get_origin(self.type) is tuple


class Help(Exception):
    """Raised by `parse` if the user asks for help; its text is the help."""

    def __init__(self, command: str, description: str, options: Sequence[Option]) -> None:
        self.command, self.description, self.options = command, description, options

    def __str__(self) -> str:
        places = [option.name for option in self.options if option.is_positional]
        usage = " ".join([self.command, *places, "[options]"])
        parser = argparse.ArgumentParser(usage=usage, description=self.description, add_help=False)
        of_env = parser.add_argument_group("options of the environment")
        for option in self.options:
            is_plain = option.default is False or option.default in (None, (), dataclasses.MISSING)
            help = option.help if is_plain else f"{option.help} (default: {option.default})"
            kind: Any = {"nargs": "*" if option.is_list else None}
            if option.type is bool:
                kind = {"action": "store_true"}
            group = of_env if option.name.startswith("env.") else parser
            group.add_argument(*option.flags, help=help.replace("%", "%%"), **kind)
        return parser.format_help().rstrip()


def parse(
    name: str, arguments: Sequence[str], options: Sequence[Option], description: str = ""
) -> types.SimpleNamespace:
    """The options on the command line of `lcpo NAME`, converted and complete."""
    names = [option.name for option in options]
    for twice in (field for field in names if names.count(field) > 1):
        raise InputError(f"config field {twice!r} is also an option of `lcpo {name}`: rename it")
    if not {"-h", "--help"}.isdisjoint(arguments):
        raise Help(f"lcpo {name}", description or HELP.get(name, ""), options)
    words = _collect(f"lcpo {name}", arguments, options)
    return types.SimpleNamespace(**{option.name: _value(option, words) for option in options})


def made(cls: type[T], options: Any, **rest: Any) -> T:
    """An options class from what `parse` found; `rest`: the fields without a flag."""
    return cls(
        **{option.name: getattr(options, option.name) for option in class_fields(cls)}, **rest
    )


def _collect(command: str, arguments: Sequence[str], options: Sequence[Option]) -> dict[str, Any]:
    """The words of each option by its name, and what a switch is set to."""
    flags = {
        flag: option for option in options if not option.is_positional for flag in option.flags
    }
    places = [option for option in options if option.is_positional]
    found: dict[str, Any] = {}
    words = deque(arguments)
    while words:
        word = words.popleft()
        if not _is_flag(word):
            if not places:
                shown = plain_values.shown(word)
                raise InputError(f"{shown} does not belong to any option: see `{command} --help`")
            found.setdefault(places[0].name, []).append(word)
            if not places[0].is_list:
                places.pop(0)
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in flags:
            near = difflib.get_close_matches(flag[:80], flags, n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else f"see `{command} --help`"
            raise InputError(f"unknown option {plain_values.shown(flag)}: {hint}")
        option = flags[flag]
        if option.name in found:
            more = "put all its values after one" if option.is_list else "give it once"
            raise InputError(f"{option.flag} is given twice: {more}")
        if option.type is bool:
            if equals:
                raise InputError(f"{flag} takes no value, got {plain_values.shown(value)}")
            found[option.name] = flag == option.flag
            continue
        taken = [value] if equals else []
        while words and not _is_flag(words[0]) and (option.is_list or not taken):
            taken.append(words.popleft())
        if not taken and not option.is_list:
            raise InputError(f"{flag} needs a value ({option.help})")
        found[option.name] = taken
    return found


def _is_flag(word: str) -> bool:
    """Whether a word begins as an option does, and is not a negative number."""
    return word.startswith("-") and re.match(r"-(\d|\.\d|inf|nan)", word) is None


def _value(option: Option, found: dict[str, Any]) -> Any:
    """The value of an option: its words converted, or its default."""
    words = found.get(option.name, option.default)
    if words is dataclasses.MISSING:
        raise InputError(f"{option.flag} is missing: {option.help}")
    if option.name not in found or option.type is bool:
        return words
    if option.is_list:
        of = typing.get_args(option.type)[0]
        return tuple(_convert(option.flag, of, word) for word in words)
    return _convert(option.flag, option.type, words[0])


def _convert(what: str, type_: Any, word: str) -> Any:
    """One word as a value of this type."""
    parts = typing.get_args(type_)
    if typing.get_origin(type_) in (types.UnionType, typing.Union):
        if word == "None" and type(None) in parts:
            return None
        return _convert(what, next(part for part in parts if part is not type(None)), word)
    if typing.get_origin(type_) is typing.Literal:
        if word not in parts:
            plain_values.refuse(what, word, " or ".join(str(part) for part in parts))
        return word
    if type_ in (int, float):
        try:
            return type_(word) if type_ is float else _whole(word)
        except (ValueError, OverflowError):
            plain_values.refuse(what, word, "a whole number" if type_ is int else "a number")
    if type_ is Path:
        return plain_values.path(what, word)
    return word if type_ is str else plain_values.from_text(word)


def _whole(word: str) -> int:
    """A whole number, also as 1e5; ValueError for anything else."""
    try:
        return int(word)
    except ValueError:
        if not float(word).is_integer():
            raise
        return int(float(word))


def class_fields(cls: type) -> list[Option]:
    """The fields of an options class that are flags; the string under each is its help."""
    hints = typing.get_type_hints(cls)
    return [
        Option(field.name, hints[field.name], _help(cls, field.name), field.default)
        for field in dataclasses.fields(cls)
        if field.metadata.get("option", True)
    ]


_source = functools.cache(inspect.getsource)
"""Source of a class, cached: finding it parses a whole file."""


def _help(cls: type, name: str) -> str:
    """The string under a field, in the class or a base class."""
    for base in cls.__mro__[:-1]:
        pattern = rf'\n    {name}:[^\n]*\n    """(.*?)"""'
        found = re.search(pattern, _source(base), re.S)
        if found:
            return " ".join(found.group(1).split())
    return ""


def config_fields(config: Any, prefix: str = "") -> list[Option]:
    """The fields of a config, with its values as defaults; `prefix`: of their names."""
    hints = typing.get_type_hints(type(config))
    return [
        Option(prefix + f.name, hints[f.name], f.metadata.get("help", ""), getattr(config, f.name))
        for f in dataclasses.fields(config)
    ]


def config_changes(options: Any, default: Any, prefix: str = "") -> dict[str, Any]:
    """Config values that differ from the defaults."""
    fields = [field.name for field in dataclasses.fields(default)]
    values = {name: getattr(options, prefix + name) for name in fields}
    return {k: v for k, v in values.items() if v != getattr(default, k)}


def peek(arguments: list[str], name: str, default: str) -> str:
    """The value of an option on which other options depend. `parse` reports a missing value.

    No value begins as a flag does, so the word `--name` is a flag wherever it is.
    """
    for word, after in itertools.pairwise([*arguments, "--"]):
        flag, equals, value = word.partition("=")
        if flag == f"--{name}":
            return value if equals else default if _is_flag(after) else after
    return default


def read_seeds(text: str) -> int | list[int]:
    """A number of seeds, or a list of them."""
    try:
        if "," in text:
            return [int(part) for part in text.removesuffix(",").split(",")]
        return int(text)
    except ValueError:
        plain_values.refuse("seeds", text, "a number of seeds, or a list such as 3,7")


def read_sweep(texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """field=a,b,c ... as {field: [a, b, c], ...}."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        field, _, values = text.partition("=")
        if not field or not values:
            plain_values.refuse("sweep", text, "field=a,b,c")
        name = field.replace("-", "_")
        if name in found:
            raise InputError(f"{name} is swept twice: put all its values after one {field}=")
        found[name] = [plain_values.from_text(part) for part in values.split(",")]
    return found

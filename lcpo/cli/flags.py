"""From typed options to command-line flags, and back. tyro writes the help.

The words are read here and not by tyro, which takes the last of two equal options without a word,
and tells what is wrong in a box of several lines.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import inspect
import itertools
import os
import re
import shutil
import types
import typing
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import tyro

from lcpo import values as plain_values
from lcpo.errors import InputError

RUN_FAILED, BAD_INPUT, BUG, STOPPED, NOT_READ = 1, 2, 70, 130, 141
"""Exit codes. 70 is EX_SOFTWARE of sysexits.h; a shell uses the last two for SIGINT and SIGPIPE."""

Option = tuple[str, Any, str, Any]
"""(name, type, help, default)"""
T = TypeVar("T")


def parse(
    name: str,
    description: str,
    arguments: list[str],
    options: list[Option],
    env_options: list[Option] | None = None,
) -> Any:
    """Options from the command line; the environment's own stand under `--env.`."""
    _check_names(name, [option[0] for option in options])
    if not {"-h", "--help"}.isdisjoint(arguments):
        _show_help(name, description, options, env_options)
    every = {option[0]: option for option in options}
    every |= {f"env.{option[0]}": option for option in env_options or []}
    words = _collect(f"lcpo {name}", arguments, every)
    found = {key: _value(key, option, words) for key, option in every.items()}
    top = {key: value for key, value in found.items() if not key.startswith("env.")}
    if env_options is not None:
        of_env = {option[0]: found[f"env.{option[0]}"] for option in env_options}
        top["env_config"] = types.SimpleNamespace(**of_env)
    return types.SimpleNamespace(**top)


def made(cls: type[T], options: Any, **rest: Any) -> T:
    """An options class from what `parse` found, and the fields that are no options."""
    return cls(**{option[0]: getattr(options, option[0]) for option in class_fields(cls)}, **rest)


def _show_help(
    name: str, description: str, options: list[Option], env_options: list[Option] | None
) -> NoReturn:
    fields: list[Any] = [_field(option) for option in options]
    if env_options is not None:
        env = dataclasses.make_dataclass("Environment", [_field(option) for option in env_options])
        nested = Annotated[env, tyro.conf.arg(name="env")]
        fields.append(("env_config", nested, dataclasses.field(default_factory=env)))
    cls = dataclasses.make_dataclass("Options", fields)
    with _width_for_help():
        tyro.cli(cls, prog=f"lcpo {name}", description=description, args=["--help"])
    raise AssertionError("help ends the command")


@contextlib.contextmanager
def _width_for_help() -> Iterator[None]:
    """A terminal of a width that tyro can fill: it never comes to an end with a few columns."""
    given = os.environ.get("COLUMNS")
    width = shutil.get_terminal_size().columns
    os.environ["COLUMNS"] = str(min(max(width, 40), 200))
    try:
        yield
    finally:
        if given is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = given


def _field(option: Option) -> Any:
    name, type_, help, default = option
    annotated = Annotated[type_, tyro.conf.arg(help=help)]
    if default is tyro.MISSING:
        return (name, annotated)
    return (name, annotated, dataclasses.field(default=default))


def _check_names(command: str, names: list[str]) -> None:
    """A user's config may have a field that is called as an option of the command."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"the config field {name!r} is an option of `lcpo {command}` already: rename it"
            )


def _collect(
    command: str, arguments: list[str], options: dict[str, Option]
) -> dict[str, list[str] | bool]:
    """The words behind each option, and what a switch is set to."""
    flags: dict[str, tuple[str, bool | None]] = {}
    places = []
    for key, option in options.items():
        if _is_positional(option):
            places.append(key)
        elif option[1] is bool:
            flags[as_flag(key)], flags[as_flag(key, "no-")] = (key, True), (key, False)
        else:
            flags[as_flag(key)] = (key, None)
    found: dict[str, Any] = {}
    words = deque(arguments)
    while words:
        word = words.popleft()
        if not _is_flag(word):
            if not places:
                shown = plain_values.shown(word)
                raise InputError(f"{shown} belongs to no option: `{command} --help` tells them")
            found.setdefault(places[0], []).append(word)
            if not _is_list(options[places[0]]):
                places.pop(0)
            continue
        flag, equals, value = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in flags:
            raise InputError(_unknown_flag(command, flag, list(flags)))
        key, switch = flags[flag]
        if key in found:
            more = ": put all its values behind one" if _is_list(options[key]) else ": give it once"
            raise InputError(f"{as_flag(key)} is given twice{more}")
        if switch is not None:
            if equals:
                raise InputError(f"{flag} takes no value, got {plain_values.shown(value)}")
            found[key] = switch
            continue
        taken = [value] if equals else []
        while words and not _is_flag(words[0]) and (_is_list(options[key]) or not taken):
            taken.append(words.popleft())
        if not taken and not _is_list(options[key]):
            raise InputError(f"{flag} has no value: put one behind it ({options[key][2]})")
        found[key] = taken
    return found


def _unknown_flag(command: str, flag: str, known: list[str]) -> str:
    near = difflib.get_close_matches(flag[:80], known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{command} --help` tells them"
    return f"unknown option {plain_values.shown(flag)}: {hint}"


def as_flag(key: str, prefix: str = "") -> str:
    """--steps, --no-resume, --env.num-bins."""
    *where, name = key.split(".")
    return "--" + ".".join([*where, prefix + name.replace("_", "-")])


def _is_flag(word: str) -> bool:
    """Whether a word begins as an option does, and is no negative number."""
    number = re.match(r"-(\d|\.\d|inf|nan)", word)
    return word.startswith("-") and number is None


def _is_positional(option: Option) -> bool:
    return typing.get_origin(option[1]) is Annotated


def _is_list(option: Option) -> bool:
    return typing.get_origin(_bare_type(option)) is tuple


def _bare_type(option: Option) -> Any:
    return typing.get_args(option[1])[0] if _is_positional(option) else option[1]


def _value(key: str, option: Option, found: dict[str, list[str] | bool]) -> Any:
    """The value of an option: its words converted, or its default."""
    what = key if _is_positional(option) else as_flag(key)
    if key not in found:
        if option[3] in (tyro.MISSING, dataclasses.MISSING):
            raise InputError(f"{what} is missing: {option[2]}")
        return option[3]
    words, type_ = found[key], _bare_type(option)
    if isinstance(words, bool):
        return words
    if _is_list(option):
        of = typing.get_args(type_)[0]
        return tuple(_convert(what, of, word) for word in words)
    return _convert(what, type_, words[0])


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
    """A whole number, also as 1e5; ValueError where it is none."""
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
        (field.name, hints[field.name], _help(cls, field.name), field.default)
        for field in dataclasses.fields(cls)
        if field.metadata.get("option", True)
    ]


_source = functools.cache(inspect.getsource)
"""Of a class; looking for it parses a whole file."""


def _help(cls: type, name: str) -> str:
    """The string under a field, in the class or in the one that it extends."""
    for base in cls.__mro__[:-1]:
        pattern = rf'\n    {name}:[^\n]*\n    """(.*?)"""'
        found = re.search(pattern, _source(base), re.S)
        if found:
            return " ".join(found.group(1).split())
    return ""


def config_fields(config: Any) -> list[Option]:
    """The fields of a config, with its values as defaults."""
    hints = typing.get_type_hints(type(config))
    return [
        (f.name, hints[f.name], f.metadata.get("help", ""), getattr(config, f.name))
        for f in dataclasses.fields(config)
    ]


def config_changes(options: Any, default: Any) -> dict[str, Any]:
    """Config values that differ from the defaults."""
    names = [f.name for f in dataclasses.fields(default)]
    values = {name: getattr(options, name) for name in names}
    return {k: v for k, v in values.items() if v != getattr(default, k)}


def peek(arguments: list[str], name: str) -> str | None:
    """The value of an option on which the other options depend; None: `parse` says what is wrong.

    No value of an option begins as an option does, so that the word `--name` is one wherever it is.
    """
    for word, after in itertools.pairwise([*arguments, "--"]):
        flag, equals, value = word.partition("=")
        if flag == f"--{name}":
            return value if equals else None if _is_flag(after) else after
    return None


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
            raise InputError(f"{name} is swept twice: put all its values behind one {field}=")
        found[name] = [plain_values.from_text(part) for part in values.split(",")]
    return found

"""From typed options to command-line flags, and back. tyro does the parsing."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from typing import Annotated, Any, TypeVar

import tyro

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
    fields: list[Any] = [_field(option) for option in options]
    if env_options is not None:
        env = dataclasses.make_dataclass("Environment", [_field(option) for option in env_options])
        nested = Annotated[env, tyro.conf.arg(name="env")]
        fields.append(("env_config", nested, dataclasses.field(default_factory=env)))
    cls = dataclasses.make_dataclass("Options", fields)
    return tyro.cli(cls, prog=f"lcpo {name}", description=description, args=arguments)


def parse_class(cls: type[T], name: str, description: str, arguments: list[str]) -> T:
    """An options class from the command line."""
    found = parse(name, description, arguments, class_fields(cls))
    return cls(**{option[0]: getattr(found, option[0]) for option in class_fields(cls)})


def _field(option: Option) -> Any:
    name, type_, help, default = option
    annotated = Annotated[type_, tyro.conf.arg(help=help)]
    if default is tyro.MISSING:
        return (name, annotated)
    return (name, annotated, dataclasses.field(default=default))


def class_fields(cls: type) -> list[Option]:
    """The fields of an options class; the string under each is its help."""
    hints = typing.get_type_hints(cls)
    return [
        (field.name, hints[field.name], _help(cls, field.name), field.default)
        for field in dataclasses.fields(cls)
    ]


def _help(cls: type, name: str) -> str:
    """The string under a field, in the class or in the one that it extends."""
    for base in cls.__mro__[:-1]:
        pattern = rf'\n    {name}:[^\n]*\n    """(.*?)"""'
        found = re.search(pattern, inspect.getsource(base), re.S)
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
    """The value of an option on which the other options depend."""
    for i, argument in enumerate(arguments):
        if argument == f"--{name}" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"--{name}="):
            return argument.split("=", 1)[1]
    return None


def read_seeds(text: str) -> list[int]:
    """A number of seeds, or a list of them."""
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return list(range(int(text)))
    except ValueError:
        raise InputError(
            f"seeds = {text!r}: needs a number of seeds, or a list such as 3,7"
        ) from None


def read_sweep(text: str) -> tuple[str, list[Any]]:
    """field=a,b,c as (field, [a, b, c])."""
    field, _, values = text.partition("=")
    if not field or not values:
        raise InputError(f"sweep {text!r}: needs field=a,b,c")

    def value(part: str) -> Any:
        try:
            return json.loads(part)
        except ValueError:
            return part

    return field.replace("-", "_"), [value(part) for part in values.split(",")]

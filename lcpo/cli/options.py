"""From typed options to command-line flags, and back. tyro does the parsing."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from typing import Annotated, Any

import tyro

from lcpo.errors import InputError

BAD_INPUT = 2
RUN_FAILED = 1
"""Exit codes."""

Option = tuple[str, Any, str, Any]
"""(name, type, help, default)"""


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


def _field(option: Option) -> Any:
    name, type_, help, default = option
    annotated = Annotated[type_, tyro.conf.arg(help=help)]
    if default is tyro.MISSING:
        return (name, annotated)
    return (name, annotated, dataclasses.field(default=default))


def fields_of(cls: type) -> list[Option]:
    """The fields of an options class; the string under each is its help."""
    hints = typing.get_type_hints(cls)
    source = inspect.getsource(cls)
    out = []
    for field in dataclasses.fields(cls):
        found = re.search(rf'\n    {field.name}:[^\n]*\n    """(.*?)"""', source, re.S)
        help = " ".join(found.group(1).split()) if found else ""
        out.append((field.name, hints[field.name], help, field.default))
    return out


def config_fields(config: Any) -> list[Option]:
    """The fields of a config, with its values as defaults."""
    hints = typing.get_type_hints(type(config))
    return [
        (f.name, hints[f.name], f.metadata.get("help", ""), getattr(config, f.name))
        for f in dataclasses.fields(config)
    ]


def changed(options: Any, default: Any) -> dict[str, Any]:
    """Config values that differ from the defaults."""
    names = [f.name for f in dataclasses.fields(default)]
    values = {name: getattr(options, name) for name in names}
    return {k: v for k, v in values.items() if v != getattr(default, k)}


def escaped(text: str) -> str:
    """Text that rich prints as it is."""
    return text.replace("[", r"\[")


def peek(arguments: list[str], name: str) -> str | None:
    """The value of an option on which the other options depend."""
    for i, argument in enumerate(arguments):
        if argument == f"--{name}" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"--{name}="):
            return argument.split("=", 1)[1]
    return None


def seeds(text: str) -> list[int]:
    """A number of seeds, or a list of them."""
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return list(range(int(text)))
    except ValueError:
        raise InputError(
            f"seeds = {text!r}: needs a number of seeds, or a list such as 3,7"
        ) from None


def sweep(text: str) -> tuple[str, list[Any]]:
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

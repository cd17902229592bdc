"""Frozen, vmappable configs.

    @config
    class Config:
        "What it configures."
        learning_rate: float = traced(4e-4, "policy learning rate", low=0.0)
        hidden: tuple[int, ...] = static((64, 64), "hidden layer sizes", low=1)

A *traced* field is a leaf of the pytree: it can be vmapped over, so one program runs many values.
A *static* field is part of the tree's structure: another value means another program.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp

from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.names import unknown

T = TypeVar("T")


def traced(
    default: float, help: str, *, low: float | None = None, high: float | None = None
) -> Any:
    """A number that may vary between the runs of one compiled program."""
    metadata = {"traced": True, "help": help, "low": low, "high": high}
    return dataclasses.field(default=default, metadata=metadata)


def static(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Iterable[str] | None = None,
    share_of_steps: float | None = None,
    share_at_most: int | None = None,
) -> Any:
    """A size, flag or name that the compiled program depends on.

    `share_of_steps`: None stands for this share of the run's steps, up to `share_at_most`
    (see `resolve`).
    """
    metadata = {"traced": False, "help": help, "low": low, "high": high, "choices": choices}
    metadata |= {"share": share_of_steps, "share_at_most": share_at_most}
    return dataclasses.field(default=default, metadata=metadata)


def faults(*choices: str) -> Any:
    """The field `faults`: faults of the published code to repeat; none by default."""
    return static((), "published faults to repeat", choices=choices)


def with_default(cls: type, name: str, default: Any) -> Any:
    """The field `name` of the config class `cls` with another default and the same help and
    bounds."""
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    return dataclasses.field(default=default, metadata=field.metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def config(cls: type[T]) -> type[T]:
    """Class decorator: a frozen, keyword-only dataclass that is also a pytree."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    jax.tree_util.register_dataclass(
        cls,
        data_fields=[f.name for f in fields if f.metadata.get("traced")],
        meta_fields=[f.name for f in fields if not f.metadata.get("traced")],
    )
    return cls


def traced_fields(cls: type | Any) -> list[str]:
    """Names of the fields that can be vmapped over."""
    return [f.name for f in dataclasses.fields(cls) if f.metadata.get("traced")]


def make(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build `cls` from plain values (as read from JSON or a command line), checked."""
    if not dataclasses.is_dataclass(cls):
        raise InputError(
            f"{_title(cls)} is not a config: decorate the class with @lcpo.config.config"
        )
    if not isinstance(values, Mapping):
        plain_values.refuse(f"values of {_title(cls)}", values, "a dict of names and values")
    fields, hints = {f.name: f for f in dataclasses.fields(cls)}, _hints(cls)
    for name in values:
        if name not in fields:
            raise InputError(unknown("field", name, fields, of=_title(cls)))
    for name, field in fields.items():
        is_given = name in values or not field.init
        if not is_given and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{_title(cls)}.{name} has no default: give it one, or a value")
    return cls(**{k: _coerce_and_check(cls, fields[k], hints[k], v) for k, v in values.items()})


def to_json(config: Any) -> dict[str, Any]:
    """Plain values of a config; `make(type(config), to_json(config)) == config`."""
    out = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if hasattr(value, "tolist"):
            value = value.tolist()
        out[field.name] = list(value) if isinstance(value, tuple) else value
    return out


def resolve(config: T, steps: int, fraction: Fraction = Fraction(1)) -> T:
    """Replace each None that stands for a share of the run's steps.

    `fraction`: of the published length of a run; the upper limits of the shares shrink with it.
    """
    sizes: dict[str, int] = {}
    for field in dataclasses.fields(config):  # pyright: ignore[reportArgumentType]
        share, most = (field.metadata.get(key) for key in ("share", "share_at_most"))
        if share and getattr(config, field.name) is None:
            found = round(share * steps)
            sizes[field.name] = max(
                1, found if most is None else min(found, round(most * fraction))
            )
    return dataclasses.replace(config, **sizes) if sizes else config  # pyright: ignore[reportArgumentType]


def published_faults(cls: type) -> dict[str, Any]:
    """The values with which an agent or environment repeats every fault of the published code."""
    found = [f for f in dataclasses.fields(cls) if f.name == "faults"]
    return {"faults": tuple(found[0].metadata["choices"])} if found else {}


def stack(configs: list[T]) -> T:
    """Stack the traced fields of configs with equal static fields, for vmap."""
    if len({jax.tree.structure(c) for c in configs}) > 1:
        raise InputError("configs cannot be stacked: they differ in a static field")
    return jax.tree.map(lambda *leaves: jnp.asarray(leaves, jnp.float32), *configs)


def _title(cls: type) -> str:
    return f"{cls.__module__.removeprefix('lcpo.')}.{cls.__name__}"


_hints = functools.cache(typing.get_type_hints)


def _coerce_and_check(cls: type, field: dataclasses.Field, hint: Any, value: Any) -> Any:
    meta = field.metadata
    low, high, choices = (meta.get(key) for key in ("low", "high", "choices"))

    def fail(need: str) -> typing.NoReturn:
        what, help = f"{_title(cls)}.{field.name}", f" ({meta['help']})" if "help" in meta else ""
        plain_values.refuse(what, value, need + help)

    out = _coerce(hint, value, fail)
    for x in out if isinstance(out, tuple) else (out,):
        if choices is not None and not callable(choices) and x not in choices:
            raise InputError(unknown(field.name, x, choices, of=_title(cls)))
        if not plain_values.is_number(x):
            continue
        # In the compiled program a traced field is a float32, and a size an int32.
        if isinstance(x, float) and not plain_values.fits_float32(x):
            fail("a finite number, in float32")
        if isinstance(x, int) and abs(x) > plain_values.INT_MAX:
            fail(f"at most {plain_values.INT_MAX:,}")
        if low is not None and x < low:
            fail(f"at least {low}")
        if high is not None and x > high:
            fail(f"at most {high}")
    return out


def _coerce(hint: Any, value: Any, fail: Any) -> Any:
    value = plain_values.plain(value)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in args:
            return None
        return _coerce(next(a for a in args if a is not type(None)), value, fail)
    if origin is tuple:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            fail("a list")
        return tuple(_coerce(args[0], v, fail) for v in value)
    if hint is bool:
        return value if isinstance(value, bool) else fail("true or false")
    if hint is int:
        return int(value) if plain_values.is_whole(value) else fail("a whole number")
    if hint is float:
        try:
            return float(value) if plain_values.is_number(value) else fail("a number")
        except OverflowError:  # a whole number that no float can hold
            return float("inf")
    if hint is str:
        return value if isinstance(value, str) else fail("a name")
    return value

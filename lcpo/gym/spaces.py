"""Gymnasium's spaces as the flat observations and discrete actions that agents know."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from lcpo.envs.base import ActionForm
from lcpo.errors import InputError

OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
ACTIONS = "Discrete, MultiDiscrete, MultiBinary, or a Box with finite bounds"


Reader = Callable[[Any, Any], tuple[np.ndarray, np.ndarray]]
"""(obs, info) -> (features, context), flat."""


class Encoder(NamedTuple):
    """A space as a flat vector."""

    size: int
    levels: tuple[int, ...] | None  # levels of each entry, where all are finite
    names: tuple[str, ...]
    """Of the entries, to be put behind the name of the space: "", "[0]", "=2", ".key[0]"."""
    encode: Callable[[Any], np.ndarray]
    """value -> [size] float32; raises InputError if the value does not fit the space."""


class Split(NamedTuple):
    """Observations in two parts: features and context."""

    num_features: int
    context_size: int
    levels: tuple[tuple[int, ...], tuple[int, ...]] | None  # of both parts, where all are finite
    names: tuple[tuple[str, ...], tuple[str, ...]]  # of both parts
    read: Reader


def observation_encoder(space: Any, one_hot: bool = True) -> Encoder:
    """How to flatten observations: Dict entries in the order of their names.

    `one_hot`: Discrete and MultiDiscrete as a 0/1 entry per value, else as the value's number.
    """
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        size = math.prod(space.shape)
        levels = (2,) * size if isinstance(space, spaces.MultiBinary) else None
        return Encoder(size, levels, _indices(space.shape), _encode_array(space.shape))
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return _encode_numbers(space, one_hot)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        is_dict = isinstance(space, spaces.Dict)
        parts = sorted(space.spaces.items()) if is_dict else enumerate(space.spaces)
        return join_encoders({name: observation_encoder(part, one_hot) for name, part in parts})
    raise InputError(f"observation space {space}: needs {OBSERVATIONS}")


def action_form(space: Any, bins: int) -> ActionForm:
    """Actions as integers, one per dimension; a Box becomes a grid of `bins` values in each."""
    if isinstance(space, spaces.Box):
        return _grid(space, bins)
    if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        raise InputError(f"action space {space}: needs {ACTIONS}")
    counts, start = _ranges(space)
    rows = tuple(tuple(range(first, first + n)) for n, first in zip(counts, start, strict=True))
    dtype = np.int64 if isinstance(space, spaces.Discrete) else space.dtype
    return ActionForm(rows, space.shape or (), np.dtype(dtype).name)


def _ranges(space: Any) -> tuple[list[int], list[int]]:
    """How many values each dimension of a discrete space has, and the first of them."""
    if isinstance(space, spaces.MultiBinary):
        size = math.prod(space.shape)
        return [2] * size, [0] * size
    counts = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
    return counts.astype(int).tolist(), np.ravel(space.start).astype(int).tolist()


def _grid(space: Any, bins: int) -> ActionForm:
    """A bounded Box: evenly spaced values, both bounds among them."""
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise InputError(
            f"action space {space} has no finite bounds: needs some for a grid of values; wrap the "
            "environment in gymnasium.wrappers.RescaleAction or give its Box bounds"
        )
    values = np.linspace(low, high, bins)  # [bins, A]
    if np.issubdtype(space.dtype, np.integer):
        values = np.rint(values)
    rows = tuple(map(tuple, values.T.tolist()))
    return ActionForm(rows, space.shape, np.dtype(space.dtype).name)


def context_splitter(
    space: Any, declared: str | None, one_hot: bool, info_size: Callable[[], int]
) -> Split:
    """How to part the declared context from the rest; `info_size()`: of info["context"]."""
    kind, _, where = (declared or "").partition(":")
    if kind == "key":
        if not isinstance(space, spaces.Dict) or where not in space.spaces:
            raise InputError(f"context {declared!r} is not a key of the observation space {space}")
        parts = {k: observation_encoder(space[k], one_hot) for k in sorted(space.spaces)}
        context = parts.pop(where)
        rest = join_encoders(parts)
        finite = rest.levels is not None and context.levels is not None
        levels = (rest.levels, context.levels) if finite else None
        names = _called("obs", rest.names), _called(where, context.names)

        def read(obs: Any, info: Any) -> tuple[np.ndarray, np.ndarray]:
            return rest.encode(obs), context.encode(obs[where])

        return Split(rest.size, context.size, levels, names, read)  # pyright: ignore
    whole = observation_encoder(space, one_hot)
    if kind == "slice":
        return _split_slice(space, whole, where)
    if declared == "info":
        size = info_size()
        names = _called("obs", whole.names), _called("context", _indices((size,)))

        def read_info(obs: Any, info: Any) -> tuple[np.ndarray, np.ndarray]:
            return whole.encode(obs), info_context(info)

        return Split(whole.size, size, None, names, read_info)
    if declared is not None:
        raise InputError(f"context {declared!r}: needs key:NAME, slice:START:END or info")
    nothing = np.zeros(0, np.float32)
    levels = None if whole.levels is None else (whole.levels, ())
    names = _called("obs", whole.names), ()
    return Split(whole.size, 0, levels, names, lambda obs, _: (whole.encode(obs), nothing))


def info_context(info: Any) -> np.ndarray:
    """The context that an environment puts into `info`."""
    if "context" not in info:
        raise InputError(f"info is {info!r}: needs an entry 'context', at reset and at every step")
    return np.asarray(info["context"], np.float32).reshape(-1)


def _split_slice(space: Any, whole: Encoder, where: str) -> Split:
    if not isinstance(space, spaces.Box):
        raise InputError(f"context 'slice:{where}' needs a Box, the observation space is {space}")
    try:
        start, end = (int(part) if part else None for part in where.split(":"))
    except ValueError:
        raise InputError(f"context 'slice:{where}': needs slice:START:END, as slice:4:6") from None
    chosen = np.arange(whole.size)[start:end]
    if not len(chosen):
        raise InputError(
            f"context 'slice:{where}' is empty: the observation has {whole.size} entries"
        )
    others = np.setdiff1d(np.arange(whole.size), chosen)
    called = _called("obs", whole.names)
    names = tuple(called[i] for i in others), tuple(called[i] for i in chosen)

    def read(obs: Any, info: Any) -> tuple[np.ndarray, np.ndarray]:
        entries = whole.encode(obs)
        return entries[others], entries[chosen]

    return Split(len(others), len(chosen), None, names, read)


def _indices(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the entries of an array; one entry alone needs none."""
    if math.prod(shape) == 1:
        return ("",)
    return tuple(f"[{','.join(map(str, place))}]" for place in np.ndindex(*shape))


def _called(name: str, entries: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the entries of a space that is called `name`; those of a Dict have keys instead."""
    return tuple(x[1:] if x.startswith(".") else name + x for x in entries)


def _encode_array(shape: tuple[int, ...]) -> Callable[[Any], np.ndarray]:
    def encode(value: Any) -> np.ndarray:
        array = np.asarray(value, np.float32)
        if array.shape != shape:
            raise InputError(f"has shape {list(array.shape)}, the space says {list(shape)}")
        return array.reshape(-1)

    return encode


def _encode_numbers(space: Any, one_hot: bool) -> Encoder:
    """Discrete or MultiDiscrete."""
    counts, start = map(np.array, _ranges(space))
    firsts = np.cumsum(counts) - counts

    def encode(value: Any) -> np.ndarray:
        found = np.ravel(value)
        index = found - start if found.shape == start.shape else None
        if index is None or not ((index >= 0) & (index < counts)).all():
            raise InputError(f"is {value!r}, which is not in {space}")
        if not one_hot:
            return index.astype(int).astype(np.float32)
        out = np.zeros(counts.sum(), np.float32)
        out[firsts + index.astype(int)] = 1.0
        return out

    names = _indices(start.shape)
    if one_hot:
        ranges = (range(first, first + n) for first, n in zip(start, counts, strict=True))
        values = zip(names, ranges, strict=True)
        names = tuple(f"{name}={value}" for name, found in values for value in found)
        return Encoder(int(counts.sum()), None, names, encode)
    return Encoder(len(counts), tuple(counts.tolist()), names, encode)


def join_encoders(parts: dict[Any, Encoder]) -> Encoder:
    """The parts of a Dict or Tuple, one after the other."""
    finite = all(part.levels is not None for part in parts.values())
    levels = tuple(n for part in parts.values() for n in part.levels or ()) if finite else None

    def encode(value: Any) -> np.ndarray:
        out = []
        for name, part in parts.items():
            try:
                out.append(part.encode(value[name]))
            except (KeyError, IndexError, TypeError) as error:
                raise InputError(f"is {value!r}, without an entry {name!r}") from error
            except ValueError as error:
                raise InputError(f"[{name!r}] {error}") from error
        return np.concatenate(out) if out else np.zeros(0, np.float32)

    names = tuple(
        (f".{name}" if isinstance(name, str) else f"[{name}]") + entry
        for name, part in parts.items()
        for entry in part.names
    )
    return Encoder(sum(part.size for part in parts.values()), levels, names, encode)

"""What the entries of an observation are called, and how old their values are.

An environment may name them. Both members are optional:

    feature_names   a name for each entry outside the context history, in their order
    context_names   a name for each channel of the context

Names that differ only in a last index or value, such as copies[0] and copies[1] or mode=0 and
mode=1, share a row of the table.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lcpo.envs.base import AnyEnv

_LAST = re.compile(r"(\[[^\[\]]*\]|=-?\d+)$")  # an index, or a value


class Entry(NamedTuple):
    """One entry of an observation."""

    place: int
    name: str
    lag: int | None
    """Of the context: how many values ago; None: not a part of the context."""


def feature_names_of(env: AnyEnv) -> tuple[str, ...]:
    """Optional member `feature_names`; numbered where there is none."""
    count = env.spec.obs_size - env.spec.context.size
    return getattr(env, "feature_names", None) or _numbered("feature", count)


def context_names_of(env: AnyEnv) -> tuple[str, ...]:
    """Optional member `context_names`; numbered where there is none."""
    return getattr(env, "context_names", None) or _numbered("context", env.spec.context.channels)


def obs_entries(env: AnyEnv, channels: Sequence[str] = ()) -> list[Entry]:
    """The entries of the environment's observations; `channels`: other names of the context."""
    context, features = env.spec.context, iter(feature_names_of(env))
    of_context = itertools.product(channels or context_names_of(env), range(context.lags))
    places = range(env.spec.obs_size)
    return [
        Entry(
            i, *(next(of_context) if context.start <= i < context.end else (next(features), None))
        )
        for i in places
    ]


def entry_rows(entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    """Rows of a table: entries, names, lags. A channel, and a group of features, is one row."""
    groups: dict[tuple[str, bool], list[Entry]] = {}
    for entry in entries:
        is_context = entry.lag is not None
        name = entry.name if is_context else _LAST.sub("", entry.name)
        groups.setdefault((name, is_context), []).append(entry)
    return [
        (
            _series(entry.place for entry in group),
            _series(dict.fromkeys(entry.name for entry in group)),
            _series(entry.lag for entry in group) if is_context else "-",
        )
        for (_, is_context), group in groups.items()
    ]


def _series(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return ", ".join(texts if len(texts) <= 4 else [*texts[:2], "...", texts[-1]])


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}[{i}]" for i in range(count))

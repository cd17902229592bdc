"""Which settings of an agent are searched, and where: ranges and choices, by field.

    c_anchor=1e-5..1e-2           a range; on a log scale if it spans a factor of ten or more
    rollout_length=50|100|200     choices
    gamma=0.99                    one value: it is set, and not searched

A field that changes the compiled program (`config.static`) should have few choices.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lcpo import config as configs
from lcpo import values as plain_values
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.types import AnyAgent

DIGITS = 3
"""Significant digits of a searched number: a command that is printed stays readable."""
DECADE = 10.0
"""A positive range that spans this factor is searched on a log scale."""
FEWEST_UPDATES = 50
"""Rollout lengths with which a run has fewer updates are left out of the table's choices."""


class Range(NamedTuple):
    """Numbers from `low` to `high`."""

    low: float
    high: float

    @property
    def log(self) -> bool:
        """Whether it is searched on a log scale."""
        return self.low > 0 and self.high >= DECADE * self.low

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


class Choices(NamedTuple):
    """One of several values."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return "|".join(map(shown, self.values))


def shown(value: Any) -> str:
    """A value of a setting, as text."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(list(value) if isinstance(value, tuple) else value)


class Shares(NamedTuple):
    """One of several counts, each a share of the run's steps."""

    values: tuple[float, ...]


Dimension = Range | Choices
Space = dict[str, Dimension]
"""The searched fields of an agent, and where each is searched."""

RANGES: Mapping[str, Range | Choices | Shares] = {
    "rollout_length": Choices((25, 50, 100, 200)),
    "learning_rate": Range(1e-4, 1e-2),
    "value_learning_rate": Range(1e-4, 1e-2),
    "gamma": Choices((0.9, 0.95, 0.98, 0.99, 0.995)),
    "lam": Range(0.8, 0.99),
    "entropy_coef": Range(1e-3, 0.3),
    "entropy_target": Range(0.01, 0.3),
    "entropy_floor": Choices((True, False)),
    "c_anchor": Range(1e-6, 1e-2),
    "sigma": Range(0.1, 10.0),
    "c_0": Range(1e-4, 0.1),
    "tau": Range(30.0, 3000.0),
    "w_v": Range(0.1, 10.0),
    "w_pi": Choices((0.0, 0.1, 0.25, 1.0)),
    "clip": Range(0.05, 0.4),
    "max_kl": Range(1e-3, 0.1),
    "policy_clone_coef": Range(1e-4, 0.1),
    "value_clone_coef": Range(1e-3, 0.1),
    "updates_per_rollout": Choices((1, 4, 16)),
    "target_rate": Range(3e-3, 0.1),
    "random_steps": Shares((0.01, 0.05)),
    "epsilon_steps": Shares((0.02, 0.1, 0.25)),
}
"""Where a field is searched, whichever agent has it."""

_ACTOR_CRITIC = ("rollout_length", "value_learning_rate", "gamma", "lam")
_REPLAY = ("rollout_length", "updates_per_rollout", "learning_rate", "gamma", "random_steps")
_LCPO = (*_ACTOR_CRITIC, "entropy_coef", "entropy_target", "c_anchor", "sigma")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "lcpo": _LCPO,
    "lcpo-plus": (*_LCPO, "entropy_floor", "c_0", "tau", "w_v", "w_pi"),
    "a2c": (*_ACTOR_CRITIC, "learning_rate", "entropy_coef"),
    "ppo": (*_ACTOR_CRITIC, "learning_rate", "entropy_coef", "clip", "max_kl"),
    "sac": (*_REPLAY, "value_learning_rate", "target_rate", "entropy_target"),
    "ddqn": (*_REPLAY, "target_rate", "epsilon_steps"),
    "clear": (
        "rollout_length", "updates_per_rollout", "learning_rate", "value_learning_rate", "gamma",
        "entropy_coef", "policy_clone_coef", "value_clone_coef",
    ),
}  # fmt: skip
"""The searched fields by agent; variants have those of their agent. Fields that a config lacks are
left out."""
OTHERS = ("rollout_length", "learning_rate", "value_learning_rate", "gamma", "entropy_coef")
"""Those of any other agent."""
LEARNED = set(RANGES) - {"rollout_length"}
"""Fields of agents that learn: each of them has at least one."""
UNUSED = {"sigma": ("detector", "everything")}
"""A field that has no effect if another one has this value."""


def space_of(
    agent: AnyAgent,
    fixed: Mapping[str, Any],
    chosen: Mapping[str, Dimension],
    steps: int,
    brought: Mapping[str, Any] | None = None,
) -> Space:
    """The search space of an agent.

    `fixed`: settings that the user has given, which are not searched. `chosen`: the user's own
    dimensions, which replace the table's; those of fields that the agent lacks are left out.
    `steps`: of a run. `brought`: values that the environment brings for the agent. Like the agent's
    other defaults, they lie inside the space.
    """
    known = {f.name for f in dataclasses.fields(agent.Config)}
    defaults = {**vars(configs.make(agent.Config, {**agent.presets, **(brought or {})})), **fixed}
    names = [name for name in FIELDS.get(agent.root.name, OTHERS) if name in known]
    names = [name for name in names if name not in fixed and not _is_unused(name, defaults)]
    if not known & LEARNED:
        names = []  # a rule: the length of its rollouts changes nothing
    minibatches = defaults.get("minibatches", 1)
    wide = {name: _including(RANGES[name], defaults[name]) for name in names}
    space: Space = {name: _resolve(name, found, steps, minibatches) for name, found in wide.items()}
    space |= {name: found for name, found in chosen.items() if name in known}
    for name in chosen:
        if name in fixed:
            raise InputError(f"{name} is both set and searched: leave one of them out")
    space = {name: _checked(agent, name, found) for name, found in space.items()}
    if not any(_is_open(found) for found in space.values()):
        raise InputError(
            f"agent {agent.name!r} has no settings to search: name some with --search, as in "
            "--search 'learning_rate=1e-4..1e-2'"
        )
    return space


def check_chosen(agents: Iterable[AnyAgent], chosen: Mapping[str, Dimension]) -> None:
    """Raise InputError for a dimension that no agent has."""
    known = {f.name: None for agent in agents for f in dataclasses.fields(agent.Config)}
    for name in chosen:
        if name not in known:
            raise InputError(unknown("setting to search", name, known))


def read_search(text: str | Mapping[str, Any] | None) -> Space:
    """The dimensions in "c_anchor=1e-5..1e-2,rollout_length=50|100", or in a dict of such texts."""
    if text is None:
        return {}
    if isinstance(text, Mapping):
        parts = [(str(name), found) for name, found in text.items()]
    elif isinstance(text, str):
        split = (part.partition("=") for part in plain_values.split("search", text) if part)
        parts = [(name.strip(), found.strip()) for name, _, found in split]
    else:
        plain_values.refuse("search", text, "a text such as 'c_anchor=1e-5..1e-2', or a dict")
    space: Space = {}
    for name, found in parts:
        name = name.replace("-", "_")
        if not name or found == "":
            plain_values.refuse("search", text, "field=LOW..HIGH or field=A|B|C, by commas")
        if name in space:
            raise InputError(f"{name} is searched twice: give it once")
        space[name] = _read(name, found)
    return space


def _read(name: str, found: Any) -> Dimension:
    """A dimension from text, a list of choices, or one value."""
    if isinstance(found, (list, tuple)):
        return Choices(tuple(map(_plain, found)))
    if not isinstance(found, str):
        return Choices((_plain(found),))
    low, dots, high = found.partition("..")
    if not dots:
        return Choices(tuple(_plain(plain_values.from_text(x.strip())) for x in found.split("|")))
    try:
        ends = float(low), float(high)
    except ValueError:
        plain_values.refuse(f"search of {name}", found, "two numbers, as in 1e-5..1e-2")
    if not all(map(math.isfinite, ends)) or ends[0] >= ends[1]:
        plain_values.refuse(f"search of {name}", found, "a lower and a higher number")
    return Range(*ends)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else plain_values.plain(value)


def _resolve(name: str, found: Range | Choices | Shares, steps: int, minibatches: int) -> Dimension:
    """A dimension of the table for runs of this length, of an agent that cuts its batches so."""
    if isinstance(found, Shares):
        return Choices(tuple(dict.fromkeys(max(1, round(x * steps)) for x in found.values)))
    if name == "rollout_length" and isinstance(found, Choices):
        whole = [x for x in found.values if x % minibatches == 0] or found.values
        short = tuple(x for x in whole if x * FEWEST_UPDATES <= steps)
        return Choices(short or (whole[0],))
    return found


def _including(found: Range | Choices | Shares, value: Any) -> Range | Choices | Shares:
    """A dimension of the table with a default of the agent; 0 has no place on a log scale."""
    if isinstance(found, Choices) and value not in found.values:
        return Choices(tuple(sorted((*found.values, value))))
    if isinstance(found, Range) and value > 0.0:
        return Range(min(found.low, value), max(found.high, value))
    return found


def _is_unused(name: str, defaults: Mapping[str, Any]) -> bool:
    other, value = UNUSED.get(name, ("", None))
    return bool(other) and defaults.get(other) == value


def _is_open(found: Dimension) -> bool:
    return isinstance(found, Range) or len(found.values) > 1


def is_whole(agent: AnyAgent, name: str) -> bool:
    """Whether the field of an agent's config is a whole number."""
    hint = typing.get_type_hints(agent.Config)[name]
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return int in parts


def is_static(agent: AnyAgent, name: str) -> bool:
    """Whether another value of the field means another program."""
    return name not in configs.traced_fields(agent.Config)


def _checked(agent: AnyAgent, name: str, found: Dimension) -> Dimension:
    """A dimension whose values the config accepts; InputError for others."""
    if isinstance(found, Range):
        if is_whole(agent, name):
            found = Range(*map(round, found))
            if found.low >= found.high:
                plain_values.refuse(f"search of {name}", str(found), "two whole numbers")
        elif typing.get_type_hints(agent.Config)[name] is not float:
            plain_values.refuse(f"search of {name}", str(found), "choices, as in A|B|C")
        for end in found:
            configs.make(agent.Config, {name: end})
        return found
    made = [getattr(configs.make(agent.Config, {name: x}), name) for x in found.values]
    if len(set(made)) < len(made):
        plain_values.refuse(f"search of {name}", str(found), "choices that differ")
    return Choices(tuple(made))


def tidy(agent: AnyAgent, name: str, found: Dimension, value: Any) -> Any:
    """A drawn value with few digits, inside its range."""
    if isinstance(found, Choices) or is_whole(agent, name):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return min(max(short, found.low), found.high)


def to_json(space: Space) -> dict[str, Any]:
    """Plain values: a pair for a range is {"low", "high"}, choices are a list."""
    return {
        name: {"low": found.low, "high": found.high}
        if isinstance(found, Range)
        else [list(x) if isinstance(x, tuple) else x for x in found.values]
        for name, found in space.items()
    }


def from_json(body: Mapping[str, Any]) -> Space:
    """The inverse of `to_json`."""
    return {
        name: Range(found["low"], found["high"])
        if isinstance(found, Mapping)
        else Choices(tuple(map(_plain, found)))
        for name, found in body.items()
    }

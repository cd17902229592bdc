"""Families of traces: `family:KIND:SEED` draws the settings of a process, and the process.

All have two channels and any length. Times stand in steps and do not depend on the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lcpo.contexts import generators
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.values import shown

Settings = tuple[Callable[..., np.ndarray], dict[str, Any]]
FAMILY = "family:"
"""What the name of a member begins with."""
MOST_DIGITS, MOST_MEMBERS = 18, 100_000
"""Of a seed, and of a range of them."""
FAMILIES: dict[str, str] = {
    "revisit": "3 to 5 winds, switched at random every 50,000 to 200,000 steps, and revisited",
    "drift": "Ornstein-Uhlenbeck drift with a relaxation time of 0.3 to 5 million steps",
    "burst": "calm, with bursts in which the wind turns on a circle",
    "iid": "a wind drawn anew at every step",
}


def parse(name: str) -> tuple[str, int]:
    """(kind, seed) of 'family:KIND:SEED'."""
    _, kind, seed = (*name.split(":", 2), "", "")[:3]
    if kind not in FAMILIES:
        raise InputError(unknown("trace family", kind, FAMILIES))
    if not (seed.isascii() and seed.isdigit()) or len(seed) > MOST_DIGITS:
        several = f"; `lcpo compare --traces {name}` takes several" if ".." in seed else ""
        raise InputError(
            f"trace {shown(name)}: the seed is {shown(seed)}, needs a whole number from 0, "
            f"as in 'family:{kind}:0'{several}"
        )
    return kind, int(seed)


def members(name: str) -> list[str]:
    """family:KIND:0..9 as the names of its ten members; any other name as it is."""
    family, _, seeds = name.rpartition(":")
    first, dots, last = seeds.partition("..")
    if not name.startswith(FAMILY) or not dots:
        return [name]
    low, high = (parse(f"{family}:{seed}")[1] for seed in (first, last))
    if not low <= high < low + MOST_MEMBERS:
        raise InputError(
            f"traces {shown(name)}: needs the first and the last seed of at most {MOST_MEMBERS:,} "
            f"traces, as in '{family}:0..9'"
        )
    return [f"{family}:{seed}" for seed in range(low, high + 1)]


def ranges(names: Iterable[str]) -> list[str]:
    """The inverse of `members`: members in a row, such as family:drift:0 to 2, as one name."""
    found: list[str] = []
    first, kind, last = "", ("", ""), -1
    for name in names:
        start, _, end = name.rpartition(":")
        seed, at, fraction = end.partition("@")
        is_seed = bool(start) and seed.isascii() and seed.isdigit() and len(seed) <= MOST_DIGITS
        number = int(seed) if is_seed else -1
        if is_seed and (start, fraction, number) == (*kind, last + 1):
            found[-1] = f"{start}:{first}..{number}{at}{fraction}"
        else:
            found.append(name)
            first, kind = seed, (start, fraction)
        last = number
    return found


def settings(name: str) -> Settings:
    """The generator that a member uses, and its keyword arguments."""
    kind, seed = parse(name)
    # The kind is part of the seed: members of two families with one seed have nothing in common.
    rng = np.random.default_rng([*kind.encode(), seed])
    process_seed = int(rng.integers(2**31))
    generator, arguments = DRAW[kind](rng)
    return generator, {**arguments, "seed": process_seed}


def make(name: str, rows: int) -> np.ndarray:
    """The first `rows` rows of a member, [rows, 2]."""
    generator, arguments = settings(name)
    return generator(rows, **arguments)


def switches(name: str, rows: int) -> generators.Switches:
    """The switching schedule of a member of the family "revisit"."""
    arguments = settings(name)[1]
    num_contexts = len(arguments.pop("levels"))
    arguments.pop("noise")
    return generators.revisit_switches(rows, num_contexts=num_contexts, **arguments)


def _revisit(rng: generators.Rng) -> Settings:
    """The winds are at least 1.5 apart: different contexts to sigma = 1."""
    levels = [rng.normal(0.0, 1.5, 2)]
    count = rng.integers(3, 6)
    while len(levels) < count:
        level = rng.normal(0.0, 1.5, 2)
        if np.linalg.norm(level - np.array(levels), axis=1).min() >= 1.5:
            levels.append(level)
    return generators.revisit, {
        "levels": np.array(levels),
        "dwell": _steps(rng, 50_000, 200_000),
        "jitter": 0.5,
        "order": "random",
        "noise": rng.uniform(0.05, 0.3),
    }


def _drift(rng: generators.Rng) -> Settings:
    return generators.ornstein_uhlenbeck, {
        "mean": rng.normal(0.0, 0.5, 2),
        "std": rng.uniform(0.8, 2.0),
        "relaxation": _steps(rng, 300_000, 5_000_000),
    }


def _burst(rng: generators.Rng) -> Settings:
    return generators.bursts, {
        "calm": _steps(rng, 100_000, 400_000),
        "turn": _steps(rng, 50_000, 200_000),
        "radius": rng.uniform(1.0, 2.5),
        "noise": rng.uniform(0.1, 0.4),
    }


def _iid(rng: generators.Rng) -> Settings:
    return generators.iid, {"mean": rng.uniform(-1.0, 1.0, 2), "std": rng.uniform(0.5, 1.5)}


def _steps(rng: generators.Rng, low: int, high: int) -> int:
    """Log-uniform, in thousands: a whole number of 200-step rollouts."""
    return 1000 * round(math.exp(rng.uniform(math.log(low), math.log(high))) / 1000)


DRAW: dict[str, Callable[[generators.Rng], Settings]] = {
    "revisit": _revisit,
    "drift": _drift,
    "burst": _burst,
    "iid": _iid,
}

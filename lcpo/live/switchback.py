"""Switchback experiments: incumbent and policy take turns, in randomized blocks of time.

Time is divided into blocks of equal length, and consecutive blocks into groups. In every group the
same number of blocks, drawn at random, belongs to the policy; the rest belong to the incumbent. The
draw depends only on the seed and the block's number, so it survives restarts.

The difference is estimated within groups: policy blocks minus incumbent blocks. Rewards of nearby
moments are correlated, and a day has a cycle. The draws of different groups are independent,
though, so their differences are uncorrelated, and Student's interval over groups is valid.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lcpo import values
from lcpo.core.intervals import Estimate, mean_ci

LARGEST_GROUP = 20
"""Blocks of a group, at most."""


@dataclasses.dataclass(frozen=True)
class Switchback:
    """The design of an experiment."""

    length: float
    """Duration of a block, in seconds, or in the unit of the clock."""
    share: float = 0.5
    """Share of blocks in which the policy decides, such as 0.5, 0.25 or 0.1."""
    burn_in: float = 0.0
    """Duration at the start of each block that is not counted: the system still reacts to the block
    before."""
    seed: int = 0

    def __post_init__(self) -> None:
        values.number("length", self.length, 1e-9)
        values.whole("seed", self.seed, 0)
        if not 0.0 <= values.number("burn_in", self.burn_in) < self.length:
            values.refuse(
                "burn_in", self.burn_in, f"less than the length of a block, {self.length}"
            )
        number = values.number("share", self.share, 0.0, 1.0)
        share = Fraction(number).limit_denominator(LARGEST_GROUP)
        if abs(float(share) - number) > 1e-6 or not 0 < share < 1:
            need = f"a fraction with a denominator of at most {LARGEST_GROUP}, such as 0.5 or 0.1"
            values.refuse("share", self.share, need)

    @property
    def group(self) -> int:
        """Number of blocks of a group."""
        return Fraction(self.share).limit_denominator(LARGEST_GROUP).denominator

    def block(self, time: float) -> int:
        """The number of the block that a moment belongs to."""
        return math.floor(time / self.length)

    def is_policys(self, block: int) -> bool:
        """Whether the policy decides in a block."""
        group, place = divmod(block, self.group)
        return place in _drawn(self, group)

    def counts(self, time: float) -> bool:
        """Whether a moment is after the burn-in of its block."""
        return time - self.block(time) * self.length >= self.burn_in


class Total(NamedTuple):
    """The rewards of a block."""

    number: int = 0
    sum: float = 0.0

    def add(self, reward: float) -> Total:
        return Total(self.number + 1, self.sum + reward)


class Result(NamedTuple):
    """What an experiment has shown."""

    policy: float
    """Mean reward of the policy's blocks."""
    incumbent: float
    difference: Estimate
    """Policy minus incumbent, with its interval; `n` is the number of groups."""
    num_left_out: int
    """Blocks of groups in which a block has no rewards: one under way, or the system was down."""


@functools.lru_cache(maxsize=64)
def _drawn(design: Switchback, group: int) -> frozenset[int]:
    """The places in a group that belong to the policy."""
    share = Fraction(design.share).limit_denominator(LARGEST_GROUP)

    def draw(place: int) -> bytes:
        return hashlib.sha256(f"{design.seed} {group} {place}".encode()).digest()

    return frozenset(sorted(range(share.denominator), key=draw)[: share.numerator])


def estimate(
    design: Switchback, blocks: Mapping[int, Total], before: int | None = None, level: float = 0.95
) -> Result:
    """The difference between policy and incumbent, from the rewards of blocks by number.

    Rewards belong to the block of their decision, and those of the burn-in are left out by the
    caller. `before`: the block under way, which is not counted.
    """
    known = {number: total for number, total in blocks.items() if total.number}
    if before is not None:
        known = {number: total for number, total in known.items() if number < before}
    size, policy, incumbent, differences = design.group, [], [], []
    for group in sorted({number // size for number in known}):
        members = [known.get(group * size + place) for place in range(size)]
        means = [total.sum / total.number for total in members if total is not None]
        if len(means) < size:
            continue
        mine = np.array([place in _drawn(design, group) for place in range(size)])
        policy.append(np.mean(np.array(means)[mine]))
        incumbent.append(np.mean(np.array(means)[~mine]))
        differences.append(policy[-1] - incumbent[-1])
    means = [float(np.mean(x)) if x else math.nan for x in (policy, incumbent)]
    left_out = len(known) - size * len(differences)
    return Result(means[0], means[1], mean_ci(differences, level), left_out)


def gather(design: Switchback, times: np.ndarray, rewards: np.ndarray) -> dict[int, Total]:
    """Totals by block, without burn-in, from the times of decisions and their rewards."""
    numbers = np.floor(times / design.length).astype(np.int64)
    after = times - numbers * design.length >= design.burn_in
    found, which = np.unique(numbers[after], return_inverse=True)
    counts, sums = np.bincount(which), np.bincount(which, rewards[after])
    totals = zip(found.tolist(), counts.tolist(), sums.tolist(), strict=True)
    return {number: Total(count, total) for number, count, total in totals}

"""Versions of a policy on the disk, and the rule by which the last good one returns.

    versions/0000000300.npz       the agent after 300 updates, without its large buffers

`Watch` sees every reward, in order. If the mean over the policy's newest `window` decisions is
worse than the incumbent's by more than `margin`, it names the version to return to: the one that
was in use when the last acceptable window began.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.errors import InputError
from lcpo.run.store.checkpoint import flatten, unflatten, without_memory
from lcpo.run.store.files import load_bundle, save_bundle, sweep
from lcpo.types import Tree

SCHEMA = 1
_NAME = re.compile(r"(\d{10})\.npz")
_NEEDED = {"version": int, "sequence": int, "time": (int, float)}


def slim(agent: Tree) -> dict[str, np.ndarray]:
    """What a version holds of an agent: everything except its large buffers."""
    return {path: np.array(x) for path, x in flatten(without_memory(agent)).items()}


def restored(agent: Tree, arrays: Mapping[str, np.ndarray]) -> Tree:
    """An agent with the arrays of a version, and the large buffers that it has now."""
    found = jax.tree.map(jnp.asarray, unflatten(without_memory(agent), dict(arrays)))
    return found._replace(memory=agent.memory) if hasattr(agent, "memory") else found


class Version(NamedTuple):
    """A saved policy."""

    version: int
    """Number of updates before it."""
    sequence: int
    """The newest event that it has learned from."""
    time: float
    """When it was saved, in seconds since 1970."""


class Versions:
    """The saved versions of a folder; each file is written atomically, with digests."""

    def __init__(self, folder: Path, keep: int = 5) -> None:
        """`keep`: how many of the newest versions stay, besides the first and the last good one."""
        self.folder, self.keep = folder, values.whole("keep", keep)

    def save(self, about: Version, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a version."""
        save_bundle(self._path(about.version), SCHEMA, about._asdict(), arrays)

    def load(self, version: int) -> tuple[Version, dict[str, np.ndarray]]:
        """A version and its arrays; InputError if it is not there, or damaged."""
        path = self._path(values.whole("version", version, 0))
        if not path.exists():
            kept = ", ".join(map(str, self.numbers())) or "none"
            raise InputError(f"version {version} is not kept in {self.folder}: kept are {kept}")
        about, arrays = load_bundle(path, SCHEMA, _NEEDED)
        if about["version"] != version:
            raise InputError(f"{path} is version {about['version']}: it was renamed")
        return Version(version, about["sequence"], about["time"]), arrays

    def numbers(self) -> list[int]:
        """The versions that are kept, the oldest first."""
        paths = self.folder.glob("*.npz") if self.folder.is_dir() else ()
        return sorted(int(found[1]) for path in paths if (found := _NAME.fullmatch(path.name)))

    def prune(self, good: int | None, needed: Collection[int] = ()) -> None:
        """Delete old versions.

        Args:
          good: the last version that is known to be good.
          needed: versions that recovery may need.
        """
        if self.folder.is_dir():
            sweep(self.folder)
        numbers = self.numbers()
        for number in set(numbers) - to_keep(numbers, self.keep, good) - set(needed):
            self._path(number).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self.folder / f"{version:010}.npz"


def to_keep(numbers: Iterable[int], keep: int, good: int | None) -> set[int]:
    """The newest versions, the newest one up to `good`, to return to, and the first one."""
    ordered = sorted(numbers)
    return {*ordered[:1], *ordered[-keep:], *newest_up_to(ordered, good)}


def newest_up_to(numbers: Iterable[int], good: int | None) -> set[int]:
    """The newest version up to `good`, as a set of at most one."""
    older = [number for number in numbers if good is not None and number <= good]
    return {max(older)} if older else set()


@dataclasses.dataclass(frozen=True)
class Rule:
    """When to return to an earlier version."""

    margin: float
    """How much worse than the incumbent's the policy's mean reward may be."""
    window: int = 1000
    """Decisions behind each mean."""

    def __post_init__(self) -> None:
        values.number("margin", self.margin, 0.0)
        values.whole("window", self.window, 2)


def is_worse(rule: Rule, policy: tuple[int, float], incumbent: tuple[int, float]) -> bool:
    """Whether the policy must go, from (number, sum) of the newest rewards of both.

    Means of fewer than `rule.window` rewards say nothing.
    """
    if min(policy[0], incumbent[0]) < rule.window:
        return False
    return policy[1] / policy[0] < incumbent[1] / incumbent[0] - rule.margin


class Watch:
    """The newest rewards of policy and incumbent, under a rule. Equal calls have equal results."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.good: int | None = None
        """The version in use when the last acceptable window began; None: there was no such."""
        self._since = 0
        """Rewards of earlier versions no longer count."""
        self._policy, self._versions, self._incumbent = (
            collections.deque[Any](maxlen=rule.window) for _ in range(3)
        )

    def see_incumbent(self, reward: float) -> None:
        """The reward of a decision of the incumbent."""
        self._incumbent.append(reward)

    def see_policy(self, version: int, reward: float) -> bool:
        """The reward of a decision of the policy; True if it is time to roll back."""
        if version < self._since:
            return False
        self._policy.append(reward)
        self._versions.append(version)
        if len(self._policy) < self.rule.window:
            return False
        # Exact sums: they must not depend on what has left the window.
        policy = (len(self._policy), math.fsum(self._policy))
        if is_worse(self.rule, policy, (len(self._incumbent), math.fsum(self._incumbent))):
            return True
        self.good = min(self._versions)
        return False

    def begin_again(self, version: int = 0) -> None:
        """After a rollback, which made `version`: rewards of earlier versions do not count.

        They may still come, if rewards come late.
        """
        self._since = version
        self._policy.clear()
        self._versions.clear()

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        kept = (self._policy, self._versions, self._incumbent)
        kept_values = [list(values) for values in kept]
        return {"good": self.good, "since": self._since, "kept": kept_values}

    @classmethod
    def from_json(cls, rule: Rule, found: Mapping[str, Any]) -> Watch:
        """The inverse of `to_json`."""
        watch = cls(rule)
        watch.good, watch._since = found["good"], found.get("since", 0)
        for mine, kept in zip(
            (watch._policy, watch._versions, watch._incumbent), found["kept"], strict=True
        ):
            mine.extend(kept)
        return watch

"""Argument checks that host worlds in NumPy share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.errors import InputError


class CheckedWorlds:
    """N worlds, as in lcpo.envs.base.HostWorlds, whose methods check their arguments."""

    def __init__(self, num_worlds: int, seeds: Sequence[int], threads: int | None) -> None:
        """`threads`: None for one per core."""
        if num_worlds < 1 or len(seeds) != num_worlds:
            raise InputError(f"{num_worlds} worlds, {len(seeds)} seeds: needs one seed per world")
        if not all(0 <= seed < 2**64 for seed in seeds):
            raise InputError(f"seeds = {list(seeds)}: needs integers from 0 to 2**64 - 1")
        if threads is not None and threads < 1:
            raise InputError(f"threads = {threads}: needs at least 1, or None for one per core")
        has_affinity = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
        self.num_worlds, self.threads = num_worlds, threads or cores or 1

    def check_mask(self, mask: np.ndarray) -> None:
        """Check the mask of `reset`: one flag per world."""
        if np.shape(mask) != (self.num_worlds,) or np.asarray(mask).dtype != bool:
            raise InputError(
                f"reset mask of {np.asarray(mask).dtype}{list(np.shape(mask))}: needs "
                f"bool[{self.num_worlds}], one per world"
            )

    def check_actions(self, action: np.ndarray, size: int, count: int) -> None:
        """Check the actions of `step`: indices [N, size] from 0 to count - 1."""
        if action.shape != (self.num_worlds, size) or action.dtype.kind not in "iu":
            raise InputError(
                f"actions {action.dtype}{list(action.shape)}: needs integers "
                f"{[self.num_worlds, size]}, a row per world"
            )
        unsigned = action.astype(np.int64).view(np.uint64)  # a negative index becomes a huge one
        if unsigned.max() >= count:
            world = int(unsigned.max(axis=1).argmax())
            raise InputError(
                f"action {action[world].tolist()} of world {world}: needs indices from 0 to "
                f"{count - 1}"
            )

    @staticmethod
    def check_begun(begun: np.ndarray) -> None:
        """Check before `step` that all worlds [N] have been reset."""
        if not begun.all():
            world = int(np.argmin(begun))
            raise InputError(f"world {world} has not been reset: call reset before step")

    @staticmethod
    def check_state(state: Mapping[str, Any], expected: Mapping[str, np.ndarray]) -> None:
        """Check the state for `set_state`: leaves have the shapes that `get_state` returns."""
        for name, value in expected.items():
            if name not in state or np.shape(state[name]) != value.shape:
                given = list(np.shape(state[name])) if name in state else "missing"
                raise InputError(f"state[{name!r}] is {given}: needs {list(value.shape)}")

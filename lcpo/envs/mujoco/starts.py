"""Initial states of many host worlds, drawn ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lcpo.errors import InputError

BLOCK = 64
"""States that a world draws at a time: to make a generator takes longer than to draw from it."""

Draw = Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""`draw(rng, default [count, nq]) -> (qpos, qvel)`, both [count, nq]."""


class Starts:
    """The n-th initial state of a world depends on its seed and on n alone."""

    def __init__(self, draw: Draw, default: np.ndarray, seeds: Sequence[int]) -> None:
        if not all(0 <= seed < 2**64 for seed in seeds):
            raise InputError(f"seeds = {list(seeds)}: needs integers from 0 to 2**64 - 1")
        self._draw, self._default = draw, np.tile(default, (BLOCK, 1))
        self._states = np.zeros((len(seeds), BLOCK, 2, len(default)))
        self.seeds = np.array(seeds, np.uint64)
        self.count = np.zeros(len(seeds), np.int64)

    def take(self, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The next qpos, qvel [len(worlds), nq] of some worlds."""
        index = self.count[worlds] % BLOCK
        self._fill(worlds[index == 0])
        self.count[worlds] += 1
        states = self._states[worlds, index]
        return states[:, 0], states[:, 1]

    def restore(self, seeds: np.ndarray, count: np.ndarray) -> None:
        """Go on as worlds with these seeds that have taken so many states."""
        self.seeds, self.count = np.array(seeds, np.uint64), np.array(count, np.int64)
        self._fill(np.flatnonzero(self.count % BLOCK))

    def _fill(self, worlds: np.ndarray) -> None:
        """Draw the blocks that hold the next states of some worlds."""
        for world in worlds:
            seed, block = int(self.seeds[world]), int(self.count[world]) // BLOCK
            # The blocks are far apart in the counter: none can run into the next.
            rng = np.random.Generator(np.random.Philox(key=seed, counter=block << 192))
            self._states[world] = np.stack(self._draw(rng, self._default), axis=1)

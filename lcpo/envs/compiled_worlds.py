"""A compiled environment as host worlds: for those who want to play with any environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from lcpo.types import Step


class CompiledWorlds:
    """Worlds of a compiled environment as lcpo.envs.base.HostWorlds."""

    def __init__(self, env: Any, seeds: Sequence[int]) -> None:
        self.keys = jax.vmap(jax.random.key)(np.array(seeds, np.uint32))
        self.draws = np.zeros(len(seeds), np.int32)  # of each world: none hears of the others'
        self.state: Any = None
        self._reset, self._step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
        self._fold = jax.jit(jax.vmap(jax.random.fold_in))

    def _drawn(self, mask: Any) -> Any:
        self.draws = self.draws + mask
        return self._fold(self.keys, self.draws)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        state, features = jax.tree.map(np.asarray, self._reset(self._drawn(mask)))
        if self.state is None:
            self.state, self.features = state, features

        def pick(new: Any, old: Any) -> Any:
            return np.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)

        self.state = jax.tree.map(pick, state, self.state)
        self.features = pick(features, self.features)
        return self.features

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        after = self._step(self.state, action, context, self._drawn(1))
        self.state, step = jax.tree.map(np.asarray, after)
        self.features = step.obs
        return step

    def close(self) -> None:
        pass

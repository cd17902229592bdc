"""A compiled environment as host worlds: for those who want to play with any environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from lcpo.envs.base import CompiledEnv, select
from lcpo.types import Array, Step


class CompiledWorlds:
    """Worlds of a compiled environment as lcpo.envs.base.HostWorlds. They cannot be saved."""

    def __init__(self, env: CompiledEnv[Any], seeds: Sequence[int]) -> None:
        self.keys = jax.vmap(jax.random.key)(np.array(seeds, np.uint32))
        self.draws = np.zeros(len(seeds), np.int32)  # of each world, apart from the others'
        self.state: Any = None
        self._reset, self._step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
        self._fold = jax.jit(jax.vmap(jax.random.fold_in))

    def _next_keys(self, mask: np.ndarray | int) -> Array:
        """Keys [N]; those of worlds outside the mask have been used before."""
        self.draws = self.draws + mask
        return self._fold(self.keys, self.draws)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        """Begin an episode where `mask` [N] is set; features [N, F] of all worlds."""
        fresh = self._reset(self._next_keys(mask))
        if self.state is not None:
            fresh = select(mask, fresh, (self.state, self.features))
        self.state, self.features = jax.tree.map(np.asarray, fresh)
        return self.features

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """One step with actions [N, A] in contexts [N, channels]. No resets."""
        after = self._step(self.state, action, context, self._next_keys(1))
        self.state, step = jax.tree.map(np.asarray, after)
        self.features = step.obs
        return step

    def get_state(self) -> None:
        """They cannot be saved."""
        return None

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """They cannot be saved."""
        raise RuntimeError("worlds of a compiled environment cannot be saved")

    def close(self) -> None:
        """Nothing is held."""

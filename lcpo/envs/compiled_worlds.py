"""A compiled environment as host worlds, so that any environment can be stepped in NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from lcpo.envs.base import AnyEnv, CompiledEnv, HostWorlds, is_host, max_input_of, select
from lcpo.types import Array, Step


def open_worlds(env: AnyEnv, seeds: Sequence[int], threads: int | None = None) -> HostWorlds:
    """Worlds of an environment of either kind, one for each seed; `threads` as in `HostEnv`."""
    return env.open(len(seeds), seeds, threads) if is_host(env) else CompiledWorlds(env, seeds)


class CompiledWorlds:
    """Worlds of a compiled environment as lcpo.envs.base.HostWorlds. They cannot be saved."""

    def __init__(self, env: CompiledEnv[Any], seeds: Sequence[int]) -> None:
        self.env = env
        # These stay on the device: keys, the number of draws of each world, and the state.
        self.keys = jax.vmap(jax.random.key)(np.array(seeds, np.uint32))
        self.draws: Any = np.zeros(len(seeds), np.int32)
        self.state: Any = None
        self._reset, self._step = _compile(env)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        self.draws, fresh = self._reset(self.keys, self.draws, mask)
        if self.state is not None:
            fresh = select(mask, fresh, (self.state, self.features))
        self.state, features = fresh
        self.features = np.asarray(features)
        return self.features

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        after = self._step(self.keys, self.draws, self.state, action, context)
        self.draws, self.state, step = after
        step = jax.device_get(step)
        self.features = step.obs
        return step

    def step_inputs(self, chosen: np.ndarray, context: np.ndarray) -> Step:
        """As `step`, with motor inputs [N, A]: numbers between two indices of the grid."""
        high = max_input_of(self.env)
        assert high is not None
        share = (np.clip(chosen, -high, high) + high) / (2.0 * high)
        index = share * (np.array(self.env.spec.num_actions) - 1)
        return self.step(index.astype(np.float32), context)

    def get_state(self) -> None:
        return None

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        raise RuntimeError("worlds of a compiled environment cannot be saved")

    def close(self) -> None:
        pass


@functools.lru_cache(maxsize=32)
def _compile(env: CompiledEnv[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`reset` and `step` of many worlds, cached, each with its random keys in one program."""
    fold = jax.vmap(jax.random.fold_in)

    def reset(keys: Array, draws: Array, mask: Array) -> Any:
        draws = draws + mask.astype(draws.dtype)  # results of other worlds are discarded
        return draws, jax.vmap(env.reset)(fold(keys, draws))

    def step(keys: Array, draws: Array, state: Any, action: Array, context: Array) -> Any:
        draws = draws + 1
        return draws, *jax.vmap(env.step)(state, action, context, fold(keys, draws))

    return jax.jit(reset), jax.jit(step)

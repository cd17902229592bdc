"""A compiled environment as a host environment that draws the compiled driver's own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import random
from lcpo.run.drive import base
from lcpo.run.plan.phases import ONLINE, Mode
from lcpo.types import Step


class Mirror:
    """`env` with rollouts of `num_steps` steps; one world per run."""

    def __init__(self, env: Any, num_steps: int, mode: Mode = ONLINE) -> None:
        self.env, self.num_steps, self.mode = env, num_steps, mode
        self.spec, self.advance = env.spec, env.advance
        self.landmarks = getattr(env, "landmarks", {})

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> Worlds:
        assert len(seeds) == num_worlds
        return Worlds(self, jnp.array(seeds))


class Worlds:
    """Its actions are kept in `actions`."""

    def __init__(self, mirror: Mirror, seeds: Any) -> None:
        self.mirror, self.seeds, self.count = mirror, seeds, 0
        self.actions: list[np.ndarray] = []
        env, num_steps, mode = mirror.env, mirror.num_steps, mirror.mode

        def begin(seed: Any) -> Any:
            return env.reset(jax.random.split(base.init_keys(seed)[1], 1)[0])

        def draws(seed: Any, update: Any) -> Any:
            keys = base.rollout_keys(base.update_keys(seed, update, mode)[0])
            fresh = jax.vmap(env.reset)(jax.random.split(keys.reset, (num_steps, 1))[:, 0])
            return random.scan_bits(keys.step, (num_steps, 1))[:, 0], fresh

        def step(state: Any, action: Any, context: Any, bits: Any) -> Any:
            return env.step(state, action, context, random.from_bits(bits))

        self.begin = jax.jit(jax.vmap(begin))
        self.draws = jax.jit(jax.vmap(draws, (0, None)))
        self.advance = jax.jit(jax.vmap(step))

    def reset(self, mask: np.ndarray) -> np.ndarray:
        if self.count == 0:
            self.state, features = self.begin(self.seeds)
            self.features = np.array(features)
            return self.features
        t = (self.count - 1) % self.mirror.num_steps
        fresh_state, fresh = jax.tree.map(lambda x: x[:, t], self.fresh)
        self.state = jax.tree.map(lambda a, b: jnp.where(mask, a, b), fresh_state, self.state)
        self.features = np.where(mask[:, None], fresh, self.features)
        return self.features

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        update, t = divmod(self.count, self.mirror.num_steps)
        if t == 0:
            self.bits, self.fresh = self.draws(self.seeds, update)
        self.count += 1
        self.actions.append(action.copy())
        self.state, step = self.advance(self.state, action, context, self.bits[:, t])
        step = jax.tree.map(np.asarray, step)
        self.features = step.obs
        return step

    def get_state(self) -> None:
        return None

    def close(self) -> None:
        pass

"""The paper's 3x3 grid world, whose trap comes and goes, in pure JAX (docs/envs/grid_world.md).

    (0,0) (0,1) EXIT      start (2,2), exit (0,2), wall (1,2), trap (1,1)
    (1,0) TRAP  WALL      actions: 0 left, 1 up, 2 right, 3 down; the border holds
    (2,0) (2,1) START     reward: 0 on the exit, else -1; -10 more on the first entry of the trap

The best return is -3 without the trap (through its cell) and -5 with it (around it).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance, Landmark
from lcpo.types import Array, ContextSlice, Spec, Step

SIZE = 3
MOVES = np.array([[0, -1], [-1, 0], [0, 1], [1, 0]])
TRAP_PENALTY = 10.0


class State(NamedTuple):
    """Where the walker stands, whether the trap has caught it, and the steps since the reset."""

    row: Array
    col: Array
    caught: Array
    time: Array


@config
class GridWorld:
    """Walk from one corner to the next, past a wall and a trap. Context: (unused, trap active)."""

    as_described: bool = static(
        False, "as in the paper's text: the exit ends the episode and the wall is solid; else as "
        "in its code: all episodes have max_steps steps, and the wall lets through sideways",
    )  # fmt: skip
    max_steps: int = static(20, "episode length, or its limit if as_described", low=1)

    feature_names: ClassVar[tuple[str, ...]] = ("row", "column")
    context_names: ClassVar[tuple[str, ...]] = ("unused", "trap active")

    @property
    def spec(self) -> Spec:
        context = ContextSlice(start=2, channels=2, lags=1)
        levels = (SIZE, SIZE, 2, 2)
        return Spec(2 + context.size, context, (4,), obs_levels=levels, unit_steps=True)

    @property
    def advance(self) -> Advance:
        return "episode"

    @property
    def landmarks(self) -> dict[str, Landmark]:
        """The cell beside the start: up, through the trap's cell, or left, around it."""
        return {
            "no_trap": Landmark(obs=(2, 1, 0, 0), action=(1,)),
            "trap": Landmark(obs=(2, 1, 0, 1), action=(0,)),
        }

    def reset(self, key: Array) -> tuple[State, Array]:
        state = State(jnp.int32(2), jnp.int32(2), jnp.bool_(False), jnp.int32(0))
        return state, _features(state)

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """One move; `action` [1] is its direction. context[1] > 0.5: the trap is active."""
        move = jnp.asarray(MOVES)[action[0]]
        row = jnp.clip(state.row + move[0], 0, SIZE - 1)
        col = jnp.clip(state.col + move[1], 0, SIZE - 1)
        blocked = (row == 1) & (col == 2)
        if not self.as_described:
            blocked = blocked & (state.col == 2) & (state.row != 1)  # only from above and below
        row, col = jnp.where(blocked, state.row, row), jnp.where(blocked, state.col, col)
        on_exit = (row == 0) & (col == 2)
        trapped = (row == 1) & (col == 1) & (context[1] > 0.5) & ~state.caught
        state = State(row, col, state.caught | trapped, state.time + 1)
        return state, Step(
            obs=_features(state),
            reward=jnp.where(on_exit, 0.0, -1.0) - TRAP_PENALTY * trapped.astype(jnp.float32),
            terminated=on_exit & self.as_described,
            truncated=state.time >= self.max_steps,
        )


def _features(state: State) -> Array:
    return jnp.stack([state.row, state.col]).astype(jnp.float32)

"""Your own environment: a room kept at its temperature while the seasons change.

Run it: python own_environment.py. Temperatures are differences to the wanted one, in 10 degrees.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lcpo
from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.run.store.record import lifelong_return
from lcpo.run.store.results import Result
from lcpo.types import Array, ContextSlice, Spec, Step


class State(NamedTuple):
    """Everything that changes, as arrays."""

    inside: Array
    time: Array


@config
class Thermostat:
    """A heat pump with five settings, -1 (cool) .. 1 (heat). Context: the outside temperature."""

    max_steps: int = static(100, "episode length", low=1)

    @property
    def spec(self) -> Spec:
        context = ContextSlice(start=1, channels=1, lags=3)  # now, and the last two steps
        return Spec(1 + context.size, context, num_actions=(5,))

    @property
    def advance(self) -> Advance:
        return "step"  # the next row of the trace at every step

    def reset(self, key: Array) -> tuple[State, Array]:
        """Somewhat too warm or too cold. The observation holds no context: the driver adds it."""
        inside = jax.random.uniform(key, minval=-0.5, maxval=0.5)
        return State(inside, jnp.int32(0)), inside[None]

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """Heat leaks to the outside; the pump moves twice as much at full power."""
        del key
        power = action[0].astype(jnp.float32) / 2.0 - 1.0
        inside = state.inside + 0.1 * (context[0] - state.inside) + 0.2 * power
        state = State(inside, state.time + 1)
        over = state.time >= self.max_steps  # cut off, not the end of the room: truncated
        return state, Step(inside[None], -(inside**2), terminated=jnp.bool_(False), truncated=over)


def main(folder: str = "out/thermostat", steps: int = 200_000, seeds: int = 2) -> list[Result]:
    """Summer and winter in alternation, each for a quarter of the run."""
    outside = np.where(np.arange(steps + 1) * 4 // steps % 2, 1.5, -1.5)
    outside = outside + np.random.default_rng(0).normal(0.0, 0.1, steps + 1)
    Path(folder).mkdir(parents=True, exist_ok=True)
    trace = f"{folder}/outside.npy"
    np.save(trace, outside[:, None])  # [rows, channels]
    return lcpo.train(
        "lcpo",
        f"{__name__}:Thermostat",
        trace=trace,
        steps=steps,
        seeds=seeds,
        out=f"{folder}/lcpo",
        workers=0,
    )


if __name__ == "__main__":
    for result in main():
        print(f"seed {result.job.seed}: return {lifelong_return(result.record):.2f}")

"""CartPole whose pole grows and shrinks, and whose motor weakens, which the agent observes.

    python drifting_cartpole.py csv     # writes pole-0.csv .. pole-7.csv
    lcpo tune --env drifting_cartpole:DriftingCartPole --agents lcpo-plus --steps 20000 \\
        --traces pole-0.csv,pole-1.csv --seeds 2 --budget 10min \\
        --judge-traces pole-2.csv,pole-3.csv,pole-4.csv,pole-5.csv,pole-6.csv,pole-7.csv

docs/tune.md explains the command. The environment is compiled: it runs on a GPU, too.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lcpo
from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import Array, ContextSlice, Spec, Step

GRAVITY, CART, POLE, PUSH, LENGTH = 9.8, 1.0, 0.1, 10.0, 0.5
"""Gravity, the masses of cart and pole, the usual force, and half the usual length; SI units."""
SECONDS = 0.02
"""The length of a step."""
FAR, TILTED = 2.4, 12.0 * np.pi / 180.0
"""An episode ends if the cart is farther from the middle, or the pole tilts more."""


class State(NamedTuple):
    """The cart and the pole, and the steps of the episode."""

    body: Array  # [4]: position, velocity, angle, angular velocity
    time: Array


@config
class DriftingCartPole:
    """Two actions: push to the left or to the right. A step with an upright pole is worth 1.

    Context: the pole's length and the motor's force, as powers of two: 1 is twice the usual one.
    """

    max_steps: int = static(500, "episode length", low=1)

    @property
    def spec(self) -> Spec:
        context = ContextSlice(start=4, channels=2, lags=1)
        return Spec(4 + context.size, context, num_actions=(2,))

    @property
    def advance(self) -> Advance:
        return "step"

    def reset(self, key: Array) -> tuple[State, Array]:
        """Almost upright in the middle."""
        body = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return State(body, jnp.int32(0)), _observe(body)

    def step(self, state: State, action: Array, context: Array, key: Array) -> tuple[State, Step]:
        """Euler's step of the equations of motion."""
        del key
        length, push = LENGTH * 2.0 ** context[0], PUSH * 2.0 ** context[1]
        force = jnp.where(action[0] == 1, push, -push)
        body = state.body + SECONDS * motion(state.body, force, length)
        state = State(body, state.time + 1)
        fallen = (jnp.abs(body[0]) > FAR) | (jnp.abs(body[2]) > TILTED)
        over = ~fallen & (state.time >= self.max_steps)
        return state, Step(_observe(body), jnp.float32(1.0), terminated=fallen, truncated=over)


def motion(body: Array, force: Array, length: Array) -> Array:
    """The derivative of the state: a pole on a cart, without friction."""
    _, velocity, angle, spin = body
    sine, cosine, total = jnp.sin(angle), jnp.cos(angle), CART + POLE
    pushed = (force + POLE * length * spin**2 * sine) / total
    inertia = length * (4.0 / 3.0 - POLE * cosine**2 / total)
    turn = (GRAVITY * sine - cosine * pushed) / inertia
    return jnp.stack([velocity, pushed - POLE * length * turn * cosine / total, spin, turn])


def _observe(body: Array) -> Array:
    """In units of the limits, so that all entries are of order 1."""
    return body / jnp.array([FAR, FAR, TILTED, 10.0 * TILTED])


def write_trace(path: str, rows: int = 20_001, seed: int = 0) -> str:
    """Length and force: regimes of a thousand steps or more, with a slow drift inside each."""
    rng = np.random.default_rng(seed)
    values = np.zeros((rows, 2))
    at = 0
    while at < rows:
        end = at + int(rng.integers(1_000, 3_000))
        first, last = rng.uniform([-1.5, -1.0], [1.5, 0.5], (2, 2))
        share = np.linspace(0.0, 1.0, end - at)[: rows - at, None]
        values[at:end] = first + 0.3 * share * (last - first)
        at = end
    with Path(path).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["length", "force"])
        table.writerows([f"{length:.4f}", f"{force:.4f}"] for length, force in values)
    return path


def write_traces(count: int = 8) -> list[str]:
    """Some traces: two to search on, the others to judge on."""
    return [write_trace(f"pole-{i}.csv", seed=i) for i in range(count)]


def main(out: str = "out/pole", steps: int = 20_000, trials: int = 48) -> lcpo.Tuning:
    """Search settings of LCPO+ on two traces, and judge them on six others."""
    first, second, *others = write_traces()
    return lcpo.tune(
        "lcpo-plus", DriftingCartPole(), traces=[first, second], judge_traces=others, steps=steps,
        seeds=2, judge_seeds=4, trials=trials, out=out,
    )  # fmt: skip


if __name__ == "__main__":
    print(write_traces() if sys.argv[1:] == ["csv"] else main())

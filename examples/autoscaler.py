"""An autoscaler from nothing to a comparison: a simulator in raw units, and a CSV of its load.

Run it: python autoscaler.py. Or, from this folder, write the CSV (python autoscaler.py csv) and use
the command: docs/tutorial_autoscaler.md has it step by step.
"""

from __future__ import annotations

import csv
import datetime
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import lcpo
from lcpo.agents.lcpo import agent as lcpo_agent
from lcpo.config import config, static
from lcpo.types import Agent, Array, Metrics, Spec, Transition

CHOICES = np.array([2, 4, 6, 8, 10, 12])
"""Numbers of servers to choose from."""
EACH = 100.0
"""Requests that a server answers per second."""
QUEUE = 20_000.0
"""Requests that can wait; more are turned away."""


class Autoscaler(gymnasium.Env):
    """How many servers? They cost, waiting costs more, and a new one needs a minute to start.

    A step is a minute. The requests per second are the context: they are observed, nobody can
    change them, and they come from a CSV file, which repeats.
    """

    def __init__(self, load: str = "requests.csv") -> None:
        with Path(load).open() as file:
            self.rates = np.array([float(row["requests"]) for row in csv.DictReader(file)])
        self.observation_space = spaces.Dict(
            {
                "queue": spaces.Box(0.0, QUEUE, (1,), np.float32),
                "servers": spaces.Box(0.0, 12.0, (1,), np.float32),
                "requests": spaces.Box(0.0, 5_000.0, (1,), np.float32),
            }
        )
        self.action_space = spaces.Discrete(len(CHOICES))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """The first minute of the file."""
        super().reset(seed=seed)
        self.minute, self.queue, self.servers, self.asked = 0, 0.0, 6, 6
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        """A minute passes. There are no episodes: a service does not end."""
        self.servers, self.asked = self.asked, int(CHOICES[action])
        arrived = self._rate() * (1.0 + 0.05 * self.np_random.normal())
        served = self.servers * EACH
        self.queue = float(np.clip(self.queue + 60.0 * (arrived - served), 0.0, QUEUE))
        self.minute += 1
        waiting = min(self.queue / served, 60.0)  # seconds
        return self._observe(), -0.1 * (self.servers + waiting), False, False, {}

    def _rate(self) -> float:
        return float(self.rates[self.minute % len(self.rates)])

    def _observe(self) -> dict[str, np.ndarray]:
        seen = {"queue": self.queue, "servers": self.asked, "requests": self._rate()}
        return {name: np.array([value], np.float32) for name, value in seen.items()}

    def get_state(self) -> dict[str, Any]:
        """Optional: with it a stopped run resumes exactly."""
        return {name: getattr(self, name) for name in ("minute", "queue", "servers", "asked")}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.minute, self.queue = int(state["minute"]), float(state["queue"])
        self.servers, self.asked = int(state["servers"]), int(state["asked"])


def write_load(path: str = "requests.csv", days: int = 42) -> str:
    """Requests per second, minute by minute: days and nights, quiet weeks and busy ones."""
    rng = np.random.default_rng(0)
    minute = np.arange(days * 1440)
    day = 1.0 - np.cos(2 * np.pi * minute / 1440)  # 0 at midnight, 2 at noon
    busy = minute // (7 * 1440) % 2 == 1
    noise = np.exp(0.05 * rng.normal(size=len(minute)))
    rate = np.where(busy, 500 + 250 * day, 120 + 120 * day) * noise
    start = datetime.datetime(2024, 1, 1)
    with Path(path).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", "requests"])
        for i, value in enumerate(rate):
            table.writerow([(start + datetime.timedelta(minutes=i)).isoformat(), f"{value:.1f}"])
    return path


# What an engineer would write: servers for the current load plus a fifth, and for the queue to
# be gone in a minute. An agent like any other, in the environment's own units (`raw`).


@config
class Config:
    """A rule of thumb."""

    rollout_length: int = static(200, "interactions per update; has no effect on actions", low=1)


class State(NamedTuple):
    """Nothing is remembered."""


def init(config: Config, spec: Spec, key: Array) -> State:
    """Nothing."""
    return State()


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """The least choice that is enough: obs [N, D] -> actions [N, 1]."""
    queue, rate = obs[:, 0], spec.context.history(obs)[:, 0, 0]  # of the only channel, lag 0
    needed = (1.2 * rate + queue / 60.0) / EACH
    enough = jnp.searchsorted(jnp.asarray(CHOICES, jnp.float32), needed)
    return jnp.minimum(enough, len(CHOICES) - 1)[:, None], ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learns nothing."""
    return state, {}


rule = Agent("rule", Config, init, act, update, raw=True)

# LCPO's defaults are for millions of steps, and six weeks of minutes are 60,000.
quick = lcpo_agent.variant(
    "lcpo-quick", rollout_length=50, learning_rate=5e-3, value_learning_rate=5e-3, gamma=0.9
)


AGENTS = "autoscaler:quick,autoscaler:rule,constant:4,random"


def main(out: str = "out/autoscaler", steps: int = 60_000, seeds: int = 3) -> lcpo.Comparison:
    """Compare LCPO with baselines that do not learn: a table, learning curves and a page in
    `out`."""
    env = lcpo.from_gymnasium(
        "autoscaler:Autoscaler", context="key:requests", arguments={"load": write_load()}
    )
    return lcpo.compare(AGENTS, env, steps=steps, seeds=seeds, normalise="running", out=out)


if __name__ == "__main__":
    print(write_load() if sys.argv[1:] == ["csv"] else main())

"""A home battery: prices, sun and load from a CSV file, in raw units, and a hand-written rule.

Run it: python battery.py. docs/tutorials/battery.ipynb goes through it step by step.
"""

from __future__ import annotations

import csv
import datetime
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

import lcpo
from lcpo.agents.ddqn import agent as ddqn_agent
from lcpo.config import config, static
from lcpo.types import Agent, Array, Metrics, Spec, Transition

CAPACITY = 10.0
"""Of the battery, in kWh; it starts half full."""
EFFICIENCY = 0.95
"""Of charging and of discharging: a fraction of the energy is lost each way."""
FEED_IN = 6.0
"""Cents paid for a kWh fed into the grid."""
LEVELS = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
"""The actions: power in kW, positive to charge and negative to discharge."""
IDLE, CHARGE = 3, 6


class Battery(gymnasium.Env):
    """A house with solar panels, a battery and a tariff that changes through the day.

    A step is 15 minutes. Price, sun and load are the context: observed, and not affected by
    actions. They come from a CSV file, which repeats. The reward is minus the cost, in cents.

    An action is one of the `LEVELS`. The charge stays between 0 and `CAPACITY`.
    """

    def __init__(self, data: str = "home.csv") -> None:
        with Path(data).open() as file:
            rows = list(csv.DictReader(file))
        self.rows = np.array([[float(r["price"]), float(r["sun"]), float(r["load"])] for r in rows])
        times = [datetime.datetime.fromisoformat(row["time"]) for row in rows]
        self.clock = np.array([clock(time) for time in times], np.float32)
        self.observation_space = spaces.Dict(
            {
                "battery": spaces.Box(0.0, CAPACITY, (1,), np.float32),  # kWh
                "clock": spaces.Box(-1.0, 1.0, (3,), np.float32),  # season, time of day
                "home": spaces.Box(-1e3, 1e5, (3,), np.float32),  # cents per kWh, W, W
            }
        )
        self.action_space = spaces.Discrete(len(LEVELS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """Start at the first row of the file, with a half-full battery."""
        super().reset(seed=seed)
        self.row, self.charge = 0, CAPACITY / 2
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        """Fifteen minutes pass. There are no episodes."""
        price, sun, load = self.rows[self.row]
        need = (load - sun) / 1000.0  # kW; below 0: surplus
        flow = float(LEVELS[action]) / 4.0  # kWh into the battery
        flow = min(flow, (CAPACITY - self.charge) / EFFICIENCY)
        flow = max(flow, -self.charge * EFFICIENCY)
        self.charge += flow * EFFICIENCY if flow > 0.0 else flow / EFFICIENCY
        grid = need / 4.0 + flow
        cost = grid * price if grid > 0.0 else grid * FEED_IN
        self.row = (self.row + 1) % len(self.rows)
        return self._observe(), -float(cost), False, False, {}

    def _observe(self) -> dict[str, np.ndarray]:
        return {
            "battery": np.array([self.charge], np.float32),
            "clock": self.clock[self.row].copy(),
            "home": self.rows[self.row].astype(np.float32),
        }

    def get_state(self) -> dict[str, Any]:
        """Optional: with it, an interrupted run resumes exactly."""
        return {"row": self.row, "charge": self.charge}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.row, self.charge = int(state["row"]), float(state["charge"])


def clock(time: datetime.datetime) -> tuple[float, float, float]:
    """Season (-1 in winter, 1 in summer), and the time of day as an angle."""
    day, hour = time.timetuple().tm_yday, time.hour + time.minute / 60.0
    angle = 2.0 * math.pi * hour / 24.0
    return -math.cos(2.0 * math.pi * day / 365.0), math.sin(angle), math.cos(angle)


def write_data(path: str = "home.csv", days: int = 730, seed: int = 0) -> str:
    """Two years of prices (cents per kWh), sun and load (W), every 15 minutes.

    Prices have two regimes that alternate every few weeks: calm, with a small evening peak, and
    tight, with expensive evenings and mornings. In summer the sun makes noon cheap.
    """
    rng = np.random.default_rng(seed)
    step = np.arange(days * 96)
    hour, day = step % 96 / 4.0, step // 96
    season = 0.5 - 0.5 * np.cos(2 * np.pi * day / 365.0)  # 0 in winter, 1 in summer
    clouds = np.repeat(rng.beta(2.0, 1.2, days), 96)
    height = np.maximum(0.0, np.sin(np.pi * (hour - 7.0 + 2 * season) / (10.0 + 4 * season)))
    height *= (hour > 7.0 - 2 * season) & (hour < 17.0 + 2 * season)
    sun = 6000.0 * (0.25 + 0.75 * season) * clouds * height
    evening = np.exp(-0.5 * ((hour - 19.0) / 1.8) ** 2)
    morning = np.exp(-0.5 * ((hour - 7.5) / 1.0) ** 2)
    noise = np.exp(0.3 * rng.normal(size=len(step)))
    load = (300.0 + 1500.0 * evening + 900.0 * morning + 400.0 * (1 - season)) * noise
    tight = np.repeat(np.cumsum(rng.random(days) < 1 / 20) % 2 == 1, 96)
    level = np.where(tight, 34.0, 22.0) * np.repeat(np.exp(0.15 * rng.normal(size=days)), 96)
    peak = np.where(tight, 0.9, 0.25)
    price = level * (1.0 + peak * (evening + 0.6 * morning) - 0.35 * peak * (hour < 5.5))
    price -= level * 0.6 * season * clouds * height
    start = datetime.datetime(2024, 1, 1)
    with Path(path).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["time", "price", "sun", "load"])
        for i in step:
            time = start + datetime.timedelta(minutes=15 * int(i))
            table.writerow([time.isoformat(), f"{price[i]:.2f}", f"{sun[i]:.0f}", f"{load[i]:.0f}"])
    return path


# What a careful owner would program: store the surplus, serve the house, and charge on winter
# nights if the price is low. An agent like any other, in the environment's own units (`raw`).


@config
class Config:
    """A rule that does not learn."""

    rollout_length: int = static(200, "interactions per update, which changes nothing", low=1)


class State(NamedTuple):
    """The rule has no state."""


def init(config: Config, spec: Spec, key: Array) -> State:
    """An empty state."""
    return State()


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Observations [N, 7] to actions [N, 1]."""
    charge, season, sine, cosine, price, sun, load = jnp.moveaxis(obs, -1, 0)
    hour = (jnp.arctan2(sine, cosine) / (2.0 * jnp.pi) * 24.0) % 24.0
    levels = jnp.asarray(LEVELS, jnp.float32)
    balance = jnp.argmin(jnp.abs(levels[None] - (sun - load)[:, None] / 1000.0), axis=1)
    at_night = (hour < 5.5) & (season < 0.0) & (charge < 9.0) & (price < 30.0)
    return jnp.where(at_night, CHARGE, balance)[:, None], ()


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Learns nothing."""
    return state, {}


rule = Agent("rule", Config, init, act, update, raw=True)

# Chosen on another draw of the data, `write_data("research.csv", seed=1)`: see the tutorial. DDQN's
# defaults are for millions of steps: too few gradient steps, and too long an exploration.
learner = ddqn_agent.variant(
    "ddqn-battery", updates_per_rollout=20, random_steps=1_000, epsilon_steps=7_000
)

AGENTS = f"battery:learner,battery:rule,constant:{IDLE},random,ppo,lcpo"


def main(out: str = "out/battery", steps: int = 70_000, seeds: int = 5) -> lcpo.Comparison:
    """Compare the learner with agents that need no learning, and with PPO's and LCPO's defaults."""
    env = lcpo.from_gymnasium(
        "battery:Battery", context="key:home", arguments={"data": write_data()}
    )
    return lcpo.compare(
        AGENTS, env, steps=steps, seeds=seeds, warmup=steps // 2, normalise="running", out=out
    )


if __name__ == "__main__":
    print(write_data() if sys.argv[1:] == ["csv"] else main())

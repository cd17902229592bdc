"""Your own Gymnasium environment, and three agents compared on it: a server and its load.

Run it: python own_env.py. On the command line, from this folder: lcpo check-env own_env:Server
--env.context key:load, and lcpo compare --env own_env:Server --env.context key:load --steps 60000.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import lcpo
from lcpo.gym import from_gymnasium
from lcpo.run.store.results import Result
from lcpo.study.measure import compare
from lcpo.study.report import report


class Server(gymnasium.Env):
    """Up to four workers serve a queue. Waiting costs, and so do workers.

    The load is the context: it is observed, nobody can change it, and it alternates between busy
    and calm. It continues through resets.
    """

    def __init__(self, period: int = 5_000, max_steps: int = 100) -> None:
        self.period, self.max_steps = period, max_steps
        entry = spaces.Box(0.0, 20.0, (1,), np.float32)
        self.observation_space = spaces.Dict({"queue": entry, "load": entry})
        self.action_space = spaces.Discrete(5)
        self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """An empty queue under the current load."""
        super().reset(seed=seed)
        if seed is not None or self.time == 0:
            self.time, self.load = 0, self._draw()
        self.queue, self.steps = 0.0, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        """Requests arrive, workers serve: `truncated`, not `terminated`, because the server
        continues."""
        self.time += 1
        self.steps += 1
        self.load = self._draw()
        self.queue = min(max(self.queue + self.load - int(action), 0.0), 20.0)
        reward = -0.1 * (self.queue + 1.5 * int(action))
        return self._observe(), reward, False, self.steps >= self.max_steps, {}

    def _draw(self) -> float:
        busy = self.time // self.period % 2 == 0
        return max(0.0, (3.0 if busy else 0.5) + 0.2 * self.np_random.normal())

    def _observe(self) -> dict[str, np.ndarray]:
        return {
            "queue": np.array([self.queue], np.float32),
            "load": np.array([self.load], np.float32),
        }

    def get_state(self) -> dict[str, Any]:
        """Optional: with it a stopped run resumes exactly. Its random generator is saved, too."""
        return {k: getattr(self, k) for k in ("time", "load", "queue", "steps")}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.time, self.steps = int(state["time"]), int(state["steps"])
        self.load, self.queue = float(state["load"]), float(state["queue"])


def main(folder: str = "out/server", steps: int = 60_000, seeds: int = 3) -> list[Path]:
    """Train three agents; a table and a plot of their learning curves."""
    env = from_gymnasium(Server, context="key:load", lags=3)
    results: list[Result] = []
    for agent in ("lcpo", "a2c-entropy", "a2c"):
        results += lcpo.train(agent, env, steps=steps, seeds=seeds, out=f"{folder}/{agent}",
                              workers=0)  # fmt: skip
    comparison = compare.summarise(results)
    print(report.to_table(comparison).to_text())
    return report.write_report(comparison, results, folder)


if __name__ == "__main__":
    for path in main():
        print(f"wrote {path}")

"""A small live agent, and a world for it, shared by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lcpo.live import LiveAgent
from lcpo.live import open as open_live
from lcpo.types import ContextSlice, Spec

SPEC = Spec(2 + 3, ContextSlice(start=2, channels=1, lags=3), num_actions=(4,))
SMALL = {"rollout_length": 8, "hidden": (8, 8)}


class Clock:
    """A minute passes with every step."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class World:
    """A queue with a load that comes and goes; the same seed and actions make the same rewards."""

    def __init__(self, seed: int = 0) -> None:
        self.rng, self.step, self.queue = np.random.default_rng(seed), 0, 0.0

    @property
    def seen(self) -> tuple[list[float], list[float]]:
        load = 2.0 if self.step // 30 % 2 else 0.5
        return [self.queue, float(self.step % 7)], [load]

    def play(self, action: int) -> float:
        load = self.seen[1][0] + 0.1 * self.rng.normal()
        self.queue = float(np.clip(self.queue + load - action, 0.0, 9.0))
        self.step += 1
        return -self.queue - 0.3 * action


def opened(folder: Path, clock: Clock | None = None, **options: Any) -> LiveAgent:
    """The agent of a folder, or a new one; live unless asked otherwise."""
    is_new = not (folder / "live.json").exists()
    made = {"agent": "a2c", "spec": SPEC, "config": SMALL, "mode": "live"} if is_new else {}
    return open_live(folder, clock=clock or Clock(), **{**made, **options})


def play(agent: LiveAgent, world: World, steps: int, stream: str = "0") -> list[Any]:
    """Act and observe; the decisions."""
    found = []
    for _ in range(steps):
        clock = agent.options.clock
        if isinstance(clock, Clock):
            clock.now += 60.0
        decision = agent.act(*world.seen, stream=stream)
        agent.observe(world.play(int(decision.action[0])), id=decision.id, stream=stream)
        found.append(decision)
    return found


def crash(agent: LiveAgent) -> None:
    """Leave everything as a killed process would."""
    agent._core.close()
    agent._open.close()

"""A learner in a loop of one's own: in lock step it is `lcpo train`; what is saved goes on."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from small_agents import SMALL as SIZES

import lcpo
from lcpo import Learner
from lcpo.agents import AGENTS
from lcpo.run.store.checkpoint import flatten, without_memory

STEPS, LENGTH = 80, 16
WIND = np.sin(np.arange(2 * 97).reshape(97, 2)).astype(np.float32).tolist()
WORLDS = {
    "pendulum": lcpo.from_gymnasium(
        "lcpo/WindyPendulum-v0", arguments={"trace": WIND, "max_steps": 13},
        context="slice:3:9", lags=3, history=True,
    ),
    "grid-world": lcpo.from_gymnasium(
        "lcpo/GridWorld-v0", arguments={"trace": [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]},
        context="info", one_hot=False,
    ),
}  # fmt: skip


def small(agent: str) -> dict[str, Any]:
    fields = {field.name for field in dataclasses.fields(AGENTS[agent].Config)}
    return {name: value for name, value in SIZES.items() if name in fields}


def policy_of(learner: Learner) -> dict[str, np.ndarray]:
    return flatten(without_memory(learner._state))


class Loop:
    """A user's own loop: an environment, and the features and context of now."""

    def __init__(self, world: str) -> None:
        self.num_features = {"pendulum": 3, "grid-world": 4}[world]
        self.env = WORLDS[world].make()
        self.look(*self.env.reset(seed=0))

    def look(self, obs: np.ndarray, info: dict[str, Any]) -> None:
        self.seen = obs[: self.num_features].astype(np.float32), info["context"]

    def play(self, learner: Learner, steps: int, late: bool = False) -> None:
        """`late`: the successor is left to the next `act`, wherever that is allowed."""
        for _ in range(steps):
            action = learner.act(*self.seen).action
            obs, reward, terminated, truncated, info = self.env.step(action)
            self.look(obs, info)
            if late and not (terminated or truncated):
                learner.observe(float(reward))
                continue
            learner.observe(float(reward), self.seen[0], terminated, truncated, self.seen[1])
            if terminated or truncated:
                self.look(*self.env.reset())


@cache
def trained(agent: str, world: str, out: Path) -> dict[str, np.ndarray]:
    lcpo.train(
        agent, WORLDS[world], steps=STEPS, seeds=[7], config=small(agent), out=out, workers=0,
        progress=False,
    )  # fmt: skip
    return flatten(lcpo.load(out).state)

"""An agent takes over an autoscaler: trained in a simulator, then shadow, switchback, live.

The incumbent always runs ten servers. The agent watches it for a day, then the two take turns in
blocks of two hours. Only if the measured difference is clearly positive does the agent decide
alone. Run it: python live_autoscaler.py [FOLDER]

    lcpo replay FOLDER/agent          rebuilds the agent from its log
    lcpo live-report FOLDER/agent     rewards, the difference, the guard, the context
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from autoscaler import CHOICES, Autoscaler, write_load

import lcpo
import lcpo.live
from lcpo.live import Limits, LiveAgent, Rule, Switchback

DAY = 1440
"""Steps: a step is a minute."""
CONFIG = {"rollout_length": 50, "learning_rate": 5e-3, "value_learning_rate": 5e-3, "gamma": 0.9}
TEN_SERVERS = int(np.searchsorted(CHOICES, 10))
"""The incumbent's action."""


class Service:
    """The system that is controlled: another simulation, with its own clock."""

    def __init__(self, load: str) -> None:
        self.env = Autoscaler(load)
        self.seen, _ = self.env.reset(seed=1)
        self.minute = 0

    def clock(self) -> float:
        """Seconds, as `time.time` has them."""
        return 60.0 * self.minute

    def run(self, agent: LiveAgent, minutes: int) -> float:
        """Ask the agent every minute; the mean reward."""
        total = 0.0
        for _ in range(minutes):
            now = self.seen
            features = np.concatenate([now["queue"], now["servers"]])
            decision = agent.act(features, now["requests"])
            self.seen, reward, *_ = self.env.step(int(decision.action[0]))
            agent.observe(reward, id=decision.id)
            self.minute += 1
            total += reward
        return total / minutes


def train(folder: Path, load: str, steps: int) -> Path:
    """A policy from the simulator: the folder of its run."""
    env = lcpo.from_gymnasium(
        "autoscaler:Autoscaler", context="key:requests", arguments={"load": load}
    )
    (run,) = lcpo.train(
        "lcpo", env, steps=steps, seeds=1, config=CONFIG, normalise="running",
        out=folder / "trained", progress=False, workers=0,
    )  # fmt: skip
    return run.folder


def main(folder: str = "live-autoscaler", days: int = 28, training: int = 60_000) -> LiveAgent:
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    load = write_load(str(path / "requests.csv"))
    service = Service(load)
    agent = lcpo.live.open(
        path / "agent", policy=train(path, load, training), mode="shadow",
        incumbent=lambda obs: TEN_SERVERS, fallback=TEN_SERVERS, guard=Limits(low=1, change=2),
        rollback=Rule(margin=1.0, window=500), clock=service.clock,
    )  # fmt: skip
    with agent:
        print(f"shadow: {service.run(agent, DAY):.2f} per minute")
        agent.set_mode("switchback", Switchback(length=7200.0, burn_in=900.0))
        service.run(agent, days * DAY)
        found = agent.stats().switchback
        assert found is not None
        mean, low, high, groups = found.difference
        print(f"policy minus incumbent: {mean:+.2f} [{low:+.2f}, {high:+.2f}], {groups} groups")
        if low > 0.0:
            agent.set_mode("live", why=f"better by {mean:.2f} in {groups} groups")
            print(f"live: {service.run(agent, days * DAY // 2):.2f} per minute")
        else:
            print("the incumbent stays: the difference is not clearly positive")
        print(agent.stats())
    return agent


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "live-autoscaler")

"""An agent that learns while it serves, in 15 lines. Stop it at any time: it continues.

Run it: python live_loop.py
"""

from __future__ import annotations

import lcpo.live
from lcpo import ContextSlice, Spec

# One feature, the queue, then the load and its last 3 values; 5 actions: how much to serve.
spec = Spec(1 + 4, ContextSlice(start=1, channels=1, lags=4), num_actions=(5,))


def main(folder: str = "live-loop", minutes: int = 600) -> None:
    with lcpo.live.open(folder, "lcpo", spec, {"sigma": 1.0}, steps=100_000, mode="live") as agent:
        queue = 0.0
        for minute in range(minutes):  # replace the next four lines with your system
            load = 1.0 if minute // 200 % 2 else 3.0
            decision = agent.act([queue], [load])
            queue = min(max(queue + load - decision.action[0], 0.0), 20.0)
            reward = -0.1 * (queue + decision.action[0])
            agent.observe(reward, id=decision.id)  # in the log when it returns
        print(agent.stats())


if __name__ == "__main__":
    main()

"""What does learning add to physics? LCPO on host environments, its constraint always active.

    python benchmarks/host.py [seeds] [environment ...]

One pinned process per core, each with its share of the seeds, all timed at the same time: first
whole updates (200 steps of each world, then one update of each run), then the worlds alone under
random actions. Microseconds per step and core; wall time wants an idle machine, CPU time does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from lcpo.bench import cores
from lcpo.run.worker import pin

ENVS = ("inverted-pendulum", "reacher", "hopper")
UPDATES, HISTORY = 5, 80_000


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    print(f"{'':26}{'physics':>16}{'whole':>16}{'ratio':>16}")
    for env in sys.argv[2:] or ENVS:
        parts = np.array_split(np.arange(seeds), len(cores()))
        workers = [_Worker(env, core, len(part)) for core, part in zip(cores(), parts, strict=True)]
        for worker in workers:
            worker.wait()
        whole, physics = (np.mean([w.ask(what) for w in workers], axis=0) for what in ("w", "p"))
        cells = [f"{a:7.1f} {b:7.1f}" for a, b in (physics, whole)]
        ratios = whole / physics
        print(f"{env:26}{cells[0]:>16}{cells[1]:>16}{ratios[0]:8.2f} {ratios[1]:7.2f}", flush=True)
        for worker in workers:
            worker.process.kill()
    print("us per step and core: wall time, CPU time")


class _Worker:
    """A pinned process that times when it is asked."""

    def __init__(self, env: str, core: int, runs: int) -> None:
        command = [sys.executable, __file__, "--worker", env, str(core), str(runs)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)

    def wait(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, what: str) -> Any:
        print(what, file=self.process.stdin, flush=True)
        return self.wait()


def worker(env_name: str, core: int, runs: int) -> None:
    pin(core)
    from lcpo import config as configs
    from lcpo.agents import AGENTS
    from lcpo.envs import ENVS as KNOWN
    from lcpo.run.drive.host import HostDriver
    from lcpo.run.plan.phases import Phase

    values = {} if env_name == "hopper" else {"physics": "mujoco"}
    env, agent = KNOWN[env_name](**values), AGENTS["lcpo"]
    config: Any = configs.resolve(agent.config(), 100 * HISTORY)
    flips = np.where(np.arange(100_000) % 2, 1.0, -1.0)
    trace = (np.repeat(flips, 200)[:, None] * np.ones((1, 2))).astype(np.float32)
    setups: Any = [
        SimpleNamespace(agent=agent, config=config, env=env, spec=env.spec,
                        job=SimpleNamespace(seed=seed, steps=len(trace)))
        for seed in range(runs)
    ]  # fmt: skip
    driver = HostDriver(setups, Phase("run", "", 1, 200, 1), UPDATES, [trace])
    state, first = driver.start(), 0
    for _ in range(2):
        state, _metrics = driver.chunk(state, first, UPDATES)
        first += UPDATES
    worlds, rng = env.open(runs, list(range(runs)), 1), np.random.default_rng(0)
    worlds.reset(np.ones(runs, bool))
    actions = rng.integers(env.spec.num_actions[0], size=(200, runs, env.spec.action_size))

    def physics() -> int:
        for t in range(200):
            step = worlds.step(actions[t], np.broadcast_to(trace[t], (runs, 2)))
            ended = step.terminated | step.truncated
            if ended.any():
                worlds.reset(ended)
        return 200

    def whole() -> int:
        nonlocal state, first
        state, metrics = driver.chunk(state, first, UPDATES)
        first += UPDATES
        assert np.mean(metrics["constraint_active"]) == 1.0
        return 200 * UPDATES

    print("0", flush=True)
    for line in sys.stdin:
        print(json.dumps(_time(whole if line.strip() == "w" else physics, runs)), flush=True)


def _time(work: Any, runs: int, seconds: float = 8.0) -> list[float]:
    """Median over pieces of wall and CPU microseconds per step."""
    times, began = [], time.monotonic()
    while time.monotonic() - began < seconds or len(times) < 3:
        before = time.perf_counter(), time.process_time()
        steps = work() * runs
        after = time.perf_counter(), time.process_time()
        times.append([(b - a) / steps * 1e6 for a, b in zip(before, after, strict=True)])
    return np.median(times, axis=0).tolist()


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()

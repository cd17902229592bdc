"""Compiled physics beside MuJoCo's, on one core: the worlds alone, and LCPO learning in them.

    python benchmarks/physics.py [--seconds 4] [--runs 25] [environment ...]

CPU microseconds per step. The two take turns in one pinned process, so that a busy machine meets
both; the least of all turns counts. MuJoCo steps the worlds of `--runs` runs together, as on any
CPU; a compiled run has one world, and so has the Pendulum, whose figure stands below.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from lcpo.run.worker import cores, pin

ENVS = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
UPDATES, LENGTH, HISTORY = 5, 200, 80_000
Work = Callable[[], int]
"""Does some steps and returns how many."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0, help="per turn and measurement")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("envs", nargs="*", default=ENVS)
    options = parser.parse_args()
    pin(cores()[0])
    titles = ("worlds: MuJoCo", "compiled", "ratio", "LCPO: MuJoCo", "compiled", "ratio")
    print(f"{'':26}" + "".join(f"{title:>16}" for title in titles), flush=True)
    plain = least([learning("pendulum", {}, 1)], options.seconds)[0]
    for name in options.envs:
        worlds = least([mujoco_worlds(name, options.runs), compiled_world(name)], options.seconds)
        runs = [learning(name, {"physics": "mujoco"}, options.runs), learning(name, {}, 1)]
        whole = least(runs, options.seconds)
        numbers = (*worlds, worlds[0] / worlds[1], *whole, whole[0] / whole[1])
        print(f"{name:26}" + "".join(f"{number:16.2f}" for number in numbers), flush=True)
    print(f"us of CPU per step; LCPO on the Pendulum: {plain:.2f}")


def least(works: list[Work], seconds: float, turns: int = 5) -> list[float]:
    """CPU microseconds per step of each, in its best turn."""
    best = [float("inf")] * len(works)
    for work in works:
        work()  # compiles
    for _ in range(turns):
        for i, work in enumerate(works):
            began = time.monotonic()
            while time.monotonic() - began < seconds / turns:
                before = time.process_time()
                steps = work()
                best[i] = min(best[i], (time.process_time() - before) / steps * 1e6)
    return best


def mujoco_worlds(name: str, count: int) -> Work:
    """Worlds of MuJoCo under random actions, reset when an episode ends."""
    from lcpo.envs import ENVS as KNOWN

    env, rng = KNOWN[name](), np.random.default_rng(0)
    worlds, wind = env.open(count, range(count), 1), np.full((count, 2), 0.1)
    worlds.reset(np.ones(count, bool))
    actions = rng.integers(env.num_bins, size=(LENGTH, count, env.action_size))

    def work() -> int:
        for action in actions:
            step = worlds.step(action, wind)
            ended = step.terminated | step.truncated
            if ended.any():
                worlds.reset(ended)
        return LENGTH * count

    return work


def compiled_world(name: str) -> Work:
    """The same, of one compiled world, in a loop of the compiler."""
    import jax
    import jax.numpy as jnp

    from lcpo.envs import ENVS as KNOWN
    from lcpo.envs.base import select

    env, steps, key = KNOWN[name](), 50 * LENGTH, jax.random.key(0)
    actions = jax.random.randint(key, (steps, env.action_size), 0, env.num_bins)
    fresh = jax.vmap(env.reset)(jax.random.split(key, 100))[0]

    @jax.jit
    def run(state: Any, actions: Any) -> Any:
        def one(state: Any, given: Any) -> tuple[Any, Any]:
            state, step = env.step(state, given[0], jnp.full(2, 0.1), key)
            ended = step.terminated | step.truncated
            start = jax.tree.map(lambda x: x[given[1] % 100], fresh)
            return select(ended, start, state), (step.obs, step.reward)

        return jax.lax.scan(one, state, (actions, jnp.arange(steps)))

    state = jax.tree.map(lambda x: x[0], fresh)

    def work() -> int:
        jax.block_until_ready(run(state, actions))
        return steps

    return work


def learning(name: str, values: dict[str, Any], runs: int) -> Work:
    """LCPO in a wind that flips at every update, so that its constraint is active."""
    import jax

    from lcpo import config as configs
    from lcpo.agents import AGENTS
    from lcpo.envs import ENVS as KNOWN
    from lcpo.envs.base import is_host
    from lcpo.run.drive.compiled import CompiledDriver
    from lcpo.run.drive.host import HostDriver
    from lcpo.run.plan.phases import Phase

    env, agent = KNOWN[name](**values), AGENTS["lcpo"]
    config: Any = configs.resolve(agent.config(), 100 * HISTORY)
    flips = np.where(np.arange(100_000) % 2, 1.0, -1.0)
    trace = (np.repeat(flips, LENGTH)[:, None] * np.ones((1, 2))).astype(np.float32)
    setups: Any = [
        SimpleNamespace(agent=agent, config=config, env=env, spec=env.spec,
                        job=SimpleNamespace(seed=seed, steps=len(trace)))
        for seed in range(runs)
    ]  # fmt: skip
    phase = Phase("run", "", 100_000, LENGTH, 1)
    kind: Any = HostDriver if is_host(env) else CompiledDriver
    driver = kind(setups, phase, UPDATES, [trace] * (1 if is_host(env) else runs))
    state, first = driver.start(), 0

    def work() -> int:
        nonlocal state, first
        state, _metrics = jax.block_until_ready(driver.chunk(state, first, UPDATES))
        first += UPDATES
        return LENGTH * UPDATES * runs

    return work


if __name__ == "__main__":
    main()

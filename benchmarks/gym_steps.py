"""Steps per second of our Gymnasium ids beside Gymnasium's own Pendulum, in one run.

    python benchmarks/gym_steps.py [--steps 20000] [--worlds 64]

Random actions, drawn before. CPU time of all threads, the best of five turns, which the
environments take one after another: a noisy neighbour counts little, and meets all of them.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium

import lcpo

assert lcpo.__version__  # importing it registers the ids
ONE = ("Pendulum-v1", "lcpo/WindyPendulum-v0", "lcpo/GridWorld-v0", "lcpo/WindyHopper-v0")
MANY = ("Pendulum-v1", "lcpo/WindyPendulum-v0", "lcpo/WindyHopper-v0")


def time_one(env: Any, steps: int) -> float:
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(100)]
    began = time.process_time()
    for i in range(steps):
        *_, terminated, truncated, _ = env.step(actions[i % 100])
        if terminated or truncated:
            env.reset()
    return (time.process_time() - began) / steps


def time_many(env: Any, steps: int) -> float:
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(100)]
    env.step(actions[0])
    calls = max(steps // env.num_envs, 1)
    began = time.process_time()
    for i in range(calls):
        env.step(actions[i % 100])
    return (time.process_time() - began) / calls / env.num_envs


def time_make(name: str) -> tuple[float, float]:
    seconds = []
    arguments: Any = {"trace": "3"} if "Windy" in name else {}
    for _ in range(2):
        began = time.perf_counter()
        gymnasium.make(name, **arguments).close()
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--worlds", type=int, default=64)
    options = parser.parse_args()
    for name in ONE:
        first, second = time_make(name)
        print(f"{name:<24} make {1e3 * first:8.1f} ms, again {1e3 * second:6.1f} ms")
    envs: dict[str, tuple[Any, Any]] = {name: (gymnasium.make(name), time_one) for name in ONE}
    for name in MANY:
        many = gymnasium.make_vec(name, num_envs=options.worlds)
        envs[f"{name} x {options.worlds}"] = (many, time_many)
    best = dict.fromkeys(envs, float("inf"))
    for _ in range(5):
        for name, (env, measure) in envs.items():
            best[name] = min(best[name], measure(env, options.steps // 5))
    for name, seconds in best.items():
        print(f"{name:<32} {1e6 * seconds:8.2f} us of CPU a step {1 / seconds:10,.0f} a second")


if __name__ == "__main__":
    main()

"""Speed of this machine: microseconds per interaction on one core, and the throughput of all cores.

The environment is the windy Pendulum, the network and batch the paper's, and the wind flips at
every update, so that LCPO's constraint is active from the second one on. Every CPU figure comes
from processes pinned to a core each; "all cores" are timed while all of them run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lcpo.run.worker import cores, pin

HISTORY = 80_000
"""Reservoir size, as on the paper's 8M-step traces."""


class Stopwatch:
    """Runs an agent in chunks of `updates` and times them; `values`: config values.

    `env` is compiled; its wind flips between `wind` and -`wind`.
    """

    def __init__(
        self,
        agent: str,
        runs: int = 1,
        updates: int = 250,
        env: str = "pendulum",
        wind: float = 2.0,
        **values: Any,
    ) -> None:
        import jax
        import jax.numpy as jnp

        from lcpo import config as configs
        from lcpo.agents import AGENTS
        from lcpo.envs import ENVS
        from lcpo.run.drive import compiled
        from lcpo.run.drive.base import Program, Run
        from lcpo.run.drive.rollout import load_contexts

        chosen = AGENTS[agent]
        config = configs.resolve(chosen.config(**values), 100 * HISTORY)
        world: Any = ENVS[env]()
        length = config.rollout_length
        self.interactions = updates * length * runs
        many = runs > 1
        seed: Any = jnp.arange(runs) if many else jnp.int32(0)
        flips = np.where(np.arange(updates + 1) % 2, wind, -wind)
        trace = np.repeat(flips, length)[:, None] * np.ones((1, 2))
        contexts = load_contexts(trace, 0, updates * length + 1, world.spec.context.lags)
        if many:
            config, world = (configs.stack([x] * runs) for x in (config, world))
        inputs, program = Run(config, world, seed), Program(chosen, world.spec)
        self.state = compiled.make_init(program, many)(inputs, contexts)
        options = compiled.compile_options(compiled.QUICK_STEPS)  # those of a long run
        chunk = compiled.make_chunk(program, updates, many, options)

        def run() -> Any:
            first, count = jnp.int32(0), jnp.int32(updates)
            self.state, metrics = chunk(inputs, self.state, contexts, first, count)
            return jax.block_until_ready(metrics)

        self.run = run
        self.compile_seconds = self.seconds()
        run()

    def seconds(self) -> float:
        """Time of one chunk."""
        began = time.monotonic()
        self.run()
        return time.monotonic() - began

    def microseconds(self, times: list[float]) -> float:
        """Per interaction: the median over chunks."""
        return float(np.median(times)) / self.interactions * 1e6


def bench(gpu_runs: int = 96, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Measure; the keys are those of `lcpo bench --json`. `tell` receives progress lines."""
    available = cores()
    result: dict[str, Any] = {"cores": len(available)}
    for number, agent in enumerate(("a2c", "lcpo"), 1):
        tell(f"{number} of 3: {agent} on one core (compiles, then runs for six seconds)")
        result[f"{agent}_us"] = in_process(agent, available[:1])["us"][0]
    tell(f"3 of 3: lcpo on {len(available)} core(s)")
    together = in_process("lcpo", available)
    result["all_cores_per_s"] = round(sum(1e6 / us for us in together["us"]))
    import jax

    device = jax.devices()[0]
    result["device"] = f"{device.platform}:{device.device_kind}"
    if device.platform != "cpu":
        tell(f"and on the GPU: {gpu_runs} runs of lcpo")
        watch = Stopwatch("lcpo", gpu_runs, updates=50)
        us = watch.microseconds([watch.seconds() for _ in range(7)])
        result |= {"gpu_runs": gpu_runs, "gpu_per_s": round(1e6 / us)}
    return result


def in_process(agent: str, on: list[int], seconds: float = 6.0) -> dict[str, list[float]]:
    """Time an agent in one process per core; all are compiled before any is timed."""
    command = [sys.executable, "-m", "lcpo.bench", agent]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([*command, str(core), str(seconds)], **pipes) for core in on]
    try:
        for worker in workers:
            assert worker.stdout is not None
            if not worker.stdout.readline():
                raise RuntimeError("a benchmark process died; its error is above")
        for worker in workers:
            assert worker.stdin is not None
            print(file=worker.stdin, flush=True)
        outputs = [json.loads(worker.communicate()[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    return {key: [output[key] for output in outputs] for key in outputs[0]}


def main() -> None:
    """One pinned process of `in_process`: AGENT CORE SECONDS."""
    agent, core, seconds = sys.argv[1:]
    pin(int(core))
    watch = Stopwatch(agent)
    print("ready", flush=True)
    sys.stdin.readline()
    times, began = [], time.monotonic()
    while time.monotonic() - began < float(seconds):
        times.append(watch.seconds())
    us = watch.microseconds(times)
    print(json.dumps({"us": round(us, 3), "compile_s": round(watch.compile_seconds, 2)}))


if __name__ == "__main__":
    main()

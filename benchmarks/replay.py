"""Does the cost of an update depend on the size of the replay? `python benchmarks/replay.py`.

One run on a CPU core, 16 vmapped ones on a GPU. Each replay is taken as full, so that draws are
spread over all of its memory.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.agents import AGENTS
from lcpo.envs.pendulum import Pendulum
from lcpo.run.drive import compiled
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.rollout import load_contexts

UPDATES = 100


def measure(name: str, capacity: int, runs: int, repeats: int = 8, **fields: Any) -> dict[str, Any]:
    """Least time per interaction of all runs, and copies of the replay in the program."""
    agent, env, many = AGENTS[name], Pendulum(), runs > 1
    config: Any = configs.resolve(agent.config(buffer_size=capacity, **fields), 8_000_000)
    steps = UPDATES * config.rollout_length
    contexts = load_contexts(np.random.default_rng(0).normal(size=(steps, 2)), 0, steps, 3)
    if many:
        run = Run(configs.stack([config] * runs), configs.stack([env] * runs), jnp.arange(runs))
    else:
        run = Run(jax.tree.map(jnp.float32, config), env, jnp.int32(0))
    program = Program(agent, env.spec)
    state = compiled.make_init(program, many)(run, contexts)
    memory = state.agent.memory
    full = memory._replace(added=jnp.full_like(memory.added, memory.num_rows))
    state = state._replace(agent=state.agent._replace(memory=full))
    chunk: Any = compiled.make_chunk(program, UPDATES, many)
    where = (contexts, jnp.int32(0), jnp.int32(UPDATES))
    updates = chunk.lower(run, state, *where).compile()
    shape = ",".join(map(str, memory.rows.floats.shape))
    copies = len(re.findall(rf"\[{shape}\]\S* copy\(", updates.as_text()))
    times = []
    for _ in range(repeats):
        began = time.monotonic()
        state, metrics = updates(run, state, *where)
        jax.block_until_ready(metrics)
        times.append(time.monotonic() - began)
    us = round(min(times) / steps / runs * 1e6, 3)
    return {"agent": name, "capacity": capacity, "runs": runs, **fields, "us": us, "copies": copies}


def main() -> None:
    on_cpu = jax.default_backend() == "cpu"
    runs, largest = (1, 20_000_000) if on_cpu else (16, 8_000_000)
    for name in ("ddqn", "sac"):
        for capacity in (200_000, largest):
            print(json.dumps(measure(name, capacity, runs)), flush=True)
    for updates in (10, 50):
        row = measure("ddqn", 200_000, runs, updates_per_rollout=updates)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

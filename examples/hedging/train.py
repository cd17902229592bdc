"""Trains the policy that the demo starts with: `python -m examples.hedging.train`.

The simulated workload is that of the demo: servers, sizes, share of slow copies, regimes. The agent
observes what a proxy sees. Of a few seeds, the policy with the highest reward on other requests is
kept. The rules of the demo are set up in the same simulator: the best fixed timeout on this
workload, and the best timeout at each constant load.

Writes policy.npz and plan.json into `trained/`, both of which are part of the repository.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lcpo
from examples.hedging import workload
from examples.hedging.plan import FOLDER, Plan
from lcpo.straggler.task import NEVER, PROXY, TIMEOUTS_MS, Straggler
from lcpo.straggler.timeouts import best_fixed, fixed_latency

STEPS, SEEDS = 150_000, 3
HOURS = 2
"""Length of the simulated workload; it repeats."""
REWARD_MS = 200.0
CONFIG = {
    "rollout_length": 128, "learning_rate": 2e-3, "value_learning_rate": 2e-3,
    "entropy_coef": 0.003,
}  # fmt: skip
RATES = tuple(range(15, 166, 15))
"""Constant rates at which every timeout is simulated, for the table."""
JUDGED, WINDOWS = tuple(range(100, 108)), 2400
"""Seeds and windows on which policies and fixed timeouts are compared."""


def write_workload(path: Path, hours: float = HOURS, seed: int = 1) -> None:
    """Sizes and gaps of the regimes as a workload file."""
    regimes = workload.Regimes()
    end = round(3600.0 * hours / regimes.cycle) * regimes.cycle
    found = workload.requests(regimes, 0.0, end, seed)
    gaps = 1000.0 * np.diff(found.times, append=end)
    rows = np.column_stack([found.sizes, gaps])
    np.savetxt(path, rows, "%.4f", delimiter=",", header="size_ms,gap_ms", comments="")


def env_of(path: str) -> Straggler:
    """The simulator of the demo."""
    return Straggler(
        num_servers=workload.SERVERS, workload=path, observe=PROXY, balance=PROXY,
        reward_ms=REWARD_MS,
        slow_share=workload.SLOW_SHARE, slow_factor=workload.SLOW_FACTOR,
    )  # fmt: skip


def simulate(env: Straggler, act: Callable[[np.ndarray], np.ndarray]) -> float:
    """Mean p95 of a window in ms, on requests of other seeds."""
    worlds = env.open(len(JUDGED), JUDGED)
    obs, total = worlds.reset(np.ones(len(JUDGED), bool)), 0.0
    for _ in range(WINDOWS):
        step = worlds.step(np.asarray(act(obs)).reshape(-1, 1), np.zeros((len(JUDGED), 0)))
        obs, total = np.asarray(step.obs), total - float(np.mean(step.reward))
    return REWARD_MS * total / WINDOWS


def look_up(obs: np.ndarray, loads: Sequence[float], actions: Sequence[int], scale: float) -> Any:
    """The actions of a table for observations [N, D]; `scale`: of rates."""
    rate = obs[:, 2 * workload.SERVERS] * scale  # of the last four windows, per millisecond
    load = rate * workload.SERVICE_MS / workload.SERVERS
    return np.array([*actions, NEVER])[np.searchsorted(loads, load)]


def table_by_load() -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Loads, and the best timeout up to each of them."""
    loads, best = [], []
    for rate in RATES:
        env = Straggler(
            num_servers=workload.SERVERS, rate=float(rate), size=workload.SIZE_MS,
            size_cv=workload.SIZE_CV, balance=PROXY,
        )  # fmt: skip
        best.append(best_fixed(fixed_latency(env, 2 * 3600)))
        loads.append(rate * workload.SERVICE_MS / 1000.0 / workload.SERVERS)
        print(f"load {loads[-1]:.2f}: {TIMEOUTS_MS[best[-1]]:g} ms", flush=True)
        if best[-1] == NEVER:
            break
    edges = [0.5 * (a + b) for a, b in itertools.pairwise(loads)]
    rows = [(edge, action) for edge, action in zip(edges, best, strict=False) if action != NEVER]
    after = [*(action for _, action in rows[1:]), NEVER]
    kept = [row for row, then in zip(rows, after, strict=True) if row[1] != then]
    return tuple(round(edge, 3) for edge, _ in kept), tuple(action for _, action in kept)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    loads, actions = table_by_load()
    # The name of the workload is stored with the policy: a relative one is true everywhere.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_workload(Path("regimes.csv"))
        env = env_of("regimes.csv")
        simulated = {}
        for action, ms in enumerate(TIMEOUTS_MS):
            name = "never" if action == NEVER else f"{ms:g} ms"
            simulated[name] = simulate(env, lambda obs, a=action: np.full(len(obs), a))
            print(f"{name}: {simulated[name]:.1f}", flush=True)
        fixed = int(np.argmin(list(simulated.values())[:NEVER]))
        size, gap = env.jobs.means(0.01)
        rate_scale, size_scale = 10.0 / gap, 10.0 * size
        simulated["table"] = simulate(env, lambda obs: look_up(obs, loads, actions, rate_scale))
        print(f"table: {simulated['table']:.1f}", flush=True)
        runs = lcpo.train(
            "lcpo", env, steps=STEPS, seeds=SEEDS, config=CONFIG, normalise="running", out="out",
            progress=False, workers=0,
        )  # fmt: skip
        found = []
        for run in runs:
            policy = lcpo.load(run.folder)
            found.append((simulate(env, policy.act), run.folder))
            print(f"lcpo, {run.folder.name}: {found[-1][0]:.1f}", flush=True)
        simulated["lcpo"], best = min(found)
        shutil.copy(best / "policy.npz", FOLDER / "policy.npz")
    plan = Plan(rate_scale, size_scale, REWARD_MS, fixed, loads, actions, simulated)
    (FOLDER / "plan.json").write_text(json.dumps(dataclasses.asdict(plan), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())

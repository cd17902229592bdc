"""Small measurements behind docs/deviations.md: `python benchmarks/deviations.py FOLDER`.

What a difference between paper, published code and this library does where no learning is needed
to see it, or little: minutes on a core. Needs MuJoCo. Writes Markdown tables and how
they were made.
"""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import lcpo
from lcpo.config import config
from lcpo.envs.mujoco.tasks import INDEX_COST, Hopper, MujocoTask, Reacher
from lcpo.study.advice.calibrate import Lookback, calibrate
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table

WORLDS = 100
Policy = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


@config
class ReversedHopper(Hopper):
    """The wind's three parts given to the motors in the opposite order."""

    def control(self, chosen: np.ndarray, wind: np.ndarray, qpos: np.ndarray) -> np.ndarray:
        return chosen + super().control(np.zeros_like(chosen), wind, qpos)[:, ::-1]


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.integers(0, 15, shape)


def always(index: int) -> Policy:
    return lambda rng, shape: np.full(shape, index)


def mean_return(task: MujocoTask, policy: Policy, wind: tuple[float, float], steps: int) -> str:
    """Of the first episode that begins in each world, and of those that follow and end in time."""
    worlds, rng = task.open(WORLDS, range(WORLDS), threads=1), np.random.default_rng(0)
    worlds.reset(np.ones(WORLDS, bool))
    winds, total, ended = np.tile(wind, (WORLDS, 1)), np.zeros(WORLDS), []
    for _ in range(steps):
        step = worlds.step(policy(rng, (WORLDS, task.action_size)), winds)
        total += step.reward
        over = np.asarray(step.terminated | step.truncated)
        ended += list(total[over])
        total[over] = 0.0
        worlds.reset(over)
    return f"{np.mean(ended):.3g}" if abs(np.mean(ended)) < 100 else f"{np.mean(ended):.0f}"


def reacher() -> Table:
    policies = {"uniformly random": uniform, "always index 7, no torque": always(7),
                "always index 0": always(0)}  # fmt: skip
    rows = []
    for length in (50, 200):
        for cost, faults in (("inputs", ()), ("indices", (INDEX_COST,))):
            task = Reacher(max_steps=length, faults=faults)
            returns = [mean_return(task, p, (0.0, 0.0), 4 * length) for p in policies.values()]
            rows.append([str(length), cost, *returns])
    header = ["steps per episode", "squared in the cost", *policies]
    title = f"reacher in calm air: mean return of fixed policies, {4 * WORLDS} episodes"
    return Table(columns(header, "llrrr"), rows, title=title)


def hopper() -> Table:
    winds = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (-2.5, 2.5)]
    rows = [
        [name, *(mean_return(task, uniform, wind, 400) for wind in winds)]
        for name, task in {"as published": Hopper(), "reversed": ReversedHopper()}.items()
    ]
    header = ["wind on the motors", *(f"({x:g}, {y:g})" for x, y in winds)]
    title = f"hopper: mean return of a uniformly random policy, {400 * WORLDS} steps"
    return Table(columns(header, "l" + "r" * len(winds)), rows, title=title)


def activity() -> Table:
    """Of LCPO's constraint, simulated."""
    rows = []
    for trace in "1234":
        plain, one_lag = calibrate(trace), calibrate(trace, lookback=Lookback(lags=1))
        eighth = calibrate(trace, scale=1 / 8)
        shares = (plain.activity(1.0), one_lag.activity(1.0), eighth.activity(1.0),
                  eighth.activity(1 / 8))  # fmt: skip
        rows.append([trace, *(f"{100 * share:.1f} %" for share in shares)])
    header = ["trace", "sigma 1, mean of 3 lags", "newest wind alone", "wind / 8",
              "wind / 8, sigma 1/8"]  # fmt: skip
    title = "updates in which LCPO's constraint would be active, L2, simulated along the trace"
    return Table(columns(header, "lrrrr"), rows, title=title)


def epochs() -> Table:
    """Lifelong return over epochs, as the published script, and over episodes, as the text."""
    rows = []
    for env, trace in (("hopper", "2"), ("inverted-double-pendulum", "4")):
        with tempfile.TemporaryDirectory() as out:
            runs = lcpo.train("a2c", env, trace=trace, steps=200_000, seeds=1, out=out)
        for run in runs:
            late = run.record["step"] > 20_000
            count = {name: run.record[name][late] for name in ("epochs", "episodes")}
            returns = run.record["epoch_return"][late]
            by_epoch = np.average(returns, weights=count["epochs"])
            by_episode = run.record["episode_return_sum"][late].sum() / count["episodes"].sum()
            numbers = [f"{by_epoch:.1f}", f"{by_episode:.1f}", f"{by_epoch / by_episode:.3f}"]
            rows.append([env, trace, str(run.job.seed), *numbers])
    header = ["environment", "trace", "seed", "mean over epochs", "mean over episodes", "ratio"]
    title = "A2C, 200,000 steps: return after 20,000"
    return Table(columns(header, "lllrrr"), rows, title=title)


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for make in (activity, reacher, hopper, epochs):
        text = make().to_markdown()
        (out / f"{make.__name__}.md").write_text(text, encoding="utf-8")
        print(text, flush=True)
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    packages = ("lcpo", "jax", "optax", "numpy", "mujoco")
    made = {
        "command": ["python benchmarks/deviations.py results/deviations"],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": [commit],
        "device": ["cpu:cpu"],
        "versions": {"python": [platform.python_version()], **{p: [version(p)] for p in packages}},
    }
    (out / "made.json").write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()

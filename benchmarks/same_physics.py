"""Does an agent earn the same returns on compiled physics as in MuJoCo?

    python benchmarks/same_physics.py [--steps 2e6] [--seeds 8] [--trace 4] [--out FOLDER]

Trains LCPO on each robot without contacts, on both engines. The engines draw different random
numbers, so their runs are independent samples and the interval of the difference is Welch's.
Interrupted runs resume.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scipy import stats

import lcpo
from lcpo.core.intervals import Estimate, mean_ci
from lcpo.run.store.results import Result
from lcpo.study.measure.compare import run_return
from lcpo.study.report.cells import Column
from lcpo.study.report.output import write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Report

ENVS = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
PHYSICS = ("mujoco", "compiled")
WINDOWS = {"return_after_warmup": 0.1, "whole_run": 0.0}
"""Columns of seeds.csv, and the share of the steps that they leave out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--trace", default="4")
    parser.add_argument("--out", type=Path, default=Path("out/same-physics"))
    given = parser.parse_args()
    results: list[Result] = []
    for env in ENVS:
        for physics in PHYSICS:
            results += lcpo.train(
                "lcpo", env, trace=given.trace, steps=given.steps, seeds=given.seeds,
                env_config={"physics": physics}, out=given.out / f"{env}-{physics}", resume=True,
            )  # fmt: skip
    header = ["agent", "setting", "env", "trace", "seed", "status", *WINDOWS, "seconds", "device"]
    seeds = Table(tuple(Column(name, "full") for name in header), [row(r) for r in results])
    write_files(
        Report(seeds, {"table": table(results)}),
        results,
        given.out,
        by="benchmarks/same_physics.py",
    )
    print((given.out / "table.txt").read_text(), end="")


def physics_of(result: Result) -> str:
    return str(result.job.env_config["physics"])


def number(result: Result, window: str) -> float:
    """Mean return per rollout, as `lcpo compare` has it."""
    return run_return(result.record, int(WINDOWS[window] * result.job.steps), endless=False)


def row(result: Result) -> list[str | float | int | None]:
    """A run in seeds.csv."""
    job = result.job
    first = [job.agent, physics_of(result), job.env, job.trace_name, job.seed, result.status]
    device = result.provenance.get("device")
    return [*first, *(number(result, name) for name in WINDOWS), result.seconds, device]


def table(results: list[Result]) -> Table:
    """A row for each environment and window."""
    rows = []
    for env in ENVS:
        for window, words in zip(WINDOWS, ("after 10 %", "whole run"), strict=True):
            mujoco, compiled = (
                [number(r, window) for r in results if (r.job.env, physics_of(r)) == (env, physics)]
                for physics in PHYSICS
            )
            counts = [len(mujoco), len(compiled)]
            assert counts[0] == counts[1], f"unequal numbers of runs: {counts}"
            rows.append(
                [env, words, counts[0], mean_ci(mujoco), mean_ci(compiled),
                 welch(compiled, mujoco)]
            )  # fmt: skip
    return Table(
        (
            Column("env", side="l"), Column("return", side="l"), Column("seeds"),
            Column("MuJoCo"), Column("compiled"), Column("compiled minus MuJoCo", "+"),
        ),
        rows,
    )  # fmt: skip


def welch(a: list[float], b: list[float]) -> Estimate:
    """Mean of a minus mean of b, with Welch's 95 % interval."""
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    return Estimate((interval.low + interval.high) / 2.0, interval.low, interval.high, len(a))


if __name__ == "__main__":
    main()

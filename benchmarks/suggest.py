"""Measures the rules of `lcpo suggest`: a small grid of agents and settings on small tasks.

    python -m benchmarks.suggest choose     every point of the grid, seeds 0 to 2
    python -m benchmarks.suggest constant   every action, always
    python -m benchmarks.suggest judge      the suggestion and the best point, seeds 20 to 24
    python -m benchmarks.suggest report     results/suggest from all runs that have ended

The rules were chosen by hand from what `choose` shows, without the tasks of `NEW`. Runs are kept in
out/suggest, and a second call resumes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jax

from benchmarks import suggest_tables as tables
from lcpo import api
from lcpo.contexts import TraceRef
from lcpo.run.options import RunOptions
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store.record import lifelong_return, mean_reward
from lcpo.run.store.results import Result, load_results
from lcpo.study.advice.facts import look
from lcpo.study.advice.suggest import suggest
from lcpo.study.report.document import seeds_table
from lcpo.study.report.output import how_made

ROOT = Path(__file__).parents[1]
OUT = Path("out/suggest")
COMMAND = "python -m benchmarks.suggest"
CHOOSING = (0, 1, 2)
WINDS = TraceRef.parse("family:revisit:100").faster(Fraction(1, 50))
"""Winds that last a few thousand steps, and return."""


class Task(NamedTuple):
    """An environment of the benchmark."""

    env: str
    trace: TraceRef | None = None
    normalise: str | None = None


TASKS = {
    "battery": Task("benchmarks.small_tasks:Battery", normalise="running"),
    "inventory": Task("benchmarks.small_tasks:Inventory", normalise="running"),
    "cartpole": Task("benchmarks.small_tasks:CartPole", WINDS),
    "autoscaler": Task("benchmarks.small_tasks:Autoscaler", normalise="running"),
    "pendulum": Task("pendulum", WINDS),
    "drone": Task("benchmarks.small_tasks:Drone", WINDS),
    "harbor": Task("benchmarks.small_tasks:Harbor", WINDS),
    "thermostat": Task("benchmarks.small_tasks:Thermostat", normalise="running"),
}
MAIN = ("battery", "inventory", "cartpole", "autoscaler")
"""Tasks with the full grid."""
ENDING = ("drone", "harbor")
"""Tasks with episodes that end, like those of CartPole: does another rule hold there?"""
NEW = ("thermostat", "pendulum")
"""Tasks that the rules were not chosen on."""
STEPS = (30_000, 10_000, 100_000, 300_000)
"""In the order in which they are run."""
PLUS = {"w_v": 1.0, "w_pi": 0.0, "cg_iterations": 8, "entropy_floor": False}
Settings = Callable[[int], Mapping[str, Any]]


class Point(NamedTuple):
    """A point of the grid: settings for so many steps."""

    agent: str
    settings: Settings


def _anchored(agent: str, length: int, limit: float, **more: Any) -> Point:
    values = {"rollout_length": length, "c_anchor": limit, "value_steps": 5, "buffer_size": 10_000}
    return Point(agent, lambda steps: {**values, **more})


def _shrinking(length: int, **more: Any) -> Point:
    return _anchored("lcpo-plus", length, 1e-3, c_0=3e-2, tau=100.0, **PLUS, **more)


def _ppo(length: int, rate: float, **more: Any) -> Point:
    values = {"rollout_length": length, "learning_rate": rate, "value_steps": 5}
    return Point("ppo", lambda steps: {**values, **more})


def _replay(agent: str, updates: int, **more: Any) -> Point:
    """`updates` gradient steps on 128 transitions after each 50 interactions."""

    def settings(steps: int) -> Mapping[str, Any]:
        values = {"rollout_length": 50, "updates_per_rollout": updates, "batch_size": 128}
        explores = {"epsilon_steps": steps // 10} if agent == "ddqn" else {}
        return {**values, "random_steps": steps // 50, **explores, **more}

    return Point(agent, settings)


LOW = {"entropy_coef": 0.003}
SHORT = {"gamma": 0.95}
GRID = {
    "uniform-25-1e-2": _anchored("lcpo-uniform", 25, 1e-2),
    "uniform-50-1e-2": _anchored("lcpo-uniform", 50, 1e-2),
    "uniform-200-1e-2": _anchored("lcpo-uniform", 200, 1e-2),
    "uniform-50-1e-3": _anchored("lcpo-uniform", 50, 1e-3),
    "uniform-200-1e-3": _anchored("lcpo-uniform", 200, 1e-3),
    "uniform-50-1e-2-entropy": _anchored("lcpo-uniform", 50, 1e-2, **LOW),
    "uniform-50-1e-2-entropy-gamma": _anchored("lcpo-uniform", 50, 1e-2, **LOW, **SHORT),
    "plus-50-1e-2": _anchored("lcpo-plus", 50, 1e-2, c_0=0.0, tau=100.0, **PLUS),
    "plus-50-1e-2-entropy-gamma": _anchored(
        "lcpo-plus", 50, 1e-2, c_0=0.0, tau=100.0, **PLUS, **LOW, **SHORT
    ),
    "plus-50-shrinking": _shrinking(50),
    "plus-50-shrinking-entropy": _shrinking(50, **LOW),
    "plus-50-shrinking-entropy-0.98": _shrinking(50, **LOW, gamma=0.98),
    "plus-25-shrinking-entropy-gamma": _shrinking(25, **LOW, **SHORT),
    "plus-50-shrinking-entropy-gamma": _shrinking(50, **LOW, **SHORT),
    "plus-100-shrinking-entropy-gamma": _shrinking(100, **LOW, **SHORT),
    "ppo-50-4e-4": _ppo(50, 4e-4),
    "ppo-50-1e-3": _ppo(50, 1e-3),
    "ppo-50-1e-3-gamma": _ppo(50, 1e-3, **SHORT),
    "ppo-200-1e-3": _ppo(200, 1e-3),
    "ddqn-5": _replay("ddqn", 5),
    "ddqn-5-gamma": _replay("ddqn", 5, **SHORT),
    "ddqn-20": _replay("ddqn", 20),
    "ddqn-20-gamma": _replay("ddqn", 20, **SHORT),
    "sac-5": _replay("sac", 5),
    tables.RANDOM: Point("random", lambda steps: {"rollout_length": 200}),
}
"""uniform and plus: rollout length and limit; ppo: rollout length and learning rate; ddqn and sac:
gradient steps after each 50 interactions. "gamma": a discount of 0.95 in place of 0.99, or the
number that is given. "entropy": an entropy coefficient that starts at 0.003 in place of 0.03."""
LONG = (
    "uniform-200-1e-3", "plus-50-shrinking-entropy", "plus-50-shrinking-entropy-0.98",
    "plus-50-shrinking-entropy-gamma",
    "plus-100-shrinking-entropy-gamma", "ppo-50-1e-3-gamma", "ddqn-5-gamma", "ddqn-20-gamma",
    "random",
)  # fmt: skip
"""Points of 100,000 steps and more, and of the tasks in `ENDING`."""
SHORT_LIST = (
    *LONG, "uniform-50-1e-2-entropy-gamma", "plus-25-shrinking-entropy-gamma", "ppo-50-1e-3",
    "ddqn-20",
)  # fmt: skip
"""Points that were near the best on a task with 30,000 steps, and the recommended LCPO."""


def points(task: str, steps: int) -> dict[str, Point]:
    """The grid of a task for so many steps: all of it for 30,000 of the first four tasks."""
    is_full = steps == 30_000 and task in MAIN
    is_brief = steps >= 100_000 or task in ENDING
    names = LONG if is_brief else GRID if is_full else SHORT_LIST
    return {name: GRID[name] for name in names}


def plan_points(
    task: Task, steps: int, chosen: Mapping[str, Point], seeds: tuple[int, ...]
) -> list[Job]:
    """The runs of some points; their names begin with the point's."""
    return [
        job
        for name, point in chosen.items()
        for job in plan_agents(
            point.agent, task.env, trace=task.trace, steps=steps, seeds=list(seeds),
            overrides=point.settings(steps), variant=name,
            normalise=task.normalise if tables.is_learner(name) else None,
        )
    ]  # fmt: skip


def run(jobs: list[Job], out: Path) -> None:
    """Run in this process, or continue."""
    how = RunOptions.of(out=out, resume=out.exists(), workers=0, progress=False)
    began = time.process_time()
    problems = api.run(jobs, how)
    print(f"{out}: {len(jobs)} runs, {time.process_time() - began:.0f} s", *problems, flush=True)
    jax.clear_caches()


def judged(name: str, steps: int) -> dict[str, Point]:
    """The suggestion for a task, and the point that was best when the rules were chosen."""
    task = TASKS[name]
    (job,) = plan_agents("random", task.env, trace=task.trace, steps=steps, seeds=1)
    found = suggest(look(job))
    assert found.normalise == task.normalise, f"{name}: {found.normalise}"
    best = tables.best_point([read(r) for r in load_results(OUT / f"{name}-{steps}")])
    suggested = Point(found.first.name, lambda _: found.first.config)
    return {tables.SUGGESTED: suggested, best: GRID[best]}


def constants(name: str) -> dict[str, Point]:
    """Agents that always take the same action, one for each."""
    (job,) = plan_agents("random", TASKS[name].env, trace=TASKS[name].trace, steps=1000, seeds=1)
    (count,) = Setup(job).spec.num_actions
    settings = {"rollout_length": 200}
    return {
        f"{tables.CONSTANT}-{i}": Point(f"constant:{i}", lambda _: settings) for i in range(count)
    }


def read(result: Result) -> tables.Run:
    """What a run earned."""
    job = result.job
    return tables.Run(tables.task_of(job.env), job.steps, job.variant, job.seed, earned(result))


def earned(result: Result, after: int = 0) -> float:
    """Mean return of episodes; mean reward per step where no episode ends."""
    found = result.record
    return (lifelong_return if found["epochs"].any() else mean_reward)(found, after)


def numbers(result: Result) -> dict[str, float | None]:
    """Columns of seeds.csv."""
    steps = result.job.steps
    late, whole = earned(result, steps // 2), earned(result)
    return {"steps": steps, "return_after_warmup": late, "whole_run": whole}


def report(out: Path) -> None:
    """Write the tables, the runs behind them, and how they were made."""
    results = [result for folder in sorted(OUT.iterdir()) for result in load_results(folder)]
    made = how_made(results, COMMAND)
    out.mkdir(parents=True, exist_ok=True)
    (out / "made.json").write_text(json.dumps(made, indent=1), encoding="utf-8")
    (out / "seeds.csv").write_text(seeds_table(results, numbers).to_csv(), encoding="utf-8")
    for name, table in tables.of_seeds(out / "seeds.csv").items():
        (out / f"{name}.md").write_text(table.to_markdown(), encoding="utf-8")
        print(table.to_markdown())


def cases(tasks: list[str], steps: list[int]) -> Iterator[tuple[str, int]]:
    """Tasks and steps, the shortest runs of all tasks first."""
    return ((task, count) for count in steps for task in tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("choose", "constant", "judge", "report"))
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--steps", default=",".join(map(str, STEPS)))
    parser.add_argument("--seeds", default="20,21,22,23,24", help="to judge with")
    options = parser.parse_args()
    chosen = options.tasks.split(","), [int(x) for x in options.steps.split(",")]
    if options.part == "choose":
        for task, steps in cases(*chosen):
            jobs = plan_points(TASKS[task], steps, points(task, steps), CHOOSING)
            run(jobs, OUT / f"{task}-{steps}")
    elif options.part == "constant":
        for task, steps in cases(*chosen):
            jobs = plan_points(TASKS[task], steps, constants(task), CHOOSING[:1])
            run(jobs, OUT / f"{task}-{steps}-constant")
    elif options.part == "judge":
        seeds = tuple(int(x) for x in options.seeds.split(","))
        for task, steps in cases(*chosen):
            jobs = plan_points(TASKS[task], steps, judged(task, steps), seeds)
            run(jobs, OUT / f"{task}-{steps}-judged")
    else:
        report(ROOT / "results" / "suggest")


if __name__ == "__main__":
    main()

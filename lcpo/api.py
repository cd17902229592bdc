"""The Python interface: `lcpo.train(...)`."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lcpo import config as configs
from lcpo import values
from lcpo.errors import RunError
from lcpo.run import further, stop
from lcpo.run.drive.execute import has_ended
from lcpo.run.drive.saved import tell_saved
from lcpo.run.engines.base import Engine, run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.plan.check import check_folder, check_running
from lcpo.run.plan.job import Job, env_name
from lcpo.run.plan.notes import notes
from lcpo.run.plan.plan import check_dict, plan
from lcpo.run.store.results import Result, load_results


def train(
    agent: str = "lcpo",
    env: str | Any = "pendulum",
    *,
    trace: str | os.PathLike[str] | None = None,
    steps: int | None = None,
    seeds: int | Iterable[int] = 4,
    out: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    config: Mapping[str, Any] | None = None,
    env_config: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Iterable[Any]] | None = None,
    training_steps: int | None = None,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    keep_state: bool = False,
) -> list[Result]:
    """Train `agent` on `env` with every seed, and return the results.

    Args:
      agent, env: names (`lcpo list`), or a user's own as "package.module:name". An environment
        may also be "gym:ID", or an object (`lcpo.from_gymnasium(...)`).
      trace: the context: a name, `family:KIND:SEED`, or a file (npy, csv, parquet).
      steps: interactions per run; default: as many as the trace has rows.
      seeds: how many (0, 1, ...), or which.
      out: folder for results; default `out/AGENT-ENV-TRACE`.
      scale: the trace is multiplied by this; default: the environment's own.
      config, env_config: values that differ from the defaults.
      sweep: config field -> values; every combination runs with every seed.
      training_steps: of a prescient agent, before its run along the trace; default: its own.
      resume: go on with what `out` holds; with more `steps`, also with runs that have finished, if
        their state was kept. Sizes that depend on the steps stay as they were planned first.
      workers: processes at a time. None: one per core; 0: in this process, which is what an agent
        or environment that cannot be imported by name needs.
      checkpoint_seconds: time between checkpoints.
      progress: show a progress bar.
      keep_state: keep the last checkpoint (buffers, worlds) of each run, so that it can go on.

    Raises RunError at the end if an environment broke: `resume` goes on from the checkpoint. The
    first Ctrl-C saves all runs and raises KeyboardInterrupt, which says what is saved.
    """
    check_running(workers, checkpoint_seconds)
    resume, progress = values.flag("resume", resume), values.flag("progress", progress)
    keep_state = values.flag("keep_state", keep_state)
    folder = None if out is None else values.path("out", out)
    if not isinstance(env, str):
        _check_env_object(env)
        of_env = check_dict("env_config", env_config)
        env, env_config = env_name(env), {**configs.to_json(env), **of_env}
    make = functools.partial(
        plan,
        agent,
        env,
        trace=trace,
        seeds=seeds,
        scale=scale,
        overrides=config,
        env_overrides=env_config,
        sweep=sweep,
        training_steps=training_steps,
    )
    jobs = make(steps=steps)
    folder = default_out(jobs[0]) if folder is None else folder
    if resume and steps is not None:
        chosen = list(dict.fromkeys(job.seed for job in jobs))
        again = functools.partial(make, seeds=chosen)
        jobs = further.pinned(jobs, folder, lambda before: again(steps=before), _note)
    problems = run(
        jobs, folder, resume, workers, checkpoint_seconds, progress, keep_state=keep_state
    )
    if not all(has_ended(folder, job) for job in jobs):
        raise RunError("; ".join(problems))
    return load_results(folder)


def _check_env_object(env: object) -> None:
    if isinstance(env, type) or not dataclasses.is_dataclass(env):
        values.refuse("env", env, "a name, or an environment object such as Pendulum()")


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def default_out(job: Job) -> Path:
    """Where the runs of a plan go if nobody says."""
    return Path("out") / job.name.rsplit("-s", 1)[0]


def run(
    jobs: list[Job],
    out: Path,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    engine: Engine | None = None,
    keep_state: bool = False,
) -> list[str]:
    """Run jobs with a progress bar; returns what went wrong, a line per run.

    `engine`: where; None: on this machine, with `workers` and `checkpoint_seconds`. Raises
    `stop.Stopped`, a KeyboardInterrupt, where a signal stopped it; its text says what is saved.
    """
    from lcpo.cli.progress import RunProgress

    check_folder(out)
    engine = engine or LocalEngine(workers, checkpoint_seconds)
    with RunProgress(jobs, progress) as bar:
        for note in notes(jobs):
            bar.console.print(f"note: {note}", highlight=False, markup=False)
        try:
            run_plan(jobs, out, engine, bar, resume, keep_state)
        except (stop.Asked, KeyboardInterrupt) as stopped:
            lost = None if isinstance(stopped, stop.Asked) else bar.reached
            raise stop.Stopped(tell_saved(jobs, out, lost), out) from stopped
    return bar.problems

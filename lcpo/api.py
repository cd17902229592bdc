"""The Python interface: `lcpo.train(...)`."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from lcpo import config as configs
from lcpo import values
from lcpo.envs.base import AnyEnv
from lcpo.errors import RunError
from lcpo.names import is_in_main
from lcpo.run import further, stop
from lcpo.run.drive.execute import has_ended, tell_saved
from lcpo.run.engines.engine import make_engine, run_plan
from lcpo.run.events import Event, Note
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job, env_name
from lcpo.run.plan.notes import notes
from lcpo.run.plan.plan import check_dict, plan
from lcpo.run.store.outputs import check_folder
from lcpo.run.store.results import Result, load_results
from lcpo.run.track import tracking


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
    normalise: str | Sequence[float] | None = None,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    keep_state: bool = False,
    callbacks: Sequence[Callable[[Event], Any]] = (),
    track: str | Sequence[str] = (),
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
      normalise: "running" scales observations by their mean and standard deviation so far; a
        list of positive numbers divides each of their columns (docs/add_an_environment.md).
      resume: resume the runs in `out`; with more `steps`, also those that have finished, if their
        state was kept. Sizes that depend on the steps stay as they were planned first.
      workers: processes at a time; 0: in this process, which is what an agent or environment that
        cannot be imported by name needs. None: one per core, and on a GPU 0 (docs/running.md).
      checkpoint_seconds: time between checkpoints.
      progress: show a progress bar.
      keep_state: keep the last checkpoint (buffers, worlds) of each run, to extend it later.
      callbacks: functions that are called, in this process, with every event of `lcpo.run.events`:
        `Progress`, with the metrics of a chunk, and how each run ended. Their exceptions propagate.
      track: "jsonl", "tensorboard", "wandb", or several of them: see `lcpo.run.track`.

    Raises RunError at the end if an environment failed: `resume` continues from the checkpoint. The
    first Ctrl-C saves all runs and raises KeyboardInterrupt, which says what is saved.
    """
    how = RunOptions.of(
        out=out, resume=resume, workers=workers, checkpoint_seconds=checkpoint_seconds,
        progress=progress, keep_state=keep_state, callbacks=callbacks, track=track,
    )  # fmt: skip
    env, env_config = named_env(env, env_config)
    how = here_if_in_main(how, [agent, env, check_dict("config", config).get("detector")])
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
        normalise=normalise,
    )
    jobs, how = prepare(make, steps, how, default_out, note)
    run_to_the_end(jobs, how)
    return load_results(how.folder)


def named_env(
    env: str | Any, env_config: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any] | None]:
    """The name and config values of an environment that is given by name or as an object."""
    if isinstance(env, str):
        return env, env_config
    if isinstance(env, type) or not dataclasses.is_dataclass(env):
        values.refuse("env", env, "a name, or an environment object such as Pendulum()")
    of_env = check_dict("env_config", env_config)
    return env_name(cast(AnyEnv, env)), {**configs.to_json(env), **of_env}


def here_if_in_main(how: RunOptions, names: list[Any]) -> RunOptions:
    """Run in this process, with a note, if workers could not import an agent or environment."""
    found = [name for name in names if is_in_main(name)]
    if not found or how.workers == 0:
        return how
    note(
        f"{', '.join(found)}: worker processes cannot import what a script or notebook defines, so "
        "everything runs in this process (workers=0); to use every core, move the definition to a "
        "module"
    )
    return dataclasses.replace(how, workers=0)


def prepare(
    make: Callable[..., list[Job]],
    steps: int | None,
    how: RunOptions,
    default: Callable[[list[Job]], Path],
    tell: Callable[[str], None],
) -> tuple[list[Job], RunOptions]:
    """The jobs that `make(steps=...)` plans, and the options with an output folder.

    A resume takes the jobs from the folder's plan.
    """
    jobs = make(steps=steps)
    how = how.at(default(jobs))
    if how.resume:
        again = functools.partial(make, seeds=list(dict.fromkeys(job.seed for job in jobs)))
        jobs = further.resumed(jobs, how.folder, steps, lambda n: again(steps=n), tell)
    return jobs, how


def note(text: str) -> None:
    """Print a note for the user of a Python script."""
    print(f"note: {text}", file=sys.stderr)


def default_out(jobs: Sequence[Job]) -> Path:
    """The default folder for runs."""
    return Path("out") / jobs[0].stem


def run_to_the_end(jobs: list[Job], how: RunOptions) -> list[str]:
    """`run`; raises RunError if a run has not ended."""
    problems = run(jobs, how)
    if not all(has_ended(how.folder, job) for job in jobs):
        raise RunError("; ".join(problems))
    return problems


def run(jobs: list[Job], how: RunOptions, begin: Callable[[], None] = lambda: None) -> list[str]:
    """Run jobs with a progress bar; returns what went wrong, a line per run.

    `begin` is called before the first run, if there is anything to run. Raises `stop.Stopped`, a
    KeyboardInterrupt, if a signal stopped it; its text says what is saved.
    """
    from lcpo.cli.progress import RunProgress

    out, engine = how.folder, make_engine(how)
    check_folder(out)
    with tracking(how.track, jobs, out) as trackers, RunProgress(jobs, how.progress) as bar:

        def hear(event: Event) -> None:
            for each in (bar, *trackers, *how.callbacks):
                each(event)

        def begin_all(waiting: list[Job]) -> None:
            begin()
            bar.begin(waiting)

        for text in notes(jobs):
            bar(Note(text))
        try:
            run_plan(jobs, out, engine, hear, how.resume, how.keep_state, begin_all)
        except (stop.Asked, KeyboardInterrupt) as stopped:
            lost = None if isinstance(stopped, stop.Asked) else bar.reached
            raise stop.Stopped(tell_saved(jobs, out, lost), out) from stopped
    return bar.problems

"""The Python interface: `lcpo.train(...)` and `lcpo.load(...)`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo import values
from lcpo.agents import AGENTS, find_agent
from lcpo.errors import InputError, RunError
from lcpo.names import is_in_main, is_ours, unknown
from lcpo.run import further, stop
from lcpo.run.drive.execute import has_ended
from lcpo.run.drive.saved import tell_saved
from lcpo.run.engines.base import Engine, run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.events import Event
from lcpo.run.plan.check import check_folder, check_running
from lcpo.run.plan.job import Job, Setup, env_name
from lcpo.run.plan.plan import check_dict, plan
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.layout import RunFiles
from lcpo.run.store.policy import About, load_policy
from lcpo.run.store.results import Result, load_result, load_results
from lcpo.run.track import read_names, tracking


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
      resume: go on with what `out` holds; with more `steps`, also with runs that have finished, if
        their state was kept. Sizes that depend on the steps stay as they were planned first.
      workers: processes at a time. None: one per core; 0: in this process, which is what an agent
        or environment that cannot be imported by name needs.
      checkpoint_seconds: time between checkpoints.
      progress: show a progress bar.
      keep_state: keep the last checkpoint (buffers, worlds) of each run, so that it can go on.
      callbacks: functions that are called, in this process, with every event of `lcpo.run.events`:
        `Progress`, with the metrics of a chunk, and how each run ended. What one raises is raised.
      track: "jsonl", "tensorboard", "wandb", or several of them: see `lcpo.run.track`.

    Raises RunError at the end if an environment broke: `resume` goes on from the checkpoint. The
    first Ctrl-C saves all runs and raises KeyboardInterrupt, which says what is saved.
    """
    check_running(workers, checkpoint_seconds)
    resume, progress = values.flag("resume", resume), values.flag("progress", progress)
    keep_state = values.flag("keep_state", keep_state)
    hear, trackers = _check_callbacks(callbacks), _check_track(track)
    folder = None if out is None else values.path("out", out)
    if not isinstance(env, str):
        _check_env_object(env)
        of_env = check_dict("env_config", env_config)
        env, env_config = env_name(env), {**configs.to_json(env), **of_env}
    workers = _here_if_in_main(workers, [agent, env, check_dict("config", config).get("detector")])
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
        jobs, folder, resume, workers, checkpoint_seconds, progress,
        keep_state=keep_state, callbacks=hear, track=trackers,
    )  # fmt: skip
    if not all(has_ended(folder, job) for job in jobs):
        raise RunError("; ".join(problems))
    return load_results(folder)


def _here_if_in_main(workers: int | None, names: list[Any]) -> int | None:
    """No worker processes, with a word, where they could not import what is to be run."""
    found = [name for name in names if is_in_main(name)]
    if not found or workers == 0:
        return workers
    _note(
        f"{', '.join(found)}: other processes cannot import what a script or notebook defines, so "
        "it runs in this one (workers=0); in a module of its own it uses every core"
    )
    return 0


def _check_callbacks(callbacks: Any) -> list[Callable[[Event], Any]]:
    if isinstance(callbacks, Mapping) or not isinstance(callbacks, Iterable):
        values.refuse("callbacks", callbacks, "a list of functions of one event")
    found = list(callbacks)
    for each in found:
        if not callable(each):
            values.refuse("callbacks", each, "functions of one event")
    return found


def _check_track(track: Any) -> list[str]:
    words = [track] if isinstance(track, str) else track
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        values.refuse("track", track, "a name, or a list of names, such as 'tensorboard'")
    return read_names(words)


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
    callbacks: Sequence[Callable[[Event], Any]] = (),
    track: Sequence[str] = (),
) -> list[str]:
    """Run jobs with a progress bar; returns what went wrong, a line per run.

    `engine`: where; None: on this machine, with `workers` and `checkpoint_seconds`. Raises
    `stop.Stopped`, a KeyboardInterrupt, where a signal stopped it; its text says what is saved.
    """
    from lcpo.cli.progress import RunProgress

    check_folder(out)
    engine = engine or LocalEngine(workers, checkpoint_seconds)
    with tracking(track, jobs, out) as trackers, RunProgress(jobs, progress) as bar:

        def hear(event: Event) -> None:
            for each in (bar, *trackers, *callbacks):
                each(event)

        for note in Setup(jobs[0]).notes:
            bar.console.print(f"note: {note}", highlight=False, markup=False)
        try:
            run_plan(jobs, out, engine, hear, resume, keep_state)
        except (stop.Asked, KeyboardInterrupt) as stopped:
            lost = None if isinstance(stopped, stop.Asked) else bar.reached
            raise stop.Stopped(tell_saved(jobs, out, lost), out) from stopped
    return bar.problems


class Policy:
    """A trained policy: `load` makes it. It needs nothing of the environment that it was for."""

    def __init__(self, about: About, arrays: Mapping[str, np.ndarray]) -> None:
        self.about, self.spec = about, about.spec
        agent = find_agent(about.agent)
        self.config: Any = configs.make(agent.Config, about.config)
        init = functools.partial(agent.init, self.config, self.spec)
        try:
            template = checkpoints.without_memory(jax.eval_shape(init, jax.random.key(0)))
        except Exception as error:  # of an agent that has changed since, or of a file that lies
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(
                f"{about.run}: {about.agent} makes no such policy ({cause})"
            ) from error
        self.state = jax.tree.map(jnp.asarray, checkpoints.unflatten(template, dict(arrays)))
        self._act = jax.jit(
            lambda state, obs, key: agent.act(self.config, self.spec, state, obs, key)[0]
        )
        self._key = jax.random.key(about.seed)
        self._calls = 0

    def act(self, obs: Any, key: Any = None) -> np.ndarray:
        """Actions for obs [D] or [N, D], sampled as in training: [A] or [N, A].

        `key`: a JAX key; default: the next of a fixed sequence.
        """
        obs = _numbers(obs)
        if obs.ndim not in (1, 2) or obs.shape[-1] != self.spec.obs_size:
            size = self.spec.obs_size
            raise InputError(f"obs has shape {obs.shape}: needs [{size}] or [N, {size}]")
        if not np.isfinite(obs).all():
            raise InputError(f"obs[{np.argwhere(~np.isfinite(obs))[0].tolist()}] is not finite")
        if key is None:
            key = jax.random.fold_in(self._key, self._calls)
            self._calls += 1
        _check_key(key)
        action = np.asarray(self._act(self.state, np.atleast_2d(obs), key))
        return action[0] if obs.ndim == 1 else action


def _numbers(obs: Any) -> np.ndarray:
    """An observation as float32; InputError where it is no array of real numbers."""
    with contextlib.suppress(TypeError, ValueError):
        found = np.asarray(obs)
        if found.dtype.kind not in "cOSUmM":
            return np.asarray(found, np.float32)
    values.refuse("obs", obs, "an array of real numbers")


def _check_key(key: Any) -> None:
    is_array = isinstance(key, (jax.Array, np.ndarray))
    if is_array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        is_key = key.shape == ()
    else:
        is_key = is_array and key.shape == (2,) and key.dtype == np.uint32
    if not is_key:
        values.refuse("key", key, "one key, such as jax.random.key(0)")


def load(source: str | Path, run: str | None = None, *, trust: bool = False) -> Policy:
    """The policy of a finished run.

    Args:
      source: the run's own folder, its policy.npz alone, or an output folder of several runs.
      run: the name of the run in an output folder; default: the first that has finished.
      trust: import the agent if it is not one of this library's. Its module is looked for in the
        current folder, too, and importing it runs its author's code.

    Without `trust` nothing that the files name is imported or called.
    """
    source = values.path("source", source)
    if source.is_file():
        about, arrays = load_policy(source)
    else:
        about, arrays = _find_run(source, run).policy()
    if not trust and not is_ours(about.agent, AGENTS):
        raise InputError(
            f"the policy in {source} is of the agent {about.agent!r}, which is no part of lcpo: to "
            "load it is to run its author's code; say trust=True if you trust both"
        )
    return Policy(about, arrays)


def _find_run(folder: Path, run: str | None) -> Result:
    if RunFiles(folder).manifest.exists():
        return load_result(folder)
    found = {r.job.name: r for r in load_results(folder) if r.status == "finished"}
    if not found:
        raise InputError(f"{folder} holds no finished run")
    if run is None:
        return next(iter(found.values()))
    if not isinstance(run, str) or run not in found:
        raise InputError(unknown("run", run, found, of=str(folder)))
    return found[run]

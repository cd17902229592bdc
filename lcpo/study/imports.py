"""Results of other code as runs of ours: docs/import.md has the format.

A file has a row per episode, or per block of episodes; they are put into epochs as our own runs
have them, so that every table treats both alike. The agent is then called `imported:NAME`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo import contexts
from lcpo import values as plain_values
from lcpo.contexts import paper
from lcpo.envs import ENVS
from lcpo.errors import InputError
from lcpo.run.plan.check import check_folder
from lcpo.run.plan.job import Job, is_file_name
from lcpo.run.store import layout
from lcpo.run.store import record as records
from lcpo.run.store.files import save_arrays
from lcpo.run.store.results import Result, save_outcome
from lcpo.study.import_format import File, Key, Rows, finite, parse

PREFIX = "imported:"
MAX_EPOCHS = 10_000_000
LARGEST = 2**28
"""Bytes of a file."""


class Imported(NamedTuple):
    """A run of other code."""

    job: Job
    record: records.Record
    seconds: float
    environment: dict[str, Any]


def source_of(provenance: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of an imported run: what its file says of its origin; None: the run is ours."""
    found = provenance.get("imported")
    return found if isinstance(found, dict) else None


def imported_agents(results: Iterable[Result]) -> dict[str, str]:
    """The agents of imported runs, and the code that each is of."""
    sources = {r.job.agent: source_of(r.provenance) for r in results}
    return {agent: str(found.get("code")) for agent, found in sources.items() if found}


def imported_notes(results: Iterable[Result]) -> list[str]:
    """What a table says of them."""
    found = imported_agents(results).items()
    return [f"{agent}: not run here but imported, made by {code}" for agent, code in found]


def import_file(file: str | Path, out: str | Path) -> list[str]:
    """Write the runs of a file into an output folder; their names. All is checked before."""
    file, out = plain_values.path("file", file), plain_values.path("out", out)
    content = _read(file)
    found = parse(content, str(file))
    about = found.about
    runs = [_run(key, rows, found, str(file)) for key, rows in found.runs.items()]
    check_folder(out)
    if layout.plan_file(out).exists():
        raise InputError(f"{out} holds runs of this library: import into a folder of their own")
    names = set[str]()
    for run in runs:
        if run.job.name in names:
            raise InputError(f"{file}: two runs would be called {run.job.name}: rename an agent")
        names.add(run.job.name)
        if layout.run_files(out, run.job.name).folder.exists():
            raise InputError(f"{out} has a run {run.job.name} already: choose another folder")
    source = {**about, "file": file.name, "digest": hashlib.sha256(content).hexdigest()}
    known = {"device": about["device"]} if "device" in about else {}
    for run in runs:
        files = layout.run_files(out, run.job.name)
        outcome = {
            "status": "finished",
            "job": run.job.to_json(),
            "seconds": run.seconds,
            "environment": run.environment,
            "provenance": {**known, "imported": source},
        }
        try:
            written = {files.record.name: save_arrays(files.record, run.record)}
            save_outcome(files, outcome, written)
        except OSError as error:
            raise InputError(f"cannot write {files.folder}: {error.strerror or error}") from error
    return [run.job.name for run in runs]


def _read(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise InputError(f"{file} is no file: give one as docs/import.md tells")
        if file.stat().st_size > LARGEST:
            raise InputError(f"{file} is larger than {LARGEST:,} bytes: give means of blocks")
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error


def _run(key: Key, rows: Rows, file: File, where: str) -> Imported:
    trace, epoch = key.trace or "none", file.epoch
    what = f"{where}, {key.agent} on {key.env}, trace {trace}, seed {key.seed}"
    count = (file.steps or rows.step[-1]) // epoch
    if not 1 <= count <= MAX_EPOCHS:
        raise InputError(f"{what}: {count:,} epochs of {epoch:,} steps: needs 1 to {MAX_EPOCHS:,}; "
                         "choose another '# epoch'")  # fmt: skip
    seconds = rows.metrics.get("seconds", [math.nan])[-1]
    metrics = {name: found for name, found in rows.metrics.items() if name != "seconds"}
    job, environment = _job(key, count * epoch, file.about, what)
    record = _record(rows._replace(metrics=metrics), count, epoch, what)
    return Imported(job, record, seconds, environment)


def _record(rows: Rows, count: int, epoch: int, what: str) -> records.Record:
    """As `records.thin` makes it of our own: epochs of equal length, each with its episodes."""
    at = (np.asarray(rows.step) - 1) // epoch
    whole = at < count  # what came after the last whole epoch is left out, as in our runs
    at, value = at[whole], np.asarray(rows.value)[whole]
    episodes = np.where(np.isnan(value), 0.0, np.asarray(rows.episodes)[whole])

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(at, values, count)

    found = {
        "episodes": total(episodes),
        "episode_return_sum": total(np.where(episodes > 0, value * episodes, 0.0)),
    }
    lines = np.bincount(at, minlength=count)
    for name, values in rows.metrics.items():
        if not lines.all():
            step = (int(np.argmin(lines)) + 1) * epoch
            raise InputError(f"{what}: no row for {name} in the epoch of {epoch:,} steps that ends "
                             f"at step {step:,}: choose a longer '# epoch'")  # fmt: skip
        found[name] = total(np.asarray(values)[whole]) / lines
    if not found["episodes"].any() and "reward" not in found:
        raise InputError(f"{what}: no return and no reward: needs the one or the other")
    return records.thin(found, 0, records.block_size(count), epoch)


def _job(key: Key, steps: int, about: Mapping[str, str], what: str) -> tuple[Job, dict[str, Any]]:
    """The job that would have made the run, had it been ours; what reports must know of its env."""
    agent, env, trace, seed = key
    scale, environment, env_config = 1.0, {}, _env_values(about, what)
    if env in ENVS:
        made = configs.make(ENVS[env], env_config)
        env_config = configs.to_json(made)
        environment = {"advance": made.advance, "num_worlds": made.spec.num_worlds}
        if (made.advance == "own") != (not trace):
            need = "an empty one" if trace else "one"
            raise InputError(f"{what}: {env} needs {need} as its trace")
    if trace and not contexts.is_file(trace):
        contexts.describe(trace)
    if trace:
        scale = paper.default_scale(env, trace)
    if "scale" in about:
        scale = finite(about, "scale", what)
    name = f"{PREFIX}{agent}-{env}-{trace or 'none'}-s{seed}".replace("/", "_").replace(":", ".")
    if not is_file_name(name):
        raise InputError(f"{what}: {name[:80]!r} cannot be the name of a folder: rename the agent")
    job = Job(name, PREFIX + agent, env, trace or None, scale, steps, seed, {}, env_config)
    return job, environment


def _env_values(about: Mapping[str, str], what: str) -> dict[str, Any]:
    try:
        found = json.loads(about.get("env_config", "{}"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{what}: env_config = {about['env_config'][:80]!r}: needs JSON, {{...}}")
    return found

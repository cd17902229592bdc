"""Results of other code as runs of lcpo (docs/import.md has the format).

A file has a row per episode or block of episodes. They are put into epochs as in our own runs, so
that every table treats both alike. The agent is then called `imported:NAME`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo import values as plain_values
from lcpo.contexts import TraceRef, paper
from lcpo.envs import ENVS
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, earlier_values, is_file_name
from lcpo.run.store import layout
from lcpo.run.store import record as records
from lcpo.run.store.files import load_document, save_arrays, save_document, sweep
from lcpo.run.store.lock import locked
from lcpo.run.store.outputs import check_entries, check_folder, check_own_folder
from lcpo.run.store.results import load_outcome, save_outcome
from lcpo.study.measure.comparable import source_of
from lcpo.study.report.import_format import File, Key, Rows, finite, parse

SCHEMA = 1
"""Schema of importing.json."""
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


def import_file(file: str | Path, out: str | Path) -> list[str]:
    """Check a file and write its runs into an output folder; returns their names.

    OUT/importing.json names the runs until all are written. If it remains, the runs are not read,
    and the next import removes them. A failed import removes what it wrote.
    """
    file, out = plain_values.path("file", file), plain_values.path("out", out)
    content = _read(file)
    found = parse(content, str(file))
    runs = [_run(key, rows, found, str(file)) for key, rows in found.runs.items()]
    names = [run.job.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{file}: two runs would be called {twice}: rename an agent")
    check_folder(out)
    if layout.plan_file(out).exists():
        raise InputError(f"{out} holds runs of lcpo: import into another folder")
    check_own_folder(out, "lcpo import", _is_of_imports)
    check_entries(out, names)
    about = {**found.about, "file": file.name, "digest": hashlib.sha256(content).hexdigest()}
    try:
        with locked(out, lambda text: None):
            _write(runs, about, out)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from error
    return names


def _write(runs: Sequence[Imported], about: Mapping[str, str], out: Path) -> None:
    """All of them, or none."""
    begun, names = layout.import_file(out), [run.job.name for run in runs]
    if begun.exists():
        _remove(out, load_document(begun, SCHEMA, {"runs": list})["runs"])
    for name in names:
        if layout.run_files(out, name).folder.exists():
            raise InputError(f"{out} has a run {name} already: choose another folder")
    save_document(begun, SCHEMA, {"runs": names})
    known = {"device": about["device"]} if "device" in about else {}
    try:
        for run in runs:
            files = layout.run_files(out, run.job.name)
            outcome = {
                "status": "finished",
                "job": run.job.to_json(),
                "seconds": run.seconds,
                "environment": run.environment,
                "provenance": {**known, "imported": dict(about)},
            }
            written = {files.record.name: save_arrays(files.record, run.record)}
            save_outcome(files, outcome, written)
    except BaseException:
        _remove(out, names)
        raise
    begun.unlink()


def _remove(out: Path, names: Iterable[Any]) -> None:
    """Remove what an interrupted import wrote, and last the file that names it."""
    for name in names:
        if not isinstance(name, str) or not is_file_name(name):
            raise InputError(
                f"{layout.import_file(out)} was not written by `lcpo import`: delete it"
            )
        run = layout.run_files(out, name)
        for path in (run.manifest, run.record):
            path.unlink(missing_ok=True)
        sweep(run.folder)
        with contextlib.suppress(OSError):  # not made yet, or not empty
            run.folder.rmdir()
    with contextlib.suppress(OSError):  # it holds other runs
        layout.runs_folder(out).rmdir()
    layout.import_file(out).unlink()


def _is_of_imports(out: Path) -> bool:
    if layout.import_file(out).exists():
        return True
    found = [load_outcome(run) or {} for run in layout.ended_runs(out)]
    return bool(found) and all(source_of(outcome["provenance"]) for outcome in found)


def _read(file: Path) -> bytes:
    try:
        if not file.is_file():
            raise InputError(f"{file} is not a file: give one in the format of docs/import.md")
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
    """As in our own runs: epochs of equal length, each with its episodes."""
    at = (np.asarray(rows.step) - 1) // epoch
    whole = at < count  # without what follows the last whole epoch, as in our runs
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
        raise InputError(f"{what}: no return and no reward: needs a column with one of them")
    return records.thin(found, 0, records.block_size(count), epoch)


def _job(key: Key, steps: int, about: Mapping[str, str], what: str) -> tuple[Job, dict[str, Any]]:
    """A job for the run, and what reports need to know about its environment."""
    agent, env, trace, seed = key
    try:
        env_config = json.loads(about.get("env_config", "{}"))
    except (ValueError, RecursionError):
        env_config = None
    if not isinstance(env_config, dict):
        text = about["env_config"][:80]
        raise InputError(f"{what}: env_config = {text!r}: needs JSON, {{...}}")
    scale, environment = 1.0, {}
    if env in ENVS:
        made = configs.make(ENVS[env], env_config)
        own = earlier_values(ENVS[env])  # how we compute the same task is nothing that a file says
        env_config = {k: v for k, v in configs.to_json(made).items() if k not in own}
        environment = {"advance": made.advance, "num_worlds": made.spec.num_worlds}
        if (made.advance == "own") != (not trace):
            need = "an empty one" if trace else "one"
            raise InputError(f"{what}: {env} needs {need} as its trace")
    on = TraceRef.parse(trace) if trace else None
    if on is not None:
        if not on.is_file:
            on.describe()
        scale = paper.default_scale(env, on)
    if "scale" in about:
        scale = finite(about, "scale", what)
    job = Job(PREFIX + agent, env, on, scale, steps, seed, {}, env_config)
    if not is_file_name(job.name):
        name = job.name[:80]
        raise InputError(f"{what}: {name!r} cannot be the name of a folder: rename the agent")
    return job, environment

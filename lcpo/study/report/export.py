"""All records of a study as one table, for polars, pandas, DuckDB or a spreadsheet."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import InputError, MissingPackage
from lcpo.run.plan.job import Job
from lcpo.run.store.files import REGULAR, kind_of
from lcpo.run.store.outputs import check_file, check_folder, ends
from lcpo.run.store.results import load_results
from lcpo.study.report.output import write_bytes
from lcpo.study.report.tables import plain_text
from lcpo.values import path

SUFFIXES = (".parquet", ".csv")
FIRST = ("name", "agent", "env", "trace", "seed", "status")
"""First columns, by which an exported table is recognized."""


def export(out_folder: str | Path, file: str | Path, *, overwrite: bool = False) -> int:
    """Write the records of all runs below `out_folder` into `file`; returns the number of rows.

    Each row of a record follows name, agent, env, trace, seed and status of its run, and the
    settings in which the runs differ, as `config.NAME` and `env_config.NAME`. A failed run has the
    rows up to its failure.
    """
    out_folder, file = path("folder", out_folder), path("file", file)
    if file.suffix not in SUFFIXES:
        raise InputError(f"{file}: cannot write {file.suffix or 'a file without suffix'!r}: "
                         f"use {' or '.join(SUFFIXES)}")  # fmt: skip
    check_folder(file.parent)
    if kind_of(file) == REGULAR and not overwrite:
        raise InputError(f"{file} exists: choose another name or overwrite it (--overwrite)")
    try:
        import polars as pl
    except ImportError as error:
        raise MissingPackage('export needs polars: pip install "lcpo[study]"') from error
    check_file(file, "lcpo export", _is_export)
    results = load_results(out_folder)
    if not any(result.record for result in results):
        raise InputError(f"{out_folder} holds no finished run: nothing to export")
    names, rows = _differing_settings([r.job for r in results]), 0
    frames = []
    for result in results:
        if result.record:
            job = result.job
            first = (job.name, job.agent, job.env, job.trace_name, job.seed, result.status)
            values = dict(zip(FIRST, first, strict=True))
            values |= {n: _setting(job, n) for n in names}
            if file.suffix == ".csv":
                values = {n: plain_text(v) if isinstance(v, str) else v for n, v in values.items()}
            columns = [pl.lit(value).alias(name) for name, value in values.items()]
            frames.append(pl.DataFrame(result.record).select(*columns, pl.all()))
            rows += len(frames[-1])
    # Agents differ in their metrics, and a setting may be null in one run and a number in another.
    table = pl.concat(frames, how="diagonal_relaxed")
    content = io.BytesIO()
    if file.suffix == ".csv":
        table.rename(plain_text).write_csv(content)
    else:
        table.write_parquet(content)
    write_bytes(file, content.getvalue())
    return rows


def _is_export(file: Path) -> bool:
    if file.suffix == ".csv":
        return ends(file).startswith(f"{','.join(FIRST)},".encode())
    import polars as pl

    try:
        return tuple(pl.read_parquet_schema(file))[: len(FIRST)] == FIRST
    except Exception:  # whatever foreign bytes make a parser raise
        return False


def _differing_settings(jobs: Sequence[Job]) -> list[str]:
    known = {"scale": None, "steps": None, "training": None}
    for job in jobs:
        known |= dict.fromkeys(f"config.{k}" for k in job.config)
        known |= dict.fromkeys(f"env_config.{k}" for k in job.env_config)
    return [n for n in known if len({json.dumps(_setting(job, n)) for job in jobs}) > 1]


def _setting(job: Job, name: str) -> Any:
    """A plain value; lists as JSON text, because CSV cannot hold them."""
    where, _, field = name.rpartition(".")
    value = getattr(job, where).get(field) if where else getattr(job, name)
    return json.dumps(value) if isinstance(value, (list, dict)) else value

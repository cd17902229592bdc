"""The folder of a study: which experiment it holds, so that experiments are never mixed.

`study.json` has the experiment, the version of lcpo, the setting and the scale; the plan in the
same folder has the jobs with their configs. A folder without it (from a machine that only ran jobs)
is identified by its jobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from lcpo import __version__
from lcpo import config as configs
from lcpo.agents import find_agent
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store.checkpoint import check_same
from lcpo.run.store.files import load_document, save_document
from lcpo.run.store.layout import plan_file, run_files, runs_folder, study_file
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import Result, load_result
from lcpo.study.study import Options

SCHEMA = 1


def identity(name: str, options: Options) -> dict[str, str]:
    """What all runs in the folder of a study share."""
    return {"experiment": name, "version": __version__, "setting": options.setting,
            "scale": str(options.fraction)}  # fmt: skip


def save_study(out: Path, name: str, options: Options) -> None:
    """Mark a folder as that of a study."""
    save_document(study_file(out), SCHEMA, identity(name, options))


def is_of_study(out: Path, name: str) -> bool:
    """Whether a folder is marked as that of the study called `name`."""
    file = study_file(out)
    if not file.is_file():
        return False
    return load_document(file, SCHEMA, {"experiment": str})["experiment"] == name


def check_study(out: Path, name: str, options: Options, jobs: Sequence[Job]) -> None:
    """Raise InputError if the folder holds another study."""
    wanted, file = identity(name, options), study_file(out)
    if file.exists():
        found = load_document(file, SCHEMA, dict.fromkeys(wanted, str))
        differ = [
            f"{key}: there {found[key]!r}, now {value!r}"
            for key, value in wanted.items()
            if found[key] != value
        ]
        if differ:
            raise InputError(
                f"{out} holds another study ({'; '.join(differ)}): give what it was made with, or "
                "another folder"
            )
    there = {job.name: job for job in planned_jobs(out)}
    shared = [job for job in jobs if job.name in there]
    for job in shared:
        _check_same(there[job.name], job, f"{job.name} in {out}")
    if there and jobs and not shared and not file.exists():
        other = next(iter(there))
        raise InputError(
            f"{out} holds no run of this study: there {other!r} and {len(there) - 1} more, now "
            f"{jobs[0].name!r}: give what it was made with, or another folder"
        )


def check_holds_runs(out: Path) -> None:
    """Raise InputError if there is nothing to collect."""
    if not runs_folder(out).is_dir() and not plan_file(out).exists():
        raise InputError(f"{out} holds no runs: give the folder that --plan wrote")


def collect(out: Path, jobs: Sequence[Job]) -> list[Result]:
    """The ended runs of a study in a folder; InputError for those of another version."""
    check_holds_runs(out)
    results = []
    for job in jobs:
        run = run_files(out, job.name)
        if not run.manifest.exists():
            continue
        result = load_result(run.folder)
        _check_same(result.job, job, str(run.manifest))
        results.append(result._replace(job=job))
        version = result.provenance.get("lcpo", __version__)
        if version != __version__:
            raise InputError(
                f"{result.folder} was run by lcpo {version}, this is {__version__}: make the "
                "report with that version, or run it again"
            )
    return results


def _check_same(found: Job, wanted: Job, where: str) -> None:
    """Raise InputError with the difference between a run and the requested one.

    A run made before an agent got a field behaves as with the field's default.
    """
    now = configs.to_json(find_agent(wanted.agent).Config())
    new = {name: value for name, value in now.items() if name not in found.config}
    before = dataclasses.replace(found, config={**new, **found.config})
    check_same(before.to_json(), wanted.to_json(), where)

"""The plan of an output folder: the jobs that are to be run into it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store.files import digest_of_json, load_document, save_document
from lcpo.run.store.layout import plan_file

SCHEMA = 2


class Plan(NamedTuple):
    """Jobs, and the folder for their results."""

    jobs: list[Job]
    out: Path
    keep_state: bool = False
    """Whether the last checkpoint of each run stays when it has finished, so that it can go on."""
    digest: str = ""
    """Of the whole document: who was given it runs this plan, and no other."""


def save_plan(out: Path, jobs: Sequence[Job], keep_state: bool = False) -> None:
    """Write the plan of an output folder, whose results go beside it."""
    values = {"out": ".", "jobs": [job.to_json() for job in jobs], "keep_state": keep_state}
    save_document(plan_file(out), SCHEMA, values)


def load_plan(file: Path, digest: str | None = None) -> Plan:
    """Read a plan; InputError where it is damaged, or would write outside its own folder.

    With `digest`, any other plan is refused, too.
    """
    planned = load_document(file, SCHEMA, {"out": str, "jobs": list})
    found_digest = digest_of_json(planned)
    if digest not in (None, found_digest):
        raise InputError(
            f"{file} has changed since this worker was started for it: repeat the command that "
            "planned its runs, with --resume"
        )
    out, jobs = planned["out"], planned["jobs"]
    folder = file.parent / out
    if not folder.resolve().is_relative_to(file.parent.resolve()):
        raise InputError(f"{file} puts its results into {out!r}, outside its own folder: refused")
    found = [Job.from_json(job, str(file)) for job in jobs]
    names = [job.name for job in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{file} has two jobs called {twice!r}")
    return Plan(found, folder, planned.get("keep_state") is True, found_digest)


class Numbered(NamedTuple):
    """Shares of the jobs of a plan, for workers that read it themselves."""

    shares: list[dict[str, int]]
    """Names of the jobs, and their numbers in the plan."""
    digest: str
    """Of the plan."""


def numbered(shares: Sequence[Sequence[Job]], out: Path) -> Numbered:
    """Where the jobs stand in the plan of a folder; InputError where it holds others instead."""
    file = plan_file(out)
    plan = load_plan(file)
    places = {job.name: i for i, job in enumerate(plan.jobs)}
    for job in (job for share in shares for job in share):
        planned = plan.jobs[places[job.name]] if job.name in places else None
        if planned is None or (planned != job and planned.to_json() != _as_json(job)):
            raise InputError(f"{file} was replaced while {job.name} was about to start: refused")
    return Numbered(
        [{job.name: places[job.name] for job in share} for share in shares], plan.digest
    )


def _as_json(job: Job) -> Any:
    """As a file has it: with lists in place of tuples."""
    return json.loads(json.dumps(job.to_json()))


def keeps_state(out: Path) -> bool:
    """Whether the plan of a folder says so; it does not where there is none."""
    file = plan_file(out)
    return file.exists() and load_plan(file).keep_state


def planned_jobs(out: Path) -> list[Job]:
    """The jobs in the plan of a folder; none where it has no plan."""
    file = plan_file(out)
    return load_plan(file).jobs if file.exists() else []

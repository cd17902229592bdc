"""The plan of an output folder: the jobs to run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
    """Whether the last checkpoint of each run stays when it has finished: it can be extended."""
    digest: str = ""
    """Digest of the whole document: a worker that was given it runs only this plan."""


def save_plan(out: Path, jobs: Sequence[Job], keep_state: bool = False) -> None:
    """Write the plan of an output folder."""
    values = {"out": ".", "jobs": [job.to_json() for job in jobs], "keep_state": keep_state}
    save_document(plan_file(out), SCHEMA, values)


def load_plan(file: Path, digest: str | None = None) -> Plan:
    """Read a plan; InputError if it is damaged, writes outside its folder, or has another digest.

    `digest`: the one that is required; None accepts any.
    """
    planned = load_document(file, SCHEMA, {"out": str, "jobs": list})
    found_digest = digest_of_json(planned)
    if digest not in (None, found_digest):
        raise InputError(
            f"{file} has changed since this worker was started: repeat the command that planned "
            "its runs, with --resume"
        )
    folder = file.parent / planned["out"]
    if not folder.resolve().is_relative_to(file.parent.resolve()):
        raise InputError(
            f"{file} writes to {planned['out']!r}, outside its own folder: use the plan that lcpo "
            "wrote"
        )
    jobs = [Job.from_json(job, str(file)) for job in planned["jobs"]]
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{file} has two jobs called {twice!r}")
    return Plan(jobs, folder, planned.get("keep_state") is True, found_digest)


class Numbered(NamedTuple):
    """Shares of the jobs of a plan, for workers that read it themselves."""

    shares: list[dict[str, int]]
    """Names of the jobs, and their numbers in the plan."""
    digest: str
    """Digest of the plan."""


def numbered(shares: Sequence[Sequence[Job]], out: Path) -> Numbered:
    """The places of jobs in the plan of a folder; InputError if it holds others instead."""
    file = plan_file(out)
    plan = load_plan(file)
    places = {job.name: i for i, job in enumerate(plan.jobs)}
    for job in (job for share in shares for job in share):
        planned = plan.jobs[places[job.name]] if job.name in places else None
        as_stored = json.loads(json.dumps(job.to_json()))  # with lists in place of tuples
        if planned is None or planned.to_json() != as_stored:
            raise InputError(
                f"{file} was replaced while {job.name} was about to start: repeat the command with "
                "--resume"
            )
    found = [{job.name: places[job.name] for job in share} for share in shares]
    return Numbered(found, plan.digest)


def keeps_state(out: Path) -> bool:
    """Whether the plan of a folder keeps the states of finished runs; False without a plan."""
    file = plan_file(out)
    return file.exists() and load_plan(file).keep_state


def planned_jobs(out: Path) -> list[Job]:
    """The jobs in the plan of a folder; none without a plan."""
    file = plan_file(out)
    return load_plan(file).jobs if file.exists() else []

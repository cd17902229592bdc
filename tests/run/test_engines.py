"""The seam between plans and engines, and the events that cross it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stopping import ignore

from lcpo.errors import InputError
from lcpo.run import events
from lcpo.run.drive import execute
from lcpo.run.engines.base import run_plan
from lcpo.run.events import Crashed, Event, Failed, Finished, Progress, Report
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.plans import planned_jobs

EVENTS = [
    Progress("a-s0", "run", 400, 200, -3.5),
    Finished("a-s0"),
    Failed("a-s0", "value_loss", "nan", 400, "training"),
    Crashed("a-s0", "world 0: [/data/x.csv] is gone"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_survive_json(event: Event) -> None:
    assert events.from_json(json.loads(json.dumps(events.to_json(event)))) == event


class Recorder:
    """An engine that only writes down what it is asked; it refuses more than two jobs."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, jobs: list[Job]) -> None:
        if len(jobs) > 2:
            raise InputError("at most two jobs at a time")

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        assert {job.name for job in jobs} <= {job.name for job in planned_jobs(out)}
        self.asked += [job.name for job in jobs]
        for job in jobs:
            report(Finished(job.name))


def jobs_of(*seeds: int) -> list[Job]:
    small = {"hidden": (4,), "rollout_length": 20}
    return plan("a2c", "pendulum", trace="revisit", steps=40, seeds=seeds, overrides=small)


def test_an_engine_is_given_what_has_not_ended(tmp_path: Path) -> None:
    out, engine, heard = tmp_path / "o", Recorder(), []
    run_plan(jobs_of(0, 1), out, engine, heard.append)
    assert heard == [Finished(job.name) for job in jobs_of(0, 1)]
    execute.run_jobs(jobs_of(0), out, ignore, 60.0)
    engine.asked.clear()
    run_plan(jobs_of(0, 1, 2), out, engine, ignore, resume=True)
    assert engine.asked == [job.name for job in jobs_of(1, 2)]
    assert planned_jobs(out) == jobs_of(0, 1, 2)


def test_what_an_engine_refuses_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "o"
    with pytest.raises(InputError, match="at most two"):
        run_plan(jobs_of(0, 1, 2), out, Recorder(), ignore)
    assert not out.exists()
    run_plan(jobs_of(0), out, Recorder(), ignore)
    with pytest.raises(InputError, match="holds runs already"):
        run_plan(jobs_of(0), out, Recorder(), ignore)

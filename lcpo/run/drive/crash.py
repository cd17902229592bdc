"""What breaks a run is told of that run; the others go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lcpo.errors import is_full, tell, trace_of
from lcpo.run.events import Crashed, Event, Note, Progress, Report
from lcpo.run.plan.job import Job


class Reporter:
    """A report that knows which runs have ended, and whether it raised itself."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.ended: set[str] = set()
        self.broken = False

    def __call__(self, event: Event) -> None:
        """Pass on an event."""
        if not isinstance(event, Progress | Note):
            self.ended.add(event.job)
        try:
            self.report(event)
        except BaseException:
            self.broken = True
            raise

    @contextlib.contextmanager
    def crashes_of(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Report `Crashed` for each of the jobs that has not ended where something is raised.

        Not of what the report raised: that is the caller's. An environment that calls `sys.exit`
        breaks its run like any other.
        """
        try:
            yield
        except (Exception, SystemExit) as error:
            if self.broken:
                raise
            reason, details = tell(error), trace_of(error)
            open_jobs = [job for job in jobs if job.name not in self.ended]
            for job in open_jobs:
                self(Crashed(job.name, reason, details, is_full(error)))
            if not open_jobs:  # such as an environment that cannot be closed
                self(Note(f"after {', '.join(job.name for job in jobs)} ended: {reason}"))

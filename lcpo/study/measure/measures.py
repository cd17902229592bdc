"""Numbers of a task in addition to returns.

An environment names them as `measures`, "package.module:name" of a sequence of `Measure`, which is
imported for reports and not for training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lcpo import names
from lcpo.envs import ENVS
from lcpo.run.plan.job import Job
from lcpo.run.store.record import TOTAL, Record
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate


class Measure(NamedTuple):
    """A number of a finished run, from its record."""

    name: str
    """Name in JSON and CSV files."""
    title: str
    """Name of its column."""
    of: Callable[[Record, int], float]
    """of(record, after_step), without the warm-up."""
    reading: str
    """The one of `Spec.readings` that it needs; runs without it have no number."""
    key: str
    """Column in seeds.csv."""
    factor: float = 1.0
    """100: tables show a share as a percentage."""
    about: str = ""
    """What its column means."""

    def known(self, record: Record) -> bool:
        return TOTAL + self.reading in record

    def estimate(self, records: Sequence[Record], warmup: int) -> Estimate | None:
        """Over the runs that have it; None: none has."""
        found = [self.factor * self.of(x, warmup) for x in records if self.known(x)]
        return stats.mean_ci(found) if found else None


def measures_of(job: Job) -> Sequence[Measure]:
    """The measures of a run's environment.

    What a folder names is not imported: a user's own environment has measures only in a process
    that has imported it, for training or comparing.
    """
    named = getattr(names.imported(job.env, ENVS), "measures", "")
    return names.load(named) if named else ()

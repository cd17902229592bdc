"""What a run shows of its memory, on a trace that comes back to contexts: two numbers.

revisits   the return right after a context came back
distance   how far the policy is from what is right in a context while another one lasts
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo import contexts
from lcpo.contexts import Switches
from lcpo.envs import ENVS
from lcpo.envs.base import landmarks_of
from lcpo.run.plan.job import Job
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.study.stats import NAN

REVISIT_EPOCHS = 20
REVISIT_SHARE = 30
"""A thirtieth of a visit at most: what comes later may have been learned again."""


class Memory(NamedTuple):
    """Where to look for it in a record."""

    switches: Switches
    """Schedule of the trace, in steps."""
    window: int
    """Steps after a context came back that count as its revisit."""
    landmarks: Mapping[str, int]
    """The metrics of the landmarks, and the number of the context to which each belongs."""


def find_memory(result: Result, steps: int, update: int) -> Memory | None:
    """None where the trace has no schedule; `update`: steps of the shortest update."""
    switches = schedule(result)
    if switches is None:
        return None
    revisits = np.diff(np.append(switches.start, steps))[switches.seen]  # the last may be cut off
    longest = int(revisits.max(initial=0))
    window = min(REVISIT_EPOCHS * update, longest // REVISIT_SHARE)
    return Memory(switches, window, _landmarks(result.job, switches))


def schedule(result: Result) -> Switches | None:
    """When the context of a run switches, in steps, if its trace has a schedule."""
    job, environment = result.job, result.environment
    if job.trace is None or contexts.is_file(job.trace):
        return None
    if contexts.describe(job.trace).switches is None:
        return None
    if environment != {"advance": "step", "num_worlds": 1}:  # a row is then no step of the run
        return None
    return contexts.switches(job.trace, job.steps)


def _landmarks(job: Job, switches: Switches) -> dict[str, int]:
    """Those whose context is one of the trace's.

    Of our own environments only: what a file names is not imported.
    """
    if not hasattr(ENVS.get(job.env), "landmarks") or job.trace is None:
        return {}
    env = configs.make(ENVS[job.env], job.env_config)
    rows = contexts.get(job.trace, job.steps, job.scale)[switches.start]
    found = {}
    for name, mark in landmarks_of(env).items():
        own = np.flatnonzero((rows == env.spec.context.newest(np.array(mark.obs))).all(axis=1))
        if len(own):
            found[f"tv_{name}"] = int(switches.context[own[0]])
    return found


def revisit_return(record: Record, memory: Memory) -> float:
    """Mean over revisits of the return in their first `window` steps; NaN where no row fits.

    A revisit is a visit to a context that has held before. Rows count that lie within the window,
    or the first update alone if that is longer: nothing has been learned again before its end.
    """
    switches, (begin, end) = memory.switches, _rows(record)
    update = end[0] // record["updates"][0]
    leave = np.append(switches.start[1:], end[-1])
    means = []
    for start, stop in zip(switches.start[switches.seen], leave[switches.seen], strict=True):
        later = begin >= start
        first = begin[later].min(initial=end[-1])
        inside = later & (end <= min(max(start + memory.window, first + update), stop))
        epochs = record["epochs"][inside]
        if epochs.sum() > 0:
            means.append(np.average(record["epoch_return"][inside], weights=epochs))
    return float(np.mean(means)) if means else NAN


def distance_away(record: Record, memory: Memory) -> float:
    """Mean distance at the landmarks of a context while another one lasts, over landmarks.

    From the first time on that the landmark's own context has held; NaN where no row tells. Rows
    count that lie within a visit.
    """
    switches, (begin, end) = memory.switches, _rows(record)
    visit = np.searchsorted(switches.start, begin, side="right") - 1
    within = end <= np.append(switches.start[1:], end[-1])[visit]
    means = []
    for metric, own in memory.landmarks.items():
        first = np.argmax(switches.context == own)
        away = within & (visit > first) & (switches.context[visit] != own)
        if metric in record and away.any():
            means.append(np.average(record[metric][away], weights=record["updates"][away]))
    return float(np.mean(means)) if means else NAN


def _rows(record: Record) -> tuple[np.ndarray, np.ndarray]:
    """The step at which each row begins, and the one at which it ends."""
    end = record["step"]
    return end - record["updates"] * (end[0] // record["updates"][0]), end

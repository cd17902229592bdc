"""How well a run remembers, on a trace with a schedule of contexts: four numbers.

revisits     the return right after a context came back
forgetting   how much lower that is than when the context was last left
recovery     steps after a change until the return is back at the reference's level
distance     distance of the policy to the right action of a context while another one lasts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.contexts import Switches
from lcpo.envs import ENVS
from lcpo.envs.base import landmarks_of
from lcpo.run.plan.job import Job
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.study.measure.stats import NAN

REVISIT_EPOCHS = 20
REVISIT_SHARE = 30
"""At most a thirtieth of a visit counts as its revisit: later returns may be relearned."""
SETTLED_SHARE = 0.25
"""The end of a visit, in which an agent is taken to have settled."""
RECOVERED = 0.9
"""The part of the way from the first return to the settled one that counts as recovered."""


class Memory(NamedTuple):
    """Where memory shows in a record."""

    switches: Switches
    """Schedule of the trace, in steps."""
    window: int
    """Steps after a context came back that count as its revisit."""
    landmarks: Mapping[str, int]
    """The metrics of landmarks, and the number of the context to which each belongs."""
    levels: np.ndarray
    """The return of each visit that counts as recovered; NaN: unknown."""


def find_memory(
    result: Result, steps: int, update: int, reference: Sequence[Record]
) -> Memory | None:
    """None if the trace has no schedule.

    `update`: steps of the shortest update; `reference`: the runs whose mean returns define what
    counts as recovered.
    """
    switches = schedule(result)
    if switches is None:
        return None
    revisits = np.diff(np.append(switches.start, steps))[switches.seen]  # the last may be cut off
    longest = int(revisits.max(initial=0))
    window = min(REVISIT_EPOCHS * update, longest // REVISIT_SHARE)
    levels = recovered_levels(reference, switches, window)
    return Memory(switches, window, _landmarks(result.job, switches), levels)


def schedule(result: Result) -> Switches | None:
    """When the context of a run switches, in steps; None if its trace has no schedule."""
    job, environment = result.job, result.environment
    if job.trace is None or not job.trace.has_switches:
        return None
    if environment != {"advance": "step", "num_worlds": 1}:  # a row is then not a step of the run
        return None
    return job.trace.switches(job.steps)


def _landmarks(job: Job, switches: Switches) -> dict[str, int]:
    """Landmarks whose context occurs in the trace; only of our environments: files import none."""
    if not hasattr(ENVS.get(job.env), "landmarks") or job.trace is None:
        return {}
    env = configs.make(ENVS[job.env], job.env_config)
    rows = job.trace.load(job.steps, job.scale)[switches.start]
    found = {}
    for name, mark in landmarks_of(env).items():
        own = np.flatnonzero((rows == env.spec.context.newest(np.array(mark.obs))).all(axis=1))
        if len(own):
            found[f"tv_{name}"] = int(switches.context[own[0]])
    return found


def memory_numbers(record: Record, memory: Memory) -> dict[str, float]:
    """The numbers that the trace allows: fewer without revisits or landmarks."""
    found = {}
    if memory.switches.seen.any():
        found["revisits"] = revisit_return(record, memory)
        found["forgetting"] = forgetting(record, memory)
    if len(memory.switches.start) > 1:
        found["recovery"] = recovery_time(record, memory)
    if memory.landmarks:
        found["distance"] = distance_away(record, memory)
    return found


def memory_notes(memory: Memory, longest: int) -> dict[str, str]:
    """Notes on the numbers for below a table; `longest`: steps of the longest update."""
    longer = " (or its first update, if longer)" if longest > memory.window else ""
    return {
        "revisits": f"revisits: the first {memory.window:,} steps{longer} after a context came "
        "back",
        "recovery": "recovery: steps from a change of context until the mean return of "
        f"{memory.window:,} steps is that of the reference at the end of the visit, but for a "
        "tenth of the drop",
        "distance": "distance: of the policy to the right action of a context while another one "
        "lasts, from 0 (right) to 1 (wrong)",
    }


def revisit_return(record: Record, memory: Memory) -> float:
    """Mean return in the first `window` steps of revisits, visits to a context that held before.

    Rows count that lie within the window, or the first update alone if that is longer: nothing is
    relearned before its end. NaN if no row does.
    """
    return _mean(_first_returns(record, memory.switches, memory.window)[memory.switches.seen])


def forgetting(record: Record, memory: Memory) -> float:
    """Mean over revisits of the level at which the context was last left, minus the return now.

    The level (`settled_levels`) of the previous visit to the context, minus the return in the first
    `window` steps. Positive: something was lost; negative: learning in other contexts helped. NaN
    if no revisit has both.
    """
    switches = memory.switches
    level, first = settled_levels(record, switches), _first_returns(record, switches, memory.window)
    last: dict[int, float] = {}
    lost = []
    for visit, context in enumerate(switches.context.tolist()):
        lost.append(last.get(context, NAN) - first[visit])
        last[context] = level[visit]
    return _mean(np.array(lost))


def recovery_time(record: Record, memory: Memory) -> float:
    """Mean over context changes of the steps until the return reaches `memory.levels`.

    From the change to the end of the first `window` steps (in rows, at least one) within the visit
    whose mean return reaches the visit's level. If none does, the length of the visit counts. NaN
    if no visit but the first has a level and such rows.
    """
    begin, end = _rows(record)
    size = max(1, memory.window // end[0])  # rows of a window
    times = []
    for (start, stop), level in zip(_visits(record, memory.switches), memory.levels, strict=True):
        inside = (begin >= start) & (end <= stop)
        if start == 0 or np.isnan(level) or inside.sum() < size:
            continue
        epochs = np.convolve(record["epochs"][inside], np.ones(size), "valid")
        total = (record["epochs"] * record["epoch_return"])[inside]
        reached = (epochs > 0) & (np.convolve(total, np.ones(size), "valid") >= level * epochs)
        ends = end[inside][size - 1 :][reached]
        times.append(ends[0] - start if len(ends) else stop - start)
    return _mean(times)


def settled_levels(record: Record, switches: Switches) -> np.ndarray:
    """Mean return in the last quarter of each visit; NaN if no row lies within it."""
    begin, end = _rows(record)
    return np.array([
        _return(record, (begin >= stop - SETTLED_SHARE * (stop - start)) & (end <= stop))
        for start, stop in _visits(record, switches)
    ])  # fmt: skip


def recovered_levels(runs: Sequence[Record], switches: Switches, window: int) -> np.ndarray:
    """For each visit settled - 0.1 |settled - first|, of the mean returns of some runs.

    A tenth of the way from the return in the first `window` steps to the settled level is forgiven:
    half of the runs lie below their mean. NaN if either is unknown, or without runs.
    """
    if not runs:
        return np.full(len(switches.start), NAN)
    settled = np.mean([settled_levels(run, switches) for run in runs], axis=0)
    first = np.mean([_first_returns(run, switches, window) for run in runs], axis=0)
    return settled - (1.0 - RECOVERED) * np.abs(settled - first)


def distance_away(record: Record, memory: Memory) -> float:
    """Mean over landmarks of the distance at each while another context than its own lasts.

    Rows within a visit count, after its own context has held once; NaN without such rows.
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
    return _mean(means)


def _first_returns(record: Record, switches: Switches, window: int) -> np.ndarray:
    """Return in the first `window` steps of each visit; NaN if no row fits."""
    begin, end = _rows(record)
    update = end[0] // record["updates"][0]
    found = []
    for start, stop in _visits(record, switches):
        later = begin >= start
        first = begin[later].min(initial=end[-1])
        last = min(max(start + window, first + update), stop)
        found.append(_return(record, later & (end <= last)))
    return np.array(found)


def _visits(record: Record, switches: Switches) -> list[tuple[int, int]]:
    """The steps at which each visit begins and ends."""
    leave = np.append(switches.start[1:], record["step"][-1])
    return list(zip(switches.start.tolist(), leave.tolist(), strict=True))


def _return(record: Record, rows: np.ndarray) -> float:
    epochs = record["epochs"][rows]
    return float(np.average(record["epoch_return"][rows], weights=epochs)) if epochs.any() else NAN


def _mean(values: Sequence[float] | np.ndarray) -> float:
    known = [v for v in values if v == v]
    return float(np.mean(known)) if known else NAN


def _rows(record: Record) -> tuple[np.ndarray, np.ndarray]:
    """The step at which each row begins, and the one at which it ends."""
    end = record["step"]
    return end - record["updates"] * (end[0] // record["updates"][0]), end

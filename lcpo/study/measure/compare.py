"""From finished runs to numbers: one row per agent, over its seeds.

Every seed counts. A failed run has no return and is not part of the means, but the table reports
it, and in the probability of improvement it is worse than every finished run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.costs import short_count
from lcpo.study.measure import comparable, stats
from lcpo.study.measure.comparable import imported_agents, same
from lcpo.study.measure.measures import Measure, measures_of
from lcpo.study.measure.memory import Memory, find_memory, memory_notes, memory_numbers
from lcpo.study.measure.stats import Estimate
from lcpo.values import whole

PAPER_WARMUP = 6_000_000
RARE = 0.01
"""A constraint that is active in a smaller share of updates is as good as never active."""


class AgentRow(NamedTuple):
    """An agent (with a config) over its seeds."""

    label: str
    finished: int
    failed: int
    missing: int
    """Seeds that other agents have and this one does not."""
    after_warmup: Estimate
    whole_run: Estimate
    difference: Estimate | None
    """Return after warm-up minus the reference's, by seed; None for the reference."""
    improvement: Estimate | None
    """Probability that a run's return after warm-up exceeds the reference's with that seed; over
    several traces: that the mean over seeds does on another trace."""
    seconds: float
    measured: Mapping[str, Estimate | float | None]
    """Numbers of its trace (`MEMORY`), constraint (`CONSTRAINT`) and task (`Measure`), by name;
    None: not available."""
    won: int | None = None
    """Traces on which no agent has a higher mean return after warm-up; None: there is one trace."""


class Summary(NamedTuple):
    """Agents side by side on one environment, and on one trace or several."""

    env: str
    trace: str | None
    """Several are separated by commas."""
    steps: int
    warmup: int
    reference: str
    rows: tuple[AgentRow, ...]
    notes: tuple[str, ...]
    memory: Memory | None
    """Where in the runs memory shows; None: the trace has no schedule."""
    endless: bool
    """No episode ended in any run: returns are mean rewards per step."""
    measures: Sequence[Measure]
    """Of the task."""
    parts: Sequence[Summary] = ()
    """Of each trace, if there are several (`lcpo.study.measure.traces`)."""

    def of(self, job: Job) -> Summary:
        """The part with the trace of a run; without parts, all."""
        return next((part for part in self.parts if part.trace == job.trace_name), self)


MEMORY = ("revisits", "forgetting", "recovery", "distance")
"""Numbers of `lcpo.study.measure.memory`, with intervals over seeds."""
CONSTRAINT: Mapping[str, Callable[[records.Record], float | None]] = {
    "activity": records.activity,
    "step_fraction": lambda record: _among_active(record, "step_fraction"),
    "anchor_kl": lambda record: _among_active(record, "anchor_kl"),
}
"""Means of an agent with a constraint: the share of updates in which it was active; among those,
the share of the full step that the line search accepted, and the KL on the anchors after it."""


def summarise(
    results: Sequence[Result],
    warmup: int | None = None,
    reference: str | None = None,
    endless: bool | None = None,
) -> Summary:
    """Compare the agents of `results`, all on one environment and trace.

    `warmup`: steps excluded from the return after warm-up; None: see `default_warmup`. `reference`:
    the agent, by its name in the table, that the others are compared with; None: the first.
    `endless`: whether returns are mean rewards per step; None: if no episode ended.
    """
    groups = group(results)
    steps = _check(results, groups)
    job = results[0].job
    check_warmup(warmup, [r.job for r in results])
    warmup = default_warmup(steps, job.trace) if warmup is None else warmup
    reference = next(iter(groups)) if reference is None else reference
    if reference not in groups:
        raise InputError(unknown("reference", reference, groups))
    finished = finished_runs(results)
    level = [r.record for r in finished_runs(groups[reference])]
    memory = find_memory(results[0], steps, min(map(_update_length, finished)), level)
    endless = is_endless(finished) if endless is None else endless
    found = Summary(
        job.env, job.trace_name, steps, warmup, reference, (), (), memory, endless,
        measures_of(job),
    )  # fmt: skip
    seeds = len({r.job.seed for r in results})
    rows = tuple(_row(found, label, groups, seeds) for label in groups)
    return found._replace(rows=rows, notes=tuple(_notes(found, groups, rows)))


def is_endless(finished: Iterable[Result]) -> bool:
    """Whether no episode ended in any run."""
    return not any(r.record["epochs"].any() for r in finished)


def check_warmup(warmup: int | None, jobs: Sequence[Job]) -> None:
    """Raise InputError unless the runs last longer than the warm-up; called before they start."""
    longest: dict[TraceRef | None, int] = {}
    for job in jobs:
        longest[job.trace] = max(job.steps, longest.get(job.trace, 0))
    steps = min(longest.values())
    if warmup is not None and whole("warm-up", warmup, 0) >= steps:
        raise InputError(f"warm-up = {warmup:,} steps: needs 0 to {steps - 1:,}, the run's length")


def default_warmup(steps: int, trace: TraceRef | None = None) -> int:
    """The paper's 6 million steps (300,000 on `3@1/20`) if the run is longer, otherwise a tenth."""
    paper = int(PAPER_WARMUP * (trace.fraction if trace else 1))
    return paper if steps > paper else steps // 10


def group(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The runs of each agent, which differ only in the seed, by a short label."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.job.label, []).append(result)
    return groups


def finished_runs(results: Iterable[Result]) -> list[Result]:
    """Without failed runs."""
    return [r for r in results if r.status == "finished"]


def run_return(record: records.Record, warmup: int, endless: bool) -> float:
    """The return of a run after its warm-up; mean reward per step if there are no episodes."""
    measure = records.mean_reward if endless else records.lifelong_return
    return measure(record, warmup)


def returns(results: Iterable[Result], after: int, endless: bool) -> dict[int, float]:
    """Returns of the finished runs after this many steps, by seed."""
    return {r.job.seed: run_return(r.record, after, endless) for r in finished_runs(results)}


def ranked(runs: Iterable[Result], returns: Mapping[int, float]) -> dict[int, float]:
    """Returns by seed where only the order counts: a failed run is worse than all others."""
    return {r.job.seed: returns.get(r.job.seed, -np.inf) for r in runs}


def _row(summary: Summary, label: str, groups: Mapping[str, list[Result]], seeds: int) -> AgentRow:
    warmup, endless, memory = summary.warmup, summary.endless, summary.memory
    members, others = groups[label], groups[summary.reference]
    finished = finished_runs(members)
    found = [r.record for r in finished]
    own, other = (returns(runs, warmup, endless) for runs in (members, others))
    difference = improvement = None
    if label != summary.reference:
        difference = stats.paired_difference(own, other)
        # A seed that one side lacks does not count.
        a, b = ranked(members, own), ranked(others, other)
        improvement = stats.probability_of_improvement(a, b)
    kept = [] if memory is None else [memory_numbers(x, memory) for x in found]
    remembered = {
        name: stats.mean_ci([x[name] for x in kept]) if kept and name in kept[0] else None
        for name in MEMORY
    }
    return AgentRow(
        label=label,
        finished=len(finished),
        failed=len(members) - len(finished),
        missing=seeds - len(members),
        after_warmup=stats.mean_ci(list(own.values())),
        whole_run=stats.mean_ci(list(returns(members, 0, endless).values())),
        difference=difference,
        improvement=improvement,
        seconds=float(np.mean([r.seconds for r in finished])) if finished else stats.NAN,
        measured={
            **{m.name: m.estimate(found, warmup) for m in measures_of(members[0].job)},
            **remembered,
            **{name: _mean([of(x) for x in found]) for name, of in CONSTRAINT.items()},
        },
    )


def _update_length(result: Result) -> int:
    return int(result.record["step"][0] // result.record["updates"][0])


def _among_active(record: records.Record, name: str) -> float | None:
    flag = "constraint_active"
    return records.mean_metric(record, name, among=flag) if flag in record else None


def _mean(values: Sequence[float | None]) -> float | None:
    """Over the runs that have the value: a constraint that was never active has no step."""
    known = [v for v in values if v is not None and np.isfinite(v)]
    return float(np.mean(known)) if known else None


def _check(results: Sequence[Result], groups: Mapping[str, list[Result]]) -> int:
    """Raise InputError unless the runs can be compared; returns their length in steps."""
    finished = finished_runs(results)
    if not finished:
        ended = f"{len(results)} failed" if results else "none has ended"
        raise InputError(f"no finished run to compare: {ended}")
    comparable.check_env(results)
    for field in ("trace", "scale"):
        same("runs", field, [getattr(r.job, field) for r in results])
    lengths = [r.job.steps for r in results]
    # Each is rounded down to whole updates, and agents differ in the length of theirs.
    if max(lengths) - min(lengths) >= max(map(_update_length, finished)):
        same("runs", "steps", lengths)
    for label, members in groups.items():
        seeds = [r.job.seed for r in members]
        if len(set(seeds)) < len(seeds):
            twice = sorted({s for s in seeds if seeds.count(s) > 1})
            raise InputError(f"two runs of {label!r} with seed {twice[0]}: give each run once")
        for field in ("config", "training"):
            same(f"runs of {label!r}", field, [getattr(r.job, field) for r in members])
    return max(lengths)


def _notes(
    summary: Summary, groups: Mapping[str, list[Result]], rows: Sequence[AgentRow]
) -> list[str]:
    everyone = [r for members in groups.values() for r in members]
    notes = ["no episode ended: rewards are means per step"] if summary.endless else []
    notes += [
        f"{agent}: not run here but imported, made by {code}"
        for agent, code in imported_agents(everyone).items()
    ]
    for (label, members), row in zip(groups.items(), rows, strict=True):
        training = members[0].job.training
        if training:
            before = f"{short_count(training['steps'])} steps from random starts on the trace"
            notes.append(f"{label}: trained on {before}; here it only acts")
        failures = [_failure(r) for r in members if r.status != "finished"]
        if failures:
            more = f", and {len(failures) - 3} more" if len(failures) > 3 else ""
            notes.append(f"{label}: failed: {', '.join(failures[:3])}{more}")
        active = row.measured["activity"]
        if isinstance(active, float) and active < RARE:
            share = f"{100 * active:.1f} %"
            notes.append(f"{label}: constraint active in {share} of updates: as good as never")
        if row.finished and np.isnan(row.after_warmup.mean):
            notes.append(f"{label}: a run in which no episode ended after the warm-up")
    few = [row.label for row in rows if 0 < row.finished < stats.FEWEST]
    if few:
        who = "" if len(few) == len(rows) else f": {', '.join(few)}"
        notes.append(f"fewer than {stats.FEWEST} seeds have no interval{who}")
    if any(row.failed for row in rows):
        notes.append("failed runs: not in the means; worse than all others in P(better)")
    if summary.memory is not None:
        longest = max(map(_update_length, finished_runs(everyone)))
        for name, note in memory_notes(summary.memory, longest).items():
            values = [row.measured[name] for row in rows]
            if any(isinstance(x, Estimate) and not np.isnan(x.mean) for x in values):
                notes.append(note)
    # An imported run may not name its device.
    devices = {str(r.provenance["device"]) for r in everyone if r.provenance.get("device")}
    if len(devices) > 1:
        notes.append(f"seconds are of different devices: {', '.join(sorted(devices))}")
    return notes


def _failure(result: Result) -> str:
    seed, what = f"seed {result.job.seed}", result.failure
    if not what:
        return seed
    where = " of the training" if what.get("phase") == "training" else ""
    return f"{seed} at step {what['step']:,}{where} ({what['quantity']} = {what['value']})"

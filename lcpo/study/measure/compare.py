"""From finished runs to numbers: one row per agent, over its seeds. `report` writes them down.

Every seed counts. A failed run has no return and is left out of the means, but the table says so,
and in the probability of improvement it is worse than every run that finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.advice.calibrate import RARE
from lcpo.study.measure import stats
from lcpo.study.measure.measures import Measure, measures_of
from lcpo.study.measure.memory import Memory, find_memory, memory_notes, memory_numbers
from lcpo.study.measure.stats import Estimate
from lcpo.study.report.imports import imported_agents, imported_notes
from lcpo.study.report.tables import short_count
from lcpo.values import whole

PAPER_WARMUP = 6_000_000


class AgentRow(NamedTuple):
    """An agent (with a config) over its seeds."""

    label: str
    finished: int
    failed: int
    missing: int
    """Seeds that other agents have and that have not ended here."""
    after_warmup: Estimate
    whole_run: Estimate
    difference: Estimate | None
    """Of the return after warm-up to the reference's, by seed; None for the reference."""
    improvement: Estimate | None
    """Probability that a run's return after warm-up exceeds the reference's with that seed."""
    seconds: float
    measured: Mapping[str, Estimate | float | None]
    """What its trace (`MEMORY`), its constraint (`CONSTRAINT`) and its task (`Measure`) have beside
    returns, by name; None: it cannot be had."""


class Summary(NamedTuple):
    """Agents side by side on one environment and trace."""

    env: str
    trace: str | None
    steps: int
    warmup: int
    reference: str
    rows: tuple[AgentRow, ...]
    notes: tuple[str, ...]
    memory: Memory | None
    """Where runs show what they remember; None: the trace has no schedule."""
    endless: bool = False
    """No run had an episode that ended: returns are mean rewards per step."""
    measures: Sequence[Measure] = ()
    """Of the task itself."""


MEMORY = ("revisits", "forgetting", "recovery", "distance")
"""What runs show of their memory (`lcpo.study.measure.memory`), with intervals over seeds."""
CONSTRAINT: Mapping[str, Callable[[records.Record], float | None]] = {
    "activity": records.activity,
    "step_fraction": lambda record: _among_active(record, "step_fraction"),
    "anchor_kl": lambda record: _among_active(record, "anchor_kl"),
}
"""Of an agent with a constraint, as means: the share of updates in which it was active; among them,
the share of the full step that the line search accepted, and the KL on the anchors after it."""


def summarise(
    results: Sequence[Result], warmup: int | None = None, reference: str | None = None
) -> Summary:
    """Compare the agents of `results`, all on one environment and trace.

    `warmup`: steps left out of the return after warm-up; None: see `default_warmup`. `reference`:
    the agent, as the table calls it, that the others are compared with; None: the first.
    """
    groups = group(results)
    steps = _check(results, groups)
    check_warmup(warmup, [r.job for r in results])
    warmup = default_warmup(steps, results[0].job.trace) if warmup is None else warmup
    reference = next(iter(groups)) if reference is None else reference
    if reference not in groups:
        raise InputError(unknown("reference", reference, groups))
    job = results[0].job
    shortest = min(map(_update_length, finished_runs(results)))
    level = [r.record for r in finished_runs(groups[reference])]
    memory = find_memory(results[0], steps, shortest, level)
    seeds = {r.job.seed for r in results}
    endless = is_endless(results)
    rows = tuple(
        _row(label, members, groups[reference], seeds, warmup, memory, endless)
        for label, members in groups.items()
    )
    notes = tuple(_notes(groups, rows, memory, endless))
    return Summary(
        job.env, job.trace_name, steps, warmup, reference, rows, notes, memory, endless,
        measures_of(job),
    )  # fmt: skip


def check_warmup(warmup: int | None, jobs: Sequence[Job]) -> None:
    """Raise InputError unless the runs last longer than the warm-up; called before they start."""
    steps = max(job.steps for job in jobs)
    if warmup is not None and whole("warm-up", warmup, 0) >= steps:
        raise InputError(f"warm-up = {warmup:,} steps: needs 0 to {steps - 1:,}, the run's length")


def default_warmup(steps: int, trace: TraceRef | None = None) -> int:
    """The paper's 6 million steps where the run is longer, else a tenth of the run.

    On a trace that is played faster, as much fewer: 300,000 on `3@1/20`.
    """
    paper = int(PAPER_WARMUP * (trace.fraction if trace else 1))
    return paper if steps > paper else steps // 10


def group(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The runs of each agent: those that differ in the seed only, under a short label."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.job.label, []).append(result)
    return groups


def _row(
    label: str,
    members: list[Result],
    reference: list[Result],
    seeds: set[int],
    warmup: int,
    memory: Memory | None,
    endless: bool,
) -> AgentRow:
    finished = finished_runs(members)
    found = [r.record for r in finished]
    own, other = (_returns(runs, warmup, endless) for runs in (members, reference))
    compared = members is not reference
    kept = [] if memory is None else [memory_numbers(x, memory) for x in found]

    def remembered(name: str) -> Estimate | None:
        return stats.mean_ci([x[name] for x in kept]) if kept and name in kept[0] else None

    return AgentRow(
        label=label,
        finished=len(finished),
        failed=len(members) - len(finished),
        missing=len(seeds) - len(members),
        after_warmup=stats.mean_ci(list(own.values())),
        whole_run=stats.mean_ci(list(_returns(members, 0, endless).values())),
        difference=stats.paired_difference(own, other) if compared else None,
        improvement=_improvement(members, own, reference, other) if compared else None,
        seconds=float(np.mean([r.seconds for r in finished])) if finished else stats.NAN,
        measured={
            **{m.name: m.estimate(found, warmup) for m in measures_of(members[0].job)},
            **{name: remembered(name) for name in MEMORY},
            **{name: _mean([of(x) for x in found]) for name, of in CONSTRAINT.items()},
        },
    )


def is_endless(results: Sequence[Result]) -> bool:
    """Whether no episode ended in any of the runs: then what counts is the reward per step."""
    return not any(r.record["epochs"].any() for r in finished_runs(results))


def run_return(record: records.Record, warmup: int, endless: bool) -> float:
    """Of a run after its warm-up; mean reward per step where there are no episodes."""
    measure = records.mean_reward if endless else records.lifelong_return
    return measure(record, warmup)


def _returns(members: Sequence[Result], warmup: int, endless: bool) -> dict[int, float]:
    finished = finished_runs(members)
    return {r.job.seed: run_return(r.record, warmup, endless) for r in finished}


def _improvement(
    members: list[Result], own: dict[int, float], reference: list[Result], other: dict[int, float]
) -> Estimate:
    """By seed, with failed runs, worse than all others; a seed that one side lacks is left out."""
    a = {r.job.seed: own.get(r.job.seed, -np.inf) for r in members}
    b = {r.job.seed: other.get(r.job.seed, -np.inf) for r in reference}
    return stats.probability_of_improvement(a, b)


def finished_runs(results: Sequence[Result]) -> list[Result]:
    """Without the failed ones."""
    return [r for r in results if r.status == "finished"]


def _update_length(result: Result) -> int:
    """Steps per update."""
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
    for field in ("env", "trace", "scale"):
        _same("runs", field, [getattr(r.job, field) for r in results])
    told = [r.job.env_config for r in results]
    if imported_agents(results):  # of an environment that is not ours, they tell some fields only
        shared = set(told[0]).intersection(*told)
        told = [{name: values[name] for name in shared} for values in told]
    _same("runs", "env_config", told)
    lengths = [r.job.steps for r in results]
    # Each is rounded down to whole updates, and agents differ in the length of theirs.
    if max(lengths) - min(lengths) >= max(map(_update_length, finished)):
        _same("runs", "steps", lengths)
    for label, members in groups.items():
        seeds = [r.job.seed for r in members]
        if len(set(seeds)) < len(seeds):
            twice = sorted({s for s in seeds if seeds.count(s) > 1})
            raise InputError(f"two runs of {label!r} with seed {twice[0]}: give each run once")
        _same(f"runs of {label!r}", "config", [r.job.config for r in members])
        _same(f"runs of {label!r}", "training", [r.job.training for r in members])
    return max(lengths)


def _same(what: str, field: str, values: Sequence[Any]) -> None:
    """Raise InputError that names the field, or the entry of it, in which the values differ."""
    if all(value == values[0] for value in values):
        return
    if isinstance(values[0], dict):
        for name in sorted(set().union(*values)):
            _same(what, f"{field}.{name}", [value.get(name) for value in values])
    found = ", ".join(dict.fromkeys(repr(value) for value in values))
    raise InputError(f"{what} differ in {field} ({found}): compare those that agree in it")


def _notes(
    groups: Mapping[str, list[Result]],
    rows: Sequence[AgentRow],
    memory: Memory | None,
    endless: bool,
) -> list[str]:
    """What the numbers do not tell."""
    notes = ["no episode ended: rewards are means per step"] if endless else []
    notes += imported_notes(r for members in groups.values() for r in members)
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
    if memory is not None:
        longest = max(map(_update_length, finished_runs([r for g in groups.values() for r in g])))
        told = memory_notes(memory, longest).items()
        notes += [n for name, n in told if any(_is_known(r.measured[name]) for r in rows)]
    everyone = [r for members in groups.values() for r in members]
    # An imported run does not say which it was.
    devices = {str(r.provenance["device"]) for r in everyone if r.provenance.get("device")}
    if len(devices) > 1:
        notes.append(f"seconds are of different devices: {', '.join(sorted(devices))}")
    return notes


def _is_known(value: Estimate | float | None) -> bool:
    return isinstance(value, Estimate) and not np.isnan(value.mean)


def _failure(result: Result) -> str:
    what = result.failure
    if not what:
        return f"seed {result.job.seed}"
    where = " of the training" if what.get("phase") == "training" else ""
    why = f"{what['quantity']} = {what['value']}"
    return f"seed {result.job.seed} at step {what['step']:,}{where} ({why})"

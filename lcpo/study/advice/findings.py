"""Warnings about runs, printed before they start or below their table.

LCPO's constraint may not fit the trace. With too large a sigma it never acts. With a sigma below
the noise of the context within a rollout, the present counts as the past, and the policy is
anchored where it should learn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from lcpo.agents import find_agent
from lcpo.core import ood, scales
from lcpo.envs import ENVS
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.notes import exploration_notes
from lcpo.run.store import record
from lcpo.run.store.results import Result
from lcpo.study.advice import calibrate, examine
from lcpo.study.advice.calibrate import RARE
from lcpo.study.advice.seen import lookback_of, rows_of
from lcpo.study.commands import calibrate_command

PLAYED = 20
"""Rollouts of an environment that are played to find the noise of its context."""


def run_findings(results: Sequence[Result]) -> list[str]:
    """A line for each finding: the constraint, mostly random actions, inputs out of scale."""
    ours = [result for result in results if "rollout_length" in result.job.config]
    explored = exploration_notes([result.job for result in ours])
    return [*_constraint_warnings(results), *explored, *_scale_findings(ours)]


def plan_warnings(jobs: Sequence[Job]) -> list[str]:
    """What is known before training: a sigma below the noise of a file."""
    variants = {job.label: job for job in jobs}
    return [
        f"{label}: {text}"
        for label, job in variants.items()
        if job.trace is not None and job.trace.is_file and (text := _noise_warning(job))
    ]


def _constraint_warnings(results: Sequence[Result]) -> list[str]:
    """A warning for every LCPO variant whose constraint (almost) never acts, or acts on noise."""
    warnings: dict[str, str | None] = {}
    for result in results:
        label, active = result.job.label, record.activity(result.record)
        if active is None or warnings.get(label):
            continue
        if active >= RARE and label in warnings:  # the noise is the same with every seed
            continue
        with contextlib.suppress(InputError):  # a file that has changed since, or is gone
            warnings[label] = _of_run(result.job, active)
    return [f"{label}: {text}" for label, text in warnings.items() if text]


def _of_run(job: Job, active: float) -> str | None:
    if Setup(job).env.spec.context.size == 0:
        return None
    if active >= RARE:
        return _noise_warning(job)
    share = f"active in {100 * active:.1f} % of updates"
    if job.trace is None:
        return f"{share}: choose a smaller sigma: {calibrate_command(job)}"
    rows, lookback = rows_of(job), lookback_of(job)
    if len(rows) < 2 * lookback.rollout_length or not _is_l2(job):
        return share
    found = calibrate.calibrate(rows, lookback=lookback)
    return calibrate.inactivity_warning(found, job.config["sigma"], active)


def _noise_warning(job: Job) -> str | None:
    """The warning where sigma is below the distances of contexts within a rollout."""
    if not _is_l2(job) or Setup(job).env.advance == "episode":
        return None
    lookback, sigma = lookback_of(job), job.config["sigma"]
    is_own = job.trace is None
    rows = _played(job, lookback.rollout_length) if is_own else rows_of(job)
    if len(rows) < 2 * lookback.rollout_length:
        return None
    noise = calibrate.noise(rows, lookback)
    if sigma >= noise:
        return None
    if is_own:
        try_it = f"choose a larger one: {calibrate_command(job)}"
    else:
        suggested = calibrate.calibrate(rows, lookback=lookback).suggested
        try_it = calibrate.ALIKE if suggested is None else f"try sigma = {suggested:g}"
    return (
        f"sigma = {sigma:g} lies below the noise of the context within a rollout ({noise:.2g}): "
        f"new contexts count as past ones, and the policy is held in place there; {try_it}"
    )


def _played(job: Job, rollout_length: int) -> np.ndarray:
    """Contexts of an environment that makes its own: a play of at most a twentieth of the run."""
    try:
        return rows_of(job, min(PLAYED * rollout_length, job.steps // 20))
    except Exception:  # it has run before: a failure now is not what was asked
        return np.empty((0, 1))


def _is_l2(job: Job) -> bool:
    """Whether an agent uses the detector that `calibrate` simulates."""
    has_sigma = {"sigma", "detector"} <= job.config.keys()
    return has_sigma and ood.find_detector(job.config["detector"]).distance is ood.l2


def _scale_findings(results: Sequence[Result]) -> list[str]:
    """Observations and contexts of sizes that networks do not learn from, with what to do."""
    found = {}
    for result in results:
        job = result.job
        world = (job.env, str(job.env_config), job.trace, job.scale)
        if world in found or find_agent(job.agent).raw:
            continue
        found[world] = [*context_findings(job), *_of_state(result)]
    return list(dict.fromkeys(line for lines in found.values() for line in lines))


def context_findings(job: Job) -> list[str]:
    """Scale of the rows of the trace, as the agent saw them.

    There is one factor for all channels, so a small channel next to larger ones is not reported.
    """
    if job.trace is None:
        return []
    rows = rows_of(job)
    columns, largest = scales.out_of_scale(rows), scales.root_mean_square(rows).max(initial=0.0)
    if not columns or (largest <= scales.LARGE and np.abs(rows).max() >= scales.TINY):
        return []
    factor = job.scale * 10.0 ** -np.round(np.log10(largest))
    return [
        f"context channel {scales.ranges(rows, columns)} of trace {job.trace} is out of scale: "
        f"multiply the trace, as with --scale {factor:g} (and sigma with it)"
    ]


def _of_state(result: Result) -> list[str]:
    """A run records its largest entry only; where that is odd, a short play finds the entries.

    Environments of this library are not played: they are as they were published.
    """
    job, largest = result.job, float(np.mean(result.record["largest_obs"]))
    if job.env in ENVS or job.normalise or scales.TINY < largest < scales.LARGE:
        return []
    text = examine.scale_finding(Setup(job).env)
    return [f"{job.env}: {text}"] if text else []

"""Does LCPO's constraint do what it should? Warnings for a sigma that does not fit the trace.

One that is too large never acts. One below the noise of the context within a rollout takes the
present for the past, and anchors what should be learned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from lcpo.core import ood
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store import record
from lcpo.run.store.results import Result
from lcpo.study.advice import calibrate
from lcpo.study.advice.calibrate import RARE, Lookback


def run_warnings(results: Sequence[Result]) -> list[str]:
    """A warning for every LCPO variant whose constraint (almost) never acts, or acts on noise."""
    warnings: dict[str, str | None] = {}
    for result in results:
        label, active = result.job.label, record.activity(result.record)
        if active is not None and warnings.get(label) is None:
            with contextlib.suppress(InputError):  # a file that has changed since, or is gone
                warnings[label] = _of_run(result.job, active)
    return [f"{label}: {text}" for label, text in warnings.items() if text]


def plan_warnings(jobs: Sequence[Job]) -> list[str]:
    """The same before any work, where that is possible: a sigma below the noise of a file."""
    variants = {job.label: job for job in jobs}
    return [
        f"{label}: {text}"
        for label, job in variants.items()
        if job.trace is not None and job.trace.is_file and (text := _noise_warning(job))
    ]


def _of_run(job: Job, active: float) -> str | None:
    if job.trace is None:
        return None
    if active >= RARE:
        return _noise_warning(job)
    rows, lookback = _rows(job), _lookback(job)
    if len(rows) < 2 * lookback.rollout_length or not _is_l2(job):
        return f"active in {100 * active:.1f} % of updates"
    found = calibrate.calibrate(rows, lookback=lookback)
    return calibrate.inactivity_warning(found, job.config["sigma"], active)


def _noise_warning(job: Job) -> str | None:
    """The warning where sigma is below the distances of contexts within a rollout."""
    if not _is_l2(job) or Setup(job).env.advance != "step":
        return None
    rows, lookback, sigma = _rows(job), _lookback(job), job.config["sigma"]
    if len(rows) < 2 * lookback.rollout_length:
        return None
    noise = calibrate.noise(rows, lookback)
    if sigma >= noise:
        return None
    suggested = calibrate.calibrate(rows, lookback=lookback).suggested
    try_it = calibrate.ALIKE if suggested is None else f"try sigma = {suggested:g}"
    return (
        f"sigma = {sigma:g} lies below the noise of the context within a rollout ({noise:.2g}): "
        f"new contexts count as past ones, and the policy is held in place there; {try_it}"
    )


def _is_l2(job: Job) -> bool:
    """Whether an agent uses the detector that `calibrate` simulates."""
    has_sigma = {"sigma", "detector"} <= job.config.keys()
    return has_sigma and ood.find_detector(job.config["detector"]).distance is ood.l2


def _rows(job: Job) -> np.ndarray:
    return Setup(job).trace()[: job.steps]


def _lookback(job: Job) -> Lookback:
    size, rounds = job.config.get("buffer_size"), job.config.get("sampling_rounds")
    lags = Setup(job).env.spec.context.lags
    return Lookback(job.config["rollout_length"], lags, size, rounds or Lookback().rounds)

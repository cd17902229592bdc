"""What is odd about runs that have ended, beside what they returned: told below their table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lcpo.agents import find_agent
from lcpo.core import scales
from lcpo.envs import ENVS
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.notes import exploration_notes
from lcpo.run.store.results import Result
from lcpo.study.advice import examine


def run_findings(results: Sequence[Result]) -> list[str]:
    """A line for each: actions that were mostly random, observations or contexts out of scale."""
    ours = [result for result in results if "rollout_length" in result.job.config]
    return [*exploration_notes([result.job for result in ours]), *scale_findings(ours)]


def scale_findings(results: Sequence[Result]) -> list[str]:
    """Observations and contexts of sizes that networks do not learn from, with what to do."""
    found = {}
    for result in results:
        job = result.job
        world = (job.env, str(job.env_config), job.trace, job.scale)
        if world in found or find_agent(job.agent).raw:
            continue
        found[world] = [*_of_context(job), *_of_state(result)]
    return list(dict.fromkeys(line for lines in found.values() for line in lines))


def _of_context(job: Job) -> list[str]:
    """Of the rows of the trace, as the agent saw them.

    There is one factor for all channels, so that a small one beside others is no fault of it.
    """
    if job.trace is None:
        return []
    rows = Setup(job).trace()[: job.steps]
    columns, largest = scales.out_of_scale(rows), scales.root_mean_square(rows).max(initial=0.0)
    if not columns or scales.TINY <= largest <= scales.LARGE:
        return []
    factor = job.scale * 10.0 ** -np.round(np.log10(largest))
    return [
        f"context channel {scales.ranges(rows, columns)} of trace {job.trace} is out of scale: "
        f"multiply the trace, as with --scale {factor:g} (and sigma with it)"
    ]


def _of_state(result: Result) -> list[str]:
    """A run records its largest entry only; where that is odd, a short play tells which they are.

    Environments of this library are not played: they are as they were published.
    """
    job, largest = result.job, float(np.mean(result.record["largest_obs"]))
    if job.env in ENVS or job.normalise or scales.TINY < largest < scales.LARGE:
        return []
    text = examine.scale_finding(Setup(job).env)
    return [f"{job.env}: {text}"] if text else []

"""Statistics of runs: intervals, aggregates over tasks, comparisons of agents. docs/statistics.md.

intervals   of few seeds on one trace: Student's, and of a share (`lcpo.core.intervals`)
bootstrap   over tasks and their seeds: resampled intervals, profiles, improvement
scores      what is resampled: inter-quartile mean and others; returns on a common scale

NaN is an unavailable number and propagates, so that a failed run is never dropped silently: drop it
and say so, or, where only the order counts, pass -inf. Fewer than three values have NaN bounds.
"""

from lcpo.core.intervals import (
    FEWEST,
    NAN,
    Estimate,
    half_width,
    mean_ci,
    paired_difference,
    probability_of_improvement,
    share_bounds,
)
from lcpo.study.measure.stats.bootstrap import (
    PerformanceProfile,
    hierarchical_ci,
    hierarchical_difference,
    improvement_over_tasks,
    performance_profile,
    stratified_ci,
)
from lcpo.study.measure.stats.scores import aggregate, bounds, iqm, normalised

__all__ = [
    "FEWEST", "NAN", "Estimate", "PerformanceProfile", "aggregate", "bounds", "half_width",
    "hierarchical_ci",
    "hierarchical_difference", "improvement_over_tasks", "iqm", "mean_ci", "normalised",
    "paired_difference", "performance_profile", "probability_of_improvement", "share_bounds",
    "stratified_ci",
]  # fmt: skip

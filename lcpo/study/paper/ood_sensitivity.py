"""The paper's table and Figure 3b on the threshold beyond which a context is OOD.

LCPO with five thresholds of the Euclidean distance of contexts, and with two of the Mahalanobis
distance of whole observations, in every windy environment with every trace.
"""

from __future__ import annotations

import dataclasses

from lcpo.study.cases import Case, choose
from lcpo.study.paper.columns import ColumnOptions, column_study
from lcpo.study.paper.normalised import table_and_figure

WHOLE = {"detector": "mahalanobis-full"}
# The paper's names of the columns are squares.
CASES = [
    *(Case("lcpo", f"sigma2={x:g}", {"sigma": x**0.5}) for x in (0.25, 0.5, 1.0, 2.0, 4.0)),
    *(Case("lcpo", f"mhd2={x:g}", {"sigma": x**0.5, **WHOLE}) for x in (6.0, 12.0)),
]


@dataclasses.dataclass(frozen=True)
class SensitivityOptions(ColumnOptions):
    """Options of the study."""

    agents: str | None = None
    """Thresholds, separated by commas: sigma2=0.25, ... mhd2=12; default: the paper's seven."""


study = column_study(
    "Table 'gym_sigma_all' and Figure 3b: LCPO by its OOD threshold, next to the paper's",
    SensitivityOptions,
    lambda options: choose(CASES, options.agents),
    paper="gym-sigma",
    more=table_and_figure,
)

"""The paper's table of LCPO-P: a penalty on the anchors instead of a constraint, on the Pendulum.

Compared with LCPO and the paper's best baselines.
"""

from __future__ import annotations

import dataclasses

from lcpo.study.cases import agent_cases
from lcpo.study.paper.columns import PendulumOptions, column_study


@dataclasses.dataclass(frozen=True)
class VariantOptions(PendulumOptions):
    """Options of the study."""

    agents: str = "lcpo,lcpo-p,a2c,clear"
    """Agents, separated by commas."""


study = column_study(
    "Table 'windypend_lcpo_vars': LCPO-P on the Pendulum, next to the paper's",
    VariantOptions,
    lambda options: agent_cases(options.agents),
    paper="lcpo-variants",
)

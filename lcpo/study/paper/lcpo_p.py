"""The paper's table of LCPO-P: a penalty on the anchors instead of a constraint, on the Pendulum.

Beside LCPO, and the baselines that were the paper's best ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import returns
from lcpo.study.paper.pendulum import PendulumOptions, plan_pendulum
from lcpo.study.study import Report, Study, listed

TABLE = "lcpo-variants"


@dataclasses.dataclass(frozen=True)
class VariantOptions(PendulumOptions):
    """Options of the study."""

    agents: str = "lcpo,lcpo-p,a2c,clear"
    """Agents, separated by commas."""


def plan_runs(options: VariantOptions) -> list[Job]:
    """Every agent with every trace and seed."""
    return plan_pendulum(options, listed("agents", options.agents))


def make_report(options: VariantOptions, results: Sequence[Result]) -> Report:
    """The table."""
    parts = returns.split_parts(results)
    table = returns.cells_table(parts, returns.agent_columns(options.agents), TABLE)
    return Report(returns.part_seeds(parts, results), tables={"table": table})


study = Study(
    "Table 'windypend_lcpo_vars': LCPO-P on the Pendulum, beside the paper's",
    VariantOptions,
    plan_runs,
    make_report,
)

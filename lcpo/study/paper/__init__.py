"""The experiments of the paper, and controls, one file each; `lcpo reproduce NAME` runs one."""

from __future__ import annotations

from typing import Any

from lcpo.study.paper import (
    anchors,
    baselines,
    discretisation,
    ewc,
    faults,
    grid_world,
    ideal_mbpo,
    ood_vs_cpd,
    prescient,
    replay_rate,
    rivals,
    straggler,
    theorem,
    two_by_two,
    workloads,
)
from lcpo.study.study import Study

STUDIES: dict[str, Study[Any]] = {
    "grid-world": grid_world.study,
    "baselines": baselines.study,
    "replay-rate": replay_rate.study,
    "ideal-mbpo": ideal_mbpo.study,
    "discretisation": discretisation.study,
    "prescient": prescient.study,
    "ewc": ewc.study,
    "theorem": theorem.study,
    "ood-vs-cpd": ood_vs_cpd.study,
    "workloads": workloads.study,
    "straggler": straggler.study,
    "anchors": anchors.study,
    "rivals": rivals.study,
    "two-by-two": two_by_two.study,
    "faults": faults.study,
}

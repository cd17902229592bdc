"""The experiments of the paper, and controls, one file each; `lcpo reproduce NAME` runs one."""

from __future__ import annotations

from typing import Any

from lcpo.study.controls import anchors, faults, replay_rate, rivals, theorem, two_by_two
from lcpo.study.paper import (
    buffer_size,
    discretisation,
    ewc,
    grid_world,
    ideal_mbpo,
    lcpo_p,
    ood_sensitivity,
    ood_vs_cpd,
    runtime,
    straggler,
    traces,
    windy,
    workloads,
)
from lcpo.study.study import Study

STUDIES: dict[str, Study[Any]] = {
    "grid-world": grid_world.study,
    "ood-vs-cpd": ood_vs_cpd.study,
    "windy": windy.study,
    "ood-sensitivity": ood_sensitivity.study,
    "buffer-size": buffer_size.study,
    "straggler": straggler.study,
    "ewc": ewc.study,
    "ideal-mbpo": ideal_mbpo.study,
    "lcpo-p": lcpo_p.study,
    "discretisation": discretisation.study,
    "runtime": runtime.study,
    "traces": traces.study,
    "workloads": workloads.study,
    "theorem": theorem.study,
    "replay-rate": replay_rate.study,
    "two-by-two": two_by_two.study,
    "anchors": anchors.study,
    "rivals": rivals.study,
    "faults": faults.study,
}
"""In the order of the paper; last those that it lacks."""

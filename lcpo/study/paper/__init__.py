"""The experiments of the paper, and controls, one file each; `lcpo reproduce NAME` runs one."""

from __future__ import annotations

from typing import Any

from lcpo.names import Registry
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
    traces,
    windy,
)
from lcpo.study.study import Study

STUDIES: Registry[Study[Any]] = Registry(
    {
        "grid-world": grid_world.study,
        "ood-vs-cpd": ood_vs_cpd.study,
        "windy": windy.study,
        "ood-sensitivity": ood_sensitivity.study,
        "buffer-size": buffer_size.study,
        "straggler": "lcpo.straggler.study:study",
        "ewc": ewc.study,
        "ideal-mbpo": ideal_mbpo.study,
        "lcpo-p": lcpo_p.study,
        "discretisation": discretisation.study,
        "runtime": runtime.study,
        "traces": traces.study,
        "workloads": "lcpo.straggler.twins:study",
        "theorem": theorem.study,
        "replay-rate": replay_rate.study,
        "two-by-two": two_by_two.study,
        "anchors": anchors.study,
        "rivals": rivals.study,
        "faults": faults.study,
    }
)
"""In the order of the paper; last those that it lacks."""

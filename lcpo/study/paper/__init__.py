"""The experiments of the paper, and controls, one file each; `lcpo reproduce NAME` runs one."""

from __future__ import annotations

from typing import Any

from lcpo import names
from lcpo.errors import InputError
from lcpo.study.study import Study

STUDIES: names.Registry[Study[Any]] = names.Registry(
    {
        "grid-world": "lcpo.study.paper.grid_world:study",
        "ood-vs-cpd": "lcpo.study.paper.ood_vs_cpd:study",
        "windy": "lcpo.study.paper.windy:study",
        "ood-sensitivity": "lcpo.study.paper.ood_sensitivity:study",
        "buffer-size": "lcpo.study.paper.buffer_size:study",
        "straggler": "lcpo.straggler.study:study",
        "ewc": "lcpo.study.paper.ewc:study",
        "ideal-mbpo": "lcpo.study.paper.ideal_mbpo:study",
        "lcpo-p": "lcpo.study.paper.lcpo_p:study",
        "discretisation": "lcpo.study.paper.discretisation:study",
        "runtime": "lcpo.study.paper.runtime:study",
        "traces": "lcpo.study.paper.traces:study",
        "workloads": "lcpo.straggler.twins:study",
        "theorem": "lcpo.study.controls.theorem:study",
        "replay-rate": "lcpo.study.controls.replay_rate:study",
        "two-by-two": "lcpo.study.controls.two_by_two:study",
        "anchors": "lcpo.study.controls.anchors:study",
        "rivals": "lcpo.study.controls.rivals:study",
        "plus": "lcpo.study.controls.plus:study",
        "faults": "lcpo.study.controls.faults:study",
    }
)
"""In the order of the paper; last those that it lacks. A study is imported when it is asked for."""


def find_study(name: str) -> Study[Any]:
    """A study by name, or a user's own as 'package.module:study'."""
    found = names.find("experiment", name, STUDIES)
    if not isinstance(found, Study):
        raise InputError(f"{name} is a {type(found).__name__}: needs an lcpo.study.study.Study")
    return found

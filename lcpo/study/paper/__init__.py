"""The experiments of the paper, one file each; `lcpo reproduce NAME` runs one."""

from __future__ import annotations

from typing import Any

from lcpo.study.paper import discretisation, grid_world, prescient, theorem
from lcpo.study.study import Study

STUDIES: dict[str, Study[Any]] = {
    "grid-world": grid_world.study,
    "discretisation": discretisation.study,
    "prescient": prescient.study,
    "theorem": theorem.study,
}

"""What each part of LCPO+ contributes, on drawn traces. Not in the paper.

LCPO+ without each part, and LCPO on the whole past (`lcpo-uniform`) with each part alone. A case
without the shrinking limit has the constant limit that is best for LCPO with a constant one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcpo.study.cases import Case
from lcpo.study.controls import drawn_tables
from lcpo.study.controls.drawn import DrawnRun, Key, drawn_study
from lcpo.study.report.tables import Table

PARTS: dict[str, dict[str, Any]] = {
    "critic": {"w_v": 0.0},
    "actor": {"w_pi": 0.0},
    "limit": {"c_0": 0.0, "c_anchor": 1e-3},
    "floor": {"entropy_floor": False},
    "value-steps": {"value_steps": 1},
    "iterations": {"cg_iterations": 15},
}
"""The parts, and the values without them."""
OFF: dict[str, Any] = {
    **{name: value for part in PARTS.values() for name, value in part.items()}, "c_anchor": 1e-4,
}  # fmt: skip
"""Values without any part: `lcpo-uniform`."""
ALONE = ("critic", "actor", "limit", "floor")
WORDS = {
    "critic": "critic rehearsal",
    "actor": "actor rehearsal",
    "limit": "shrinking limit",
    "floor": "entropy floor",
    "value-steps": "five value steps",
    "iterations": "8 instead of 15 iterations",
}
FULL = Case("lcpo-plus")


def alone(part: str) -> Case:
    """LCPO on the whole past, with the limit of the paper, and one part of LCPO+."""
    others = {name: value for name, value in OFF.items() if name not in PARTS[part]}
    return Case("lcpo-plus", f"{part}-alone", others)


CASES = [
    FULL,
    *(Case("lcpo-plus", f"without-{part}", values) for part, values in PARTS.items()),
    Case("lcpo-plus-ood"),
    *map(alone, ALONE),
    Case("lcpo-uniform"),
]
DESCRIBED = {
    "": "all",
    **{f"without-{part}": f"all but {words}" for part, words in WORDS.items()},
    **{f"{part}-alone": f"{WORDS[part]} alone" for part in ALONE},
}


def summary(runs: Sequence[DrawnRun]) -> Table:
    """A row per family and case, next to LCPO+."""
    full: Key = (FULL.agent, "")
    return drawn_tables.summary(runs, ["agent", "parts"], describe, lambda key: full, "LCPO+")


def describe(key: Key) -> list[str]:
    """Agent, parts."""
    agent, case = key
    return [agent, "none" if agent == "lcpo-uniform" else DESCRIBED.get(case, case)]


HELP = "Not in the paper: LCPO+ without each of its parts, and with each alone, on drawn traces"
study = drawn_study(HELP, CASES, lambda runs: ({"table": summary(runs)}, {}))

"""What the demo takes from the simulator: the policy beside this, scales, and settings of rules."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "trained"
"""policy.npz and plan.json, as `python -m examples.hedging.train` writes them."""
POLICY = FOLDER / "policy.npz"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the demo takes from the simulator besides the policy."""

    rate_scale: float
    size_scale: float
    reward_ms: float
    fixed: int
    """The best fixed timeout, an action that hedges."""
    loads: tuple[float, ...]
    actions: tuple[int, ...]
    """The table: an action up to each load."""
    simulated: dict[str, float]
    """Mean p95 of a window in ms, of each fixed timeout, the table, and the policy."""


def load_plan(folder: Path = FOLDER) -> Plan:
    """The plan that was written with the policy."""
    return Plan(**json.loads((folder / "plan.json").read_text()))

"""What a short run of a study changes, so that a laptop sees more than exploration."""

from __future__ import annotations

from typing import Any

from lcpo.agents import find_agent

SHORT = 2_000_000
"""Shorter runs explore for a tenth of their steps: the paper's 200,000 would be most of them."""


def random_phase(agent: str, steps: int | None) -> dict[str, Any]:
    """Config values of an agent in runs of so many steps; None: of the paper's."""
    explores = hasattr(find_agent(agent).Config, "random_steps")
    if not explores or steps is None or steps >= SHORT:
        return {}
    return {"random_steps": steps // 10}

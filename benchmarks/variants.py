"""Agents that differ from ours in one thing, for docs/deviations.md: what is that thing worth?

From the root of the repository:

    lcpo compare --env probe-two-contexts --agents clear,benchmarks.variants:clear_short
"""

from __future__ import annotations

from lcpo.agents import AGENTS

_clear = AGENTS["clear"]

clear_clones_more = _clear.variant("clear-clones-more", policy_clone_coef=0.1)
clear_repels = _clear.variant("clear-repels", faults=("cloning-repels",))
clear_repels_more = clear_repels.variant("clear-repels-more", policy_clone_coef=0.1)
clear_short = _clear.variant("clear-short", buffer_size=2000)

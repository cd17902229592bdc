"""Contracts that wait for `make test-all`: of agents that are another one and something more.

What they share with it is held to the same contract in `make test`, by that other agent.
"""

from __future__ import annotations

import pytest

LATER = {
    # LCPO makes the step of A2C where it has no anchors, and TRPO's where it has; LCPO-P is PPO
    # with anchors; the others are DDQN and SAC with a memory of another kind.
    "test_vmap_over_seeds_and_traced_fields_equals_a_loop": (
        "a2c", "trpo", "ppo", "bfdqn", "pt-dqn", "online-ewc", "sliding-ogd",
    ),
    # MBPO with another model, and with several.
    "test_stopped_and_resumed_equals_never_stopped": ("ideal-mbpo", "mbcd"),
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test, _, agent = item.name.partition("[")
        if agent.removesuffix("]") in LATER.get(test, ()):
            item.add_marker(pytest.mark.learn)

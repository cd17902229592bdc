"""What every agent promises, for all agents at once."""

from __future__ import annotations

import pytest
from agent_contracts import (  # noqa: F401 - the tests, run with the `agent` of this file
    test_config_survives_json,
    test_nothing_leaks_across_an_episode_end,
    test_same_key_same_result_and_act_only_reads,
    test_stopped_and_resumed_equals_never_stopped,
    test_truncated_bootstraps_and_terminated_does_not,
    test_update_keeps_the_state_tree_and_compiles_once,
    test_vmap_over_seeds_and_traced_fields_equals_a_loop,
)

from lcpo.agents import AGENTS
from lcpo.types import AnyAgent

CORE = ("lcpo", "ddqn")
"""Agents whose every contract `make test` checks."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test for every agent; some wait for `make test-slow`.

    A variant runs the code of its parent with other values, and heavy contracts take long to
    compile.
    """
    heavy = metafunc.definition.get_closest_marker("heavy") is not None

    def waits(agent: AnyAgent) -> bool:
        return agent.parent is not None or (heavy and agent.name not in CORE)

    marks = [[pytest.mark.learn] if waits(agent) else [] for agent in AGENTS.values()]
    params = [
        pytest.param(agent, id=name, marks=m)
        for (name, agent), m in zip(AGENTS.items(), marks, strict=True)
    ]
    metafunc.parametrize("agent", params)

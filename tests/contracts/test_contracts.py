"""What every agent promises, for all agents at once."""

from __future__ import annotations

from typing import Any

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


def _case(agent: AnyAgent) -> Any:
    """A variant runs the code of its parent with other values: it waits for `make test-all`."""
    return pytest.param(agent, marks=[pytest.mark.learn] if agent.parent else [], id=agent.name)


@pytest.fixture(params=[_case(agent) for agent in AGENTS.values()])
def agent(request: pytest.FixtureRequest) -> AnyAgent:
    return request.param

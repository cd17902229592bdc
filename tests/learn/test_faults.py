"""With all published faults on, an agent still keeps its contract."""

from __future__ import annotations

import pytest
from small_agents import case_of, faults_of

from lcpo.agents import AGENTS
from lcpo.types import AnyAgent

pytestmark = pytest.mark.learn

FAULTY = [agent for agent in AGENTS.values() if agent.root is agent and faults_of(agent)]


@pytest.mark.parametrize("agent", FAULTY, ids=lambda agent: agent.name)
def test_an_agent_with_all_its_faults_keeps_the_contract(agent: AnyAgent) -> None:
    """The state's tree stays, metrics are finite, a key decides, and vmap equals a loop."""
    case = case_of(agent, faults=faults_of(agent))
    for contract in ("state", "keys", "vmap"):
        case.check(contract)

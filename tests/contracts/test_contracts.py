"""What every agent promises, for all agents at once."""

from __future__ import annotations

import functools

import pytest
from small_agents import case_of

from lcpo.agents import AGENTS
from lcpo.testing import AGENT_CONTRACTS, AgentCase
from lcpo.types import AnyAgent

CORE = ("lcpo", "ddqn")
"""Agents whose every contract `make test` checks."""
HEAVY = ("vmap", "resume")
"""Contracts that take long to compile: the other agents keep them in `make test-slow`."""
EXCEPT = {
    "mbpo": ("episode ends", "vmap"), "ideal-mbpo": ("vmap",), "mbcd": ("episode ends", "vmap"),
}  # fmt: skip
"""Their models learn from every successor (tests/agents/test_mbpo.py, test_mbcd.py). They take very
long to compile: tests/learn/test_faults.py vmaps them."""


def waits(contract: str, agent: AnyAgent) -> bool:
    """A variant runs the code of its parent with other values: it waits for `make test-slow`."""
    return agent.parent is not None or (contract in HEAVY and agent.name not in CORE)


CASES = [
    pytest.param(
        name, contract, id=f"{name}-{contract}",
        marks=[pytest.mark.learn] if waits(contract, agent) else [],
    )
    for name, agent in AGENTS.items() for contract in AGENT_CONTRACTS
    if contract not in EXCEPT.get(name, ())
]  # fmt: skip


@functools.lru_cache(maxsize=1)  # the contracts of an agent come one after another
def case(name: str) -> AgentCase:
    return case_of(AGENTS[name])


@pytest.mark.parametrize(("name", "contract"), CASES)
def test_agents_keep_their_contracts(name: str, contract: str) -> None:
    case(name).check(contract)

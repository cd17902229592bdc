"""Contract tests for agents, environments and detectors of your own.

    from lcpo import testing

    def test_my_agent():
        testing.check_agent(my_agent, hidden=(8,))

    def test_my_environment():
        testing.check_env(MyEnvironment())

    def test_my_detector():
        testing.check_detector(my_detector)

A broken contract raises `ContractError`, an AssertionError that says which contract was broken,
what was seen and what is expected. The functions work in any test runner, or without one.
"""

from lcpo.testing.agents import AGENT_CONTRACTS, AgentCase, check_agent
from lcpo.testing.contracts import ContractError
from lcpo.testing.detectors import DETECTOR_CONTRACTS, check_detector
from lcpo.testing.envs import check_env

__all__ = [
    "AGENT_CONTRACTS",
    "DETECTOR_CONTRACTS",
    "AgentCase",
    "ContractError",
    "check_agent",
    "check_detector",
    "check_env",
]

"""`lcpo.testing`: sound agents, environments and detectors pass, and every fault is named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import broken_agents
import jax.numpy as jnp
import numpy as np
import pytest
from host_examples import Drift

import lcpo
from lcpo import testing
from lcpo.core import ood
from lcpo.envs.gridworld import GridWorld
from lcpo.errors import InputError
from lcpo.testing import AgentCase, ContractError
from lcpo.types import Array, ContextSlice, Spec

DOCS = Path(__file__).parents[1] / "docs"


def test_a_sound_agent_passes() -> None:
    """It keeps something in `extra`, too."""
    testing.check_agent(broken_agents.make(), broken_agents.SPEC)


AGENTS = {
    "no length": ("shapes", "needs the static field rollout_length"),
    "real actions": ("shapes", "act returns actions float32[1, 1]: needs integers"),
    "dtype": ("shapes", "update changes the state's .weights from float32[3] to float16[3]"),
    "metric": ("shapes", "metric 'error' has shape (4, 1): needs a scalar"),
    "no json": ("config", "raised TypeError: Object of type complex is not JSON serializable"),
    "weak type": ("state", "state.updates was float32[] and became weak float32[]"),
    "nan": ("state", "metrics['odds'] is not a number after three updates"),
    "numpy's numbers": ("keys", "two traces of update differ"),
    "counter": ("keys", "two traces of update differ"),
    "no such action": ("acting", "is none of the 2 actions"),
    "acts with memory": ("acting", "raised TypeError: 'NoneType' object is not subscriptable"),
    "terminated bootstraps": ("episode ends", "another successor of a terminated step changes"),
    "truncated ends": ("episode ends", "another successor of a truncated step changes nothing"),
    "vmap": ("vmap", "run 0 differs from the same run alone"),
    "callback": ("resume", "four updates at once differ from two and two"),
    "copied memory": ("resume", "memory of shape [16] is copied in each update"),
}
"""By fault: the contract that it breaks, and what is seen."""


@pytest.mark.parametrize("fault", AGENTS)
def test_broken_agents(fault: str) -> None:
    contract, seen = AGENTS[fault]
    agent = broken_agents.make(fault)
    with pytest.raises(ContractError) as error:
        AgentCase(agent, agent.config(), broken_agents.SPEC).check(contract)
    told = str(error.value)
    assert told.startswith(f"agent {fault!r} breaks the contract {contract!r}.\n  seen: ")
    assert seen in told
    assert "\n  expected: " in told


def test_the_first_broken_contract_is_told() -> None:
    with pytest.raises(ContractError, match="breaks the contract 'config'"):
        testing.check_agent(broken_agents.make("no json"), broken_agents.SPEC)


def test_arguments_are_checked_before_anything_is_compiled() -> None:
    agent: Any = broken_agents.make()
    with pytest.raises(InputError, match="unknown contract 'shape': did you mean 'shapes'"):
        testing.check_agent(agent, skip=["shape"])
    with pytest.raises(InputError, match=r"agent = 'lcpo': needs an lcpo\.types\.Agent"):
        testing.check_agent("lcpo")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"spec is a tuple: needs lcpo\.types\.Spec"):
        testing.check_agent(agent, ())  # pyright: ignore[reportArgumentType]


class Broken(GridWorld):
    """A compiled environment that observes too much."""

    def reset(self, key: Array) -> tuple[Any, Array]:
        state, obs = super().reset(key)
        return state, jnp.append(obs, 0.0)


ENVS = {
    "nan": "step 8: obs: entry [0] of world 0 is nan: needs finite numbers",
    "neighbours": "a world behaves differently alone and next to other worlds",
    "unseeded": "the same seeds and actions gave different results: draw all random numbers from",
    "deaf": "contexts of 0 and of 1 gave the same results: step must use the context",
    "save": "worlds behaved differently after get_state and set_state: save everything",
    "flag": "terminated is float64: needs bool",
}


@pytest.mark.parametrize("fault", ENVS)
def test_broken_environments(fault: str) -> None:
    with pytest.raises(ContractError, match=re.escape(ENVS[fault])) as error:
        testing.check_env(Drift(fault=fault, at=7, length=5), num_steps=40)
    assert str(error.value).startswith("environment 'Drift' breaks ")


def test_environments_of_each_kind() -> None:
    testing.check_env(Drift(), num_steps=40)
    with pytest.raises(ContractError, match=r"reset returns obs of shape \(3,\)"):
        testing.check_env(Broken())


def test_gymnasiums_own_must_be_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    with pytest.raises(InputError, match=r"pass lcpo\.from_gymnasium\(.*, context=\.\.\.\)"):
        testing.check_env(env)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ood.DETECTORS)
def test_detectors_of_ours_keep_the_contracts(name: str) -> None:
    testing.check_detector(ood.DETECTORS[name])


def scalar(context: Any, recent: Any, data: Any) -> Any:
    return jnp.sum(data)


def numpy_only(context: Any, recent: Any, data: Any) -> Any:
    return np.linalg.norm(np.asarray(data), axis=1)


def by_rank(context: Any, recent: Any, data: Any) -> Any:
    """Compares rows with the other rows."""
    return jnp.square(data - data.mean(axis=0, keepdims=True)).sum(axis=-1)


def inverted(context: Any, recent: Any, data: Any) -> Any:
    """Mahalanobis as in textbooks: the covariance may have no inverse."""
    center = context.entries(recent).mean(axis=0, keepdims=True)
    near, away = context.entries(recent) - center, context.entries(data) - center
    return jnp.sum((away @ jnp.linalg.inv(near.T @ near)) * away, axis=-1)


def newest(context: Any, recent: Any, data: Any) -> Any:
    """The first channel, which need not be there."""
    return jnp.square(context.history(data)[:, 0, 0])


@pytest.mark.parametrize(
    ("distance", "contract", "seen"),
    [
        (scalar, "values", "gives shape []: needs [5], a number for each row of data"),
        (numpy_only, "values", "raised TracerArrayConversionError"),
        (by_rank, "rows", "a row's distance of "),
        (inverted, "constant context", "24 of 24 distances are NaN"),
        (newest, "no context", "it must be a pure function of JAX arrays"),
    ],
)
def test_broken_detectors(distance: Any, contract: str, seen: str) -> None:
    with pytest.raises(ContractError) as error:
        testing.check_detector(distance)
    told = str(error.value)
    assert f"detector {distance.__name__!r} breaks the contract {contract!r}.\n  seen: " in told
    assert seen in told


def test_a_detector_that_needs_a_context_gets_one() -> None:
    testing.check_detector(ood.Detector(newest, needs_context=True))
    plain = Spec(3, ContextSlice(3, channels=0, lags=1), (2,))
    with pytest.raises(InputError, match="needs a context, the spec has none"):
        testing.check_detector(ood.Detector(newest, needs_context=True), plain)


@pytest.mark.parametrize(
    ("page", "contracts"),
    [
        ("add_an_agent.md", testing.AGENT_CONTRACTS),
        ("add_a_detector.md", testing.DETECTOR_CONTRACTS),
    ],
)
def test_the_pages_list_the_contracts(page: str, contracts: Any) -> None:
    table = (DOCS / page).read_text().split("| contract | rule |\n|---|---|\n")[1]
    rows = re.findall(r"^\| `(.+?)` \|", table.split("\n\n")[0], re.M)
    assert rows == list(contracts)


def test_it_needs_no_pytest_and_spec_is_public() -> None:
    assert lcpo.Spec is Spec
    assert lcpo.ContextSlice is ContextSlice
    code = """
import sys
sys.modules["pytest"] = None
import lcpo
assert "jax" not in sys.modules, "import lcpo is slow"
from lcpo import ContextSlice, Spec, testing
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""A user's own agent and environment: the examples keep the contract, and the docs show them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import agent_contracts
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_contracts import (  # noqa: F401 - run again below, with the `agent` of this file
    test_config_survives_json,
    test_same_key_same_result_and_act_only_reads,
    test_stopped_and_resumed_equals_never_stopped,
    test_update_keeps_the_state_tree_and_compiles_once,
)
from small_agents import random_batch, started

from lcpo.envs.pendulum import Pendulum
from lcpo.envs.probes import Bandit
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.compiled import make_chunk, make_init
from lcpo.run.drive.rollout import load_contexts
from lcpo.run.plan.check import check_agent, check_env
from lcpo.run.plan.job import find_agent
from lcpo.run.store.record import lifelong_return
from lcpo.types import AnyAgent

ROOT = Path(__file__).parents[2]
EXAMPLES, DOCS = ROOT / "examples", ROOT / "docs"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def agent(examples: None) -> AnyAgent:
    return find_agent("reinforce:agent")


def shown(page: str) -> str:
    """The first block of Python in a page."""
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    assert found, f"{page} shows no Python"
    return found.group(1)


@pytest.mark.learn
def test_vmap_over_seeds_and_traced_fields_equals_a_loop(agent: AnyAgent) -> None:
    agent_contracts.test_vmap_over_seeds_and_traced_fields_equals_a_loop(agent)


def test_the_page_shows_the_example() -> None:
    assert shown("add_an_agent.md") == (EXAMPLES / "reinforce.py").read_text()


def test_found_from_the_root_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert find_agent("examples.reinforce:agent").name == "reinforce"


def after_ending(agent: AnyAgent, kind: str, next_obs: float) -> Any:
    """The state after a batch in whose midst an episode ends as `kind`, at `next_obs`."""
    config, spec, state = started(agent)
    batch = random_batch(spec, jax.random.key(7), False)
    batch = batch._replace(
        **{kind: jnp.zeros_like(batch.terminated).at[7].set(True)},
        next_obs=batch.next_obs.at[7].set(next_obs),
    )
    return agent.update(config, spec, state, batch, jax.random.key(0))[0]


@pytest.mark.learn
def test_truncated_bootstraps_and_terminated_does_not(agent: AnyAgent) -> None:
    for kind in ("terminated", "truncated"):
        one, other = (jax.tree.leaves(after_ending(agent, kind, x)) for x in (0.0, 3.0))
        same = all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        assert same == (kind == "terminated")


def metrics_of(agent: AnyAgent, env: Any, updates: int, **config: Any) -> dict[str, np.ndarray]:
    """Train through the driver, one seed."""
    spec, chosen = env.spec, agent.config(**config)
    check_agent(agent, chosen, spec)
    steps = updates * chosen.rollout_length
    trace = np.random.default_rng(0).normal(size=(steps + 1, spec.context.channels))
    contexts = load_contexts(trace, 0, steps + 1, spec.context.lags)
    program = Program(agent, spec)
    run = Run(jax.tree.map(jnp.float32, chosen), env, jnp.int32(0))
    state = make_init(program)(run, contexts)
    _, metrics = make_chunk(program, updates)(
        run, state, contexts, jnp.int32(0), jnp.int32(updates)
    )
    return {k: np.asarray(v) for k, v in metrics.items()}


@pytest.mark.learn
def test_runs_on_the_pendulum(agent: AnyAgent) -> None:
    metrics = metrics_of(agent, Pendulum(), 20)
    assert {"policy_loss", "value_loss", "entropy", "reward"} <= set(metrics)
    assert all(np.isfinite(v).all() for v in metrics.values())
    np.testing.assert_array_equal(metrics["episodes"], 1.0)


@pytest.mark.learn
def test_learns_a_bandit(agent: AnyAgent) -> None:
    metrics = metrics_of(
        agent, Bandit(), 400, rollout_length=20, hidden=[16], learning_rate=1e-2, reward_scale=1.0
    )
    assert metrics["reward"][:10].mean() < 0.5
    assert metrics["reward"][-50:].mean() > 0.9


@pytest.mark.learn
def test_from_the_command_line(tmp_path: Path) -> None:
    """As the page says, from the folder of the example, in a worker process."""
    command = [sys.executable, "-m", "lcpo.cli", "train", "--agent", "reinforce:agent"]
    command += ["--trace", "3", "--steps", "1000", "--seeds", "1", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reinforce:agent" in done.stdout


@pytest.mark.learn
def test_own_environment(examples: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps its contract, trains in this process, and winter is remembered as another context."""
    import own_environment  # pyright: ignore[reportMissingImports]

    check_env(own_environment.Thermostat())
    monkeypatch.chdir(tmp_path)
    (result,) = own_environment.main("thermostat", steps=12_000, seeds=1)
    assert result.status == "finished"
    assert len(result.record["step"]) == 60
    assert np.isfinite(lifelong_return(result.record))
    assert result.record["constraint_active"].max() == 1.0

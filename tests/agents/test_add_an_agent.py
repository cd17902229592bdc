"""A user's own agent and environment: the examples keep the contract, and the docs show them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from small_agents import assert_close, random_batch, started, updater

from lcpo.agents import AGENTS, lcpo, on_policy
from lcpo.agents.anchors import Anchors
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
KEY = jax.random.key(0)


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def agent(examples: None) -> AnyAgent:
    return find_agent("reinforce:agent")


def shown(page: str) -> list[str]:
    """The blocks of Python in a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)


def test_the_example_keeps_the_contracts_as_the_page_says(examples: None) -> None:
    """The page's test, without the contract that takes longest to compile."""
    (text,) = [block for block in shown("add_an_agent.md") if "check_agent" in block]
    scope: dict[str, Any] = {}
    exec(text.replace("hidden=(8,)", 'hidden=(8,), skip=("vmap",)'), scope)
    scope["test_my_agent"]()


def test_the_page_shows_the_example() -> None:
    assert shown("add_an_agent.md")[1] == (EXAMPLES / "reinforce.py").read_text()


def test_the_page_shows_the_variant() -> None:
    """In one file of fewer than 60 lines."""
    text = (EXAMPLES / "lcpo_variant.py").read_text()
    assert shown("add_an_agent.md")[2] == text
    assert len(text.splitlines()) < 60


def test_the_variant_of_lcpo(examples: None) -> None:
    """Without momentum and shrinking it is LCPO; with them its steps differ."""
    variant, plain = find_agent("lcpo_variant:agent"), AGENTS["lcpo"]
    more = {"detector": "everything", "c_anchor": 1e-3}
    config, spec, state = started(variant, **more, momentum=0.0, shrink_after=1e30)
    _, _, expected = started(plain, **more)
    assert_close((state.learner, state.memory), tuple(expected), 1e-5)
    check_agent(variant, config, spec)
    _, _, slow = started(variant, **more, momentum=0.5)
    assert np.any(ravel_pytree(slow.learner.policy)[0] != ravel_pytree(state.learner.policy)[0])
    short = dataclasses.replace(config, shrink_after=jnp.float32(1e-3))
    batch, key = random_batch(spec, jax.random.key(5)), jax.random.key(5)
    held, free = (updater(variant)(c, spec, state, batch, key)[1] for c in (short, config))
    assert held["constraint_active"] == free["constraint_active"] == 1.0
    assert 0.0 < held["anchor_kl"] < 0.01 * free["anchor_kl"]


def test_a_second_term_of_the_loss() -> None:
    """As the page shows it: a term on the anchors moves the policy there, within the limit."""
    agent = AGENTS["lcpo"]
    config, spec, state = started(agent, c_anchor=1e-2, entropy_coef=0.0, entropy_target=0.0)
    networks = on_policy.make_networks(config, spec)
    learner, data = on_policy.estimate(config, networks, state.learner, random_batch(spec, KEY))
    data = data._replace(advantage=0.0 * data.advantage)  # nothing else is to be gained
    gradient = on_policy.policy_gradient(config, spec, networks.policy, learner, data)
    found = Anchors(jax.random.normal(KEY, data.obs.shape), jnp.bool_(True))

    def bonus(on_anchors: jax.Array) -> jax.Array:
        return -jnp.mean(spec.actions.entropy(on_anchors))

    def loss(params: Any) -> jax.Array:
        return bonus(networks.policy.apply(params, found.obs))

    grads = jax.tree.map(jnp.add, gradient.grads, jax.grad(loss)(learner.policy))
    whole = gradient._replace(grads=grads)
    after, outcome = lcpo.policy_step(config, spec, learner, data, found, whole, bonus)
    assert outcome["step_fraction"] > 0.0
    assert outcome["anchor_kl"] <= 1e-2
    assert loss(after.policy) < loss(learner.policy) - 1e-4
    refused = lcpo.policy_step(config, spec, learner, data, found, whole)[1]
    assert refused["step_fraction"] == 0.0, "the line search does not see the second term"


def test_a_critic_that_rehearses() -> None:
    """The value function also descends what `finish` is given."""
    config, spec, state = started(AGENTS["lcpo"])
    networks, obs = on_policy.make_networks(config, spec), random_batch(spec, KEY).obs[:, 0]
    learner, data = on_policy.estimate(config, networks, state.learner, random_batch(spec, KEY))
    gradient = on_policy.policy_gradient(config, spec, networks.policy, learner, data)

    def past(params: Any) -> jax.Array:
        return 100.0 * jnp.mean((networks.value.apply(params, obs) - 5.0) ** 2)

    plain, rehearsed = (
        on_policy.finish(config, spec, networks, learner, data, gradient, f) for f in (None, past)
    )
    assert past(rehearsed[0].value) < past(plain[0].value)
    assert rehearsed[1]["value_loss"] > plain[1]["value_loss"]


def test_found_from_the_root_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert find_agent("examples.reinforce:agent").name == "reinforce"


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

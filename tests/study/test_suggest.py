"""`lcpo suggest`: the rules, the facts that they depend on, and the tasks they were measured on."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import run

from lcpo.agents import find_agent
from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.plan import plan
from lcpo.study.advice import start as starting
from lcpo.study.advice.facts import Facts, look
from lcpo.study.advice.start import start
from lcpo.study.advice.suggest import FAIR, LONG, suggest

ROOT = Path(__file__).parents[2]
PENDULUM = Facts(30_000, (15,), 9, 2, "step", 200.0, (), None)
BATTERY = Facts(30_000, (7,), 7, 3, "own", None, (4, 5, 6), 20.0)


def module(name: str) -> Any:
    """A module of benchmarks/."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module(f"benchmarks.{name}")


def test_a_short_run_gets_short_rollouts_large_limits_and_little_entropy() -> None:
    name, config = suggest(BATTERY).first
    assert name == "lcpo-plus"
    short = {"rollout_length": 50, "c_0": 0.03, "c_anchor": 0.001, "entropy_coef": 0.003}
    assert short.items() <= config.items()
    assert config["entropy_floor"] is False, "as measured: the default came later"
    others = suggest(BATTERY).others
    assert (config["gamma"], others[0].config["gamma"]) == (0.95, 0.99), "a horizon to compare"


def test_replay_agents_take_many_gradient_steps_and_explore_for_a_share_of_the_run() -> None:
    """They come first where episodes end."""
    name, config = suggest(PENDULUM).first
    assert (name, config["updates_per_rollout"], config["rollout_length"]) == ("ddqn", 20, 50)
    assert (config["random_steps"], config["epsilon_steps"]) == (600, 3000)
    assert [other.name for other in suggest(PENDULUM).others] == ["lcpo-plus", "ppo"]
    assert [other.name for other in suggest(BATTERY).others] == ["lcpo-plus", "ddqn", "ppo"]


def test_with_more_steps_the_horizon_grows_where_no_episode_ends() -> None:
    for steps, horizons in ((FAIR - 1, [0.95, 0.99]), (FAIR, [0.99, 0.95])):
        found = suggest(BATTERY._replace(steps=steps))
        assert [x.config["gamma"] for x in (found.first, found.others[0])] == horizons
        assert [text for text in found.reasons if f"gamma = {horizons[0]}:" in text]
        assert suggest(PENDULUM._replace(steps=steps)).first.config["gamma"] == 0.95


def test_a_long_run_gets_what_was_measured_on_long_runs() -> None:
    for facts in (BATTERY, PENDULUM):
        assert suggest(facts._replace(steps=LONG - 1)).first.name == suggest(facts).first.name
        assert suggest(facts._replace(steps=LONG)).first == (
            "lcpo-uniform", {"rollout_length": 200, "c_anchor": 0.001, "value_steps": 5}
        )  # fmt: skip


def test_a_long_run_is_compared_with_lcpo_plus_as_it_was_measured() -> None:
    """It is ahead of the suggestion on most drawn traces, and behind it on other tasks."""
    found = suggest(PENDULUM._replace(steps=LONG))
    assert [other.name for other in found.others] == ["lcpo-plus", "ppo", "sac"]
    agent = find_agent("lcpo-plus")
    assert agent.config(**found.others[0].config) == agent.config()
    assert {"c_0", "tau", "w_v", "w_pi"} <= found.others[0].config.keys(), "spelled out"
    assert [text for text in found.reasons if text.startswith("compare lcpo-plus:")]
    assert not [text for text in suggest(PENDULUM).reasons if "compare lcpo-plus" in text]


def test_reasons_name_every_setting_that_matters() -> None:
    for facts, words in (
        (
            BATTERY,
            ("lcpo-plus:", "rollout_length = 50: 600 updates instead of 150", "c_0", "gamma"),
        ),
        (PENDULUM, ("ddqn:", "12,000 gradient steps instead of 150", "epsilon_steps = 3,000")),
    ):
        reasons = " ".join(suggest(facts).reasons)
        assert [word for word in words if word not in reasons] == []
    assert "normalise" not in " ".join(suggest(PENDULUM).reasons)


def test_out_of_scale_entries_are_normalized() -> None:
    assert suggest(PENDULUM).normalise is None
    found = suggest(PENDULUM._replace(out_of_scale=(0, 2)))
    assert found.normalise == "running"
    assert "entry 0, 2" in found.reasons[-1]


@pytest.mark.parametrize("steps", [1000, 30_000, 3_000_000])
def test_every_suggestion_can_be_planned(steps: int) -> None:
    found = suggest(PENDULUM._replace(steps=steps))
    jobs = plan_agents(
        [found.first, *found.others], "pendulum", trace="revisit", steps=steps, seeds=1, check=False
    )
    assert len(jobs) == 1 + len(found.others)


def facts_of(env: str, **more: Any) -> Facts:
    (job,) = plan("random", env, seeds=1, **{"trace": None, "steps": 5000, **more})
    return look(job)


def test_facts_of_a_compiled_environment() -> None:
    found = facts_of("pendulum", trace="revisit")
    assert found == Facts(5000, (15,), 9, 2, "step", 200.0, (), None)


def test_facts_come_from_the_trace_that_is_given(tmp_path: Path) -> None:
    """A side wind that no action withstands."""
    module("small_tasks")
    lengths = []
    for wind in (0.0, 30.0):
        path = tmp_path / f"{wind}.npy"
        np.save(path, np.full((5000, 2), [wind, 0.0], np.float32))
        found = facts_of("benchmarks.small_tasks:CartPole", trace=TraceRef.parse(path))
        lengths.append(found.episode_length)
    assert lengths[1] < lengths[0] / 2


def test_facts_of_a_gymnasium_environment() -> None:
    found = facts_of("gym:CartPole-v1")
    assert (found.num_actions, found.channels, found.advance) == ((2,), 0, "own")
    assert found.episode_length is not None
    assert 10 < found.episode_length < 60
    assert found.microseconds is not None
    assert found.microseconds > 0.0


def test_the_commands_run_what_is_suggested() -> None:
    found = start("pendulum", 30_000, trace="revisit")
    words = shlex.split(found.train)
    assert words[:2] == ["lcpo", "train"]
    for name, value in found.suggestion.first.config.items():
        place = words.index(f"--{name.replace('_', '-')}")
        assert words[place + 1] == str(value)
    words = shlex.split(found.compare)
    agents = words[words.index("--agents") + 1]
    jobs = plan_agents(agents, "pendulum", trace="revisit", steps=30_000, seeds=1, check=False)
    assert [job.agent for job in jobs] == ["ddqn", "lcpo-plus", "ppo", "constant:7", "random"]
    assert jobs[0].config.items() >= found.suggestion.first.config.items()
    assert words[-4:] == ["--trace", "revisit", "--steps", "30000"]


def test_a_task_that_brings_many_values_gets_commands_that_run() -> None:
    """Its agents have so many settings that the names of their runs would be too long."""
    found = start("straggler", 30_000)
    words = shlex.split(found.compare)
    agents = words[words.index("--agents") + 1]
    jobs = plan_agents(agents, "straggler", trace=None, steps=30_000, seeds=1, check=False)
    assert [job.agent for job in jobs] == ["lcpo-plus", "ddqn", "ppo", "constant:4", "random"]
    assert jobs[0].config["rollout_length"] == 4608
    assert words[-2:] == ["--steps", "30000"], "not rounded to whole rollouts of one agent"
    assert jobs[1].config["random_steps"] == 600, "a share of this run"
    *reasons, brought = found.suggestion.reasons
    assert not any("rollout_length = 50" in reason or "gamma" in reason for reason in reasons)
    assert brought.startswith("rollout_length = 4608, gamma = 0.9, ")
    assert brought.endswith(": values that the environment brings take precedence")


def test_values_that_an_environment_brings_take_precedence() -> None:
    found = start("grid-world", 2_000_000)
    name, config = found.suggestion.first
    assert (name, config["c_anchor"], config["hidden"]) == ("lcpo-uniform", 3e-7, (32, 32))
    assert "detector" not in config
    assert "--hidden 32 32" in found.train


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["suggest", "--env", "pendulum", "--steps", "3e4", "--env.num-bins", "5"]
    assert run(*command) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("pendulum, trace revisit, 30,000 steps: 9 observation entries, ")
    assert "start with ddqn\n  rollout_length = 50\n" in shown.out
    assert "--env.num-bins 5" in shown.out
    assert "note: lcpo train: 4 runs, 120,000 steps, about " in shown.err
    assert run(*command, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agent"], found["settings"]["gamma"]) == ("ddqn", 0.95)
    assert found["facts"]["num_actions"] == [5]
    assert [other["agent"] for other in found["others"]] == ["lcpo-plus", "ppo"]
    assert shlex.split(found["train"])[:4] == ["lcpo", "train", "--agent", "ddqn"]


def test_bad_input_is_refused_before_anything_is_played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "look", lambda job: pytest.fail("played"))
    for arguments, expected in (
        ([], "--env is missing"),
        (["--env", "pendulum"], "--steps is missing"),
        (["--env", "pendulun", "--steps", "5000"], "did you mean 'pendulum'"),
        (["--env", "pendulum", "--steps", "999"], "needs at least 1,000"),
        (["--env", "pendulum", "--steps", "few"], "a whole number"),
        (["--env", "pendulum", "--steps", "5000", "--trace", "nowhere"], "unknown trace"),
        (["--env", "pendulum", "--steps", "5000", "--columns", "1"], "need --trace"),
        (["--env", "hopper", "--steps", "5000"], "driven by a trace"),
        (["--env", "pendulum", "--steps", "5000", "--agent", "ppo"], "unknown option '--agent'"),
    ):
        assert run("suggest", *arguments) == 2, arguments
        assert expected in capsys.readouterr().err


def test_an_environment_that_breaks_is_reported() -> None:
    (job,) = plan("random", "breaking_example:Breaks", trace=None, steps=5000, seeds=1)
    with pytest.raises(InputError, match=r"step 3: .* is gone; .*lcpo check-env breaking"):
        look(job)


@pytest.mark.parametrize("name", ["table", "points"])
def test_the_committed_tables_are_what_their_seeds_say(name: str) -> None:
    folder = ROOT / "results" / "suggest"
    made = module("suggest_tables").of_seeds(folder / "seeds.csv")[name]
    assert (folder / f"{name}.md").read_text() == made.to_markdown()


def played(env: Any, actions: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Observations and rewards of a compiled environment."""
    key = jax.random.key(0)
    state, obs = env.reset(key)
    step = jax.jit(env.step)
    seen, rewards = [obs], []
    for action in actions:
        state, found = step(state, jnp.array([action]), jnp.zeros(0), key)
        seen.append(found.obs)
        rewards.append(found.reward)
    return np.array(seen), np.array(rewards)


@pytest.mark.learn
def test_the_battery_that_was_measured_is_that_of_the_example(tmp_path: Path) -> None:
    tasks = module("small_tasks")
    battery = tasks.example("battery")
    world = battery.Battery(battery.write_data(str(tmp_path / "home.csv"), seed=1))
    actions = np.random.default_rng(0).integers(7, size=500).tolist()
    first, _ = world.reset()
    steps = [world.step(action) for action in actions]
    seen = [np.concatenate(list(obs.values())) for obs in (first, *(step[0] for step in steps))]
    obs, rewards = played(tasks.Battery(data=1), actions)
    np.testing.assert_allclose(obs, seen, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(rewards, [step[1] for step in steps], rtol=1e-3, atol=1e-3)


@pytest.mark.learn
def test_the_autoscaler_that_was_measured_is_that_of_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the noise, which comes from another generator."""
    tasks = module("small_tasks")
    scaler = tasks.example("autoscaler")
    world = scaler.Autoscaler(scaler.write_load(str(tmp_path / "requests.csv")))
    actions = np.random.default_rng(0).integers(6, size=500).tolist()
    first, _ = world.reset(seed=0)
    monkeypatch.setattr(jax.random, "normal", lambda key: jnp.float32(0.0))
    world._np_random = SimpleNamespace(normal=lambda: 0.0)
    steps = [world.step(action) for action in actions]
    seen = [np.concatenate(list(obs.values())) for obs in (first, *(step[0] for step in steps))]
    obs, rewards = played(tasks.Autoscaler(), actions)
    np.testing.assert_allclose(obs, seen, rtol=1e-4, atol=0.1)
    np.testing.assert_allclose(rewards, [step[1] for step in steps], rtol=1e-3, atol=1e-3)

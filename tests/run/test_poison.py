"""One wild number in a run or a live loop: it goes on learning, or says why it does not."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import poisoned
import pytest
from small_agents import RULES, SMALL, SMALL_OF

from lcpo import Learner
from lcpo.agents import AGENTS
from lcpo.cli.progress import _reason
from lcpo.core import health
from lcpo.errors import InputError
from lcpo.run.drive.group import Group
from lcpo.run.events import Event, Failed, Finished, Note, Progress
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import load_results

NAN, INF = float("nan"), float("inf")
FINITE = (1e10, 1e14, 1e18, 1e19, 1e20, 1e30, 3e38)
KINDS = ("reward", "obs", "context")
LENGTH, UPDATES = SMALL["rollout_length"], 60
FIRST, LATE = 3.0, 200.0
"""Steps at which the poison comes: in the first rollout, and after many."""
LEARNERS = sorted({agent.root.name for agent in AGENTS.values()} - set(RULES))
"""All agents that learn; variants share their functions."""
SLOW = ("ideal-mbpo", "mbcd", "mbpo", "sliding-ogd", "tabular-a2c")
"""They need longer than this to learn the probe, or take it for a Pendulum."""
LATER = [(name, None) for name in LEARNERS if name != "a2c"]
LATER += [("a2c", "running"), ("a2c", [2.0, 2.0, 2.0])]
AGENT = pytest.mark.parametrize(
    ("agent", "normalise"),
    [("a2c", None), *(pytest.param(*case, marks=pytest.mark.learn) for case in LATER)],
)


def small(agent: str) -> dict[str, Any]:
    """Small sizes, and steps that are long enough to learn the probe."""
    rate = 0.01 if agent == "lcpo-p" else 0.02  # its thirty steps a rollout overshoot with more
    sizes = {**SMALL, "learning_rate": rate, "value_learning_rate": 0.02, "gamma": 0.5,
             "batch_size": 64, "buffer_size": 2000, "random_steps": 64, "epsilon_steps": 200,
             "updates_per_rollout": 4, **SMALL_OF.get(agent, {})}  # fmt: skip
    known = {field.name for field in dataclasses.fields(AGENTS[agent].Config)}
    return {name: value for name, value in sizes.items() if name in known}


def is_tabular(agent: str) -> bool:
    return agent.startswith("tabular")


def cases(agent: str) -> Iterator[tuple[str, float, float]]:
    """Kind, value and step. A table has no entry for an observation that is out of bounds."""
    for kind in KINDS[:1] if is_tabular(agent) else KINDS:
        for value in (*FINITE, NAN, INF):
            if kind == "context" and not np.isfinite(value):
                continue  # no trace holds it: refused when it is read
            yield from ((kind, value, at) for at in (FIRST, LATE))


def job_of(agent: str, normalise: Any, folder: Path, kind: str, value: float, at: float) -> Job:
    rows = np.random.default_rng(0).integers(0, 2, (UPDATES * LENGTH + 1, 2)).astype(np.float32)
    if kind == "context":
        rows[int(at)] = value
    name = f"{kind}-{value}-{at}"
    np.save(folder / f"{name}.npy", rows)
    codes = {str(NAN): poisoned.NAN, str(INF): poisoned.INF}
    env = {"value": codes.get(str(value), value), "at": at, f"in_{kind}": 1.0}
    (job,) = plan(
        agent, "poisoned:Poisoned", trace=folder / f"{name}.npy", steps=UPDATES * LENGTH, seeds=[0],
        overrides=small(agent), normalise=normalise,
        env_overrides={k: v for k, v in env.items() if k != "in_context"}
        | {"levels": is_tabular(agent)},
    )  # fmt: skip
    return dataclasses.replace(job, variant=name)


@pytest.mark.learn
@AGENT
def test_train_goes_on_or_says_why_not(agent: str, normalise: Any, tmp_path: Path) -> None:
    """All poisons of an agent, and none, as one group: one program is compiled."""
    traces, out = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    clean = job_of(agent, normalise, traces, "reward", 1.0, LATE)
    jobs = [clean, *(job_of(agent, normalise, traces, *case) for case in cases(agent))]
    events: dict[str, Event] = {}

    def report(event: Event) -> None:
        if not isinstance(event, Progress | Note):
            events[event.job] = event

    Group([Setup(job) for job in jobs], out, report, 1e9).run([None] * len(jobs))
    results = {result.job.name: result for result in load_results(out)}
    assert isinstance(events[clean.name], Finished)
    expected = late_reward(results[clean.name])
    assert expected > 0.5 or agent in SLOW
    for name, event in events.items():
        assert set(results[name].record).isdisjoint(health.SIGNS)
        if isinstance(event, Finished):
            assert late_reward(results[name]) > expected - 0.3, name
            continue
        assert isinstance(event, Failed), name
        poison = results[name].job.variant
        at = float(poison.rsplit("-", 1)[1])
        assert at < event.step <= at + 2 * LENGTH + 1, (name, event)
        if "nan" not in poison and "inf" not in poison:
            assert event.quantity in health.SIGNS, (name, event)
            assert _reason(event).startswith(f"{event.quantity} is {event.value} at step ")
            assert len(_reason(event)) > 100  # what it means, and what to do


def late_reward(result: Any) -> float:
    return float(result.record["reward"][-10:].mean())


def test_a_state_that_is_not_finite_stops_a_run_whose_metrics_are(tmp_path: Path) -> None:
    jobs = plan(
        "poisoned:silent", "poisoned:Poisoned", trace="revisit", steps=20 * LENGTH, seeds=[0]
    )
    events: list[Event] = []
    Group([Setup(job) for job in jobs], tmp_path, events.append, 1e9).run([None])
    assert isinstance(events[-1], Failed)
    assert (events[-1].quantity, events[-1].value) == (health.STATE, "nan")
    assert "holds NaN or infinity: lower its learning rate" in _reason(events[-1])


@AGENT
def test_a_learner_goes_on_or_says_why_not(agent: str, normalise: Any) -> None:
    chosen = poisoned.Poisoned(levels=is_tabular(agent))
    for kind, value, at in [("reward", 1.0, LATE), *cases(agent)]:
        learner = Learner(agent, chosen.spec, small(agent), normalise=normalise)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            poison = (kind, value, int(at) % (3 * LENGTH))
            reward = play(learner, poison, (48 if value == 1.0 else 6) * LENGTH)
        where = f"{kind} {value} at {at}"
        rollouts = learner.updates + learner.dropped
        assert learner.dropped == len(told) <= 2, where
        assert rollouts >= 5, where
        assert np.isfinite(list(learner.metrics.values())).all(), where
        if value == 1.0:
            assert learner.dropped == 0
            assert reward > 0.3 or agent in SLOW
        if learner.dropped:
            assert learner.problem == str(told[-1].message)
            assert str(learner.problem).count(":") > 1, where  # what it is, what it means
        elif np.isfinite(value) and value > 1.0:
            assert learner.metrics.get("reward_scale", 1.0) > 1e-3, where


def play(learner: Learner, poison: tuple[str, float, int], steps: int) -> float:
    """The mean reward of the last hundred steps; what is refused is given again, without poison."""
    kind, value, at = poison
    rng, rewards = np.random.default_rng(1), []
    for t in range(steps):
        side = float(rng.integers(0, 2))
        features, context = [side, 1.0 - side, side], rng.integers(0, 2, 2).astype(np.float32)
        wild = {"obs": ([side, 1.0 - side, value], context), "context": (features, [value, value])}
        seen = wild.get(kind, (features, context)) if t == at else (features, context)
        action = _or(learner.act, seen, (features, context)).action
        reward = 1.0 if action[0] == side else -1.0
        rewards.append(reward)
        _or(learner.observe, (value if kind == "reward" and t == at else reward,), (reward,))
    return float(np.mean(rewards[-100:]))


def _or(call: Any, first: tuple, second: tuple) -> Any:
    try:
        return call(*first)
    except InputError:
        return call(*second)

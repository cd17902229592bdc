"""Acting in NumPy: the same numbers as compiled `act`, for every agent that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from live_agents import ONE, SEES
from small_agents import small_config, spec_for

from lcpo import Learner
from lcpo.agents import AGENTS
from lcpo.live import fast
from lcpo.live.learning import Learning
from lcpo.live.settings import Settings
from lcpo.live.state import LearnerState
from lcpo.types import ContextSlice, Spec

TWO = Spec(5, ContextSlice(1, 2, 2), (3, 5))
GUARDED = Spec(6, ContextSlice(4, 2, 1), (4,), elements=(2, 2))


def trained(agent: str, spec: Spec | None = None, **rest: Any) -> tuple[Learning, LearnerState]:
    """After two updates."""
    chosen = AGENTS[agent]
    spec = spec or spec_for(chosen)
    learner = Learner(agent, spec, small_config(chosen), steps=100, **rest)
    rng, high = np.random.default_rng(0), spec.obs_levels or (3,) * spec.obs_size
    for _ in range(33):
        learner.act((rng.random(spec.obs_size) * high).astype(int).astype(np.float32))
        learner.observe(float(rng.normal()), readings=np.ones(len(spec.readings)))
    assert learner.updates == 2
    return Learning(learner.settings), learner.state


def check_same(learning: Learning, state: LearnerState, count: int = 150) -> int:
    """Compare the two on random observations; the number for which rounding could matter."""
    snapshot, spec, unsure = learning.snapshot(state), learning.spec, 0
    assert snapshot.fast is not None
    shown = learning._shown.gather((learning.traced,), (state.agent,), np.int32(0))
    rng, high = np.random.default_rng(1), spec.obs_levels or (3,) * spec.obs_size
    for number in range(count):
        obs = (rng.random(spec.obs_size) * high).astype(np.float32)
        obs = obs.astype(int).astype(np.float32) if spec.obs_levels else obs
        bits, uniforms = learning._drawn(number)
        answer = snapshot.fast.act(obs, uniforms, False)
        action, _ = learning._act_compiled(snapshot, obs, number)
        if not answer.sure:
            unsure += 1
            continue
        np.testing.assert_array_equal(answer.action, action)
        assert answer.action.dtype == action.dtype
        p = np.asarray(learning._shown.act(shown, obs[None, None], bits[None])[0])[0, 0]
        if len(action) == 1 or learning.settings.plain_agent.root.name not in fast.GREEDY:
            expected = float(np.prod(p[np.arange(len(action)), action]))
            assert answer.probability == pytest.approx(expected, abs=1e-5)
        best = snapshot.fast.act(obs, uniforms, True)
        np.testing.assert_array_equal(best.action, p.argmax(-1))
    return unsure


@pytest.mark.parametrize(
    "agent",
    [
        "a2c", "ddqn",
        *(
            pytest.param(name, marks=pytest.mark.learn)
            for name in sorted({a.root.name for a in AGENTS.values()} - {"a2c", "ddqn"})
            if name in (*fast.SAMPLED, *fast.GREEDY)
        ),
    ],
)  # fmt: skip
def test_actions_and_probabilities_are_those_of_the_compiled_agent(agent: str) -> None:
    assert check_same(*trained(agent)) < 15


@pytest.mark.learn
@pytest.mark.parametrize("agent", ["a2c", "ddqn", "sac"])
@pytest.mark.parametrize("spec", [TWO, GUARDED])
@pytest.mark.parametrize("normalise", [None, "running"])
def test_several_actions_deep_sets_and_scales(agent: str, spec: Spec, normalise: Any) -> None:
    assert check_same(*trained(agent, spec, normalise=normalise)) < 15


def test_fixed_scales_and_own_contexts() -> None:
    check_same(*trained("a2c", TWO, normalise=[2.0, 3.0, 0.5], advance="own"))


def test_where_rounding_could_decide_the_compiled_agent_does() -> None:
    learning, state = trained("a2c", TWO)
    snapshot, obs = learning.snapshot(state), np.ones(5, np.float32)
    assert snapshot.fast is not None
    uniforms = learning._drawn(0)[1].copy()
    p = snapshot.fast._softmax(snapshot.fast.forward(obs).reshape(2, 5))
    for edge in (float(p[0, 0]), float(p[0, 0] + p[0, 1])):
        close, far = uniforms.copy(), uniforms.copy()
        close[0], far[0] = edge + 1e-6, edge + 2e-3
        assert not snapshot.fast.act(obs, close, False).sure
        assert snapshot.fast.act(obs, far, False).sure
    calls: list[int] = []
    learning._act_compiled = lambda *_: (calls.append(1), (np.array([1, 1]), ()))[1]  # type: ignore
    uniforms[0] = float(p[0, 0]) + 1e-6
    learning._drawn = lambda _: (np.zeros(2, np.uint32), uniforms)  # type: ignore
    answer = learning.propose(snapshot, obs, 0)
    assert calls
    np.testing.assert_array_equal(answer.action, [1, 1])
    assert answer.probability == pytest.approx(float(p[0, 1] * p[1, 1]))


def test_equal_values_are_left_to_the_compiled_agent() -> None:
    spec = Spec(3, ContextSlice(3, 0, 0), (3,))
    policy = fast.FastPolicy(spec, lambda x: np.array([1.0, 1.0 + 1e-7, 0.0]), 0.0, False)
    assert not policy.act(np.zeros(3), np.array([0.5, 0.5]), False).sure
    policy = fast.FastPolicy(spec, lambda x: np.array([1.0, 1.1, 0.0]), 0.25, False)
    assert policy.act(np.zeros(3), np.array([0.5, 0.5]), False).sure
    assert not policy.act(np.zeros(3), np.array([0.25, 0.5]), False).sure
    explored = policy.act(np.zeros(3), np.array([0.1, 0.9]), False)
    assert (explored.action.tolist(), explored.sure) == ([2], True)
    assert explored.probability == pytest.approx(0.25 / 3)
    greedy = policy.act(np.zeros(3), np.array([0.9, 0.9]), False)
    assert greedy.probability == pytest.approx(0.75 + 0.25 / 3)


def test_agents_of_the_same_name_are_not_mistaken_for_ours() -> None:
    import dataclasses

    named = dataclasses.replace(SEES, name="a2c")
    assert not fast.is_fast(Settings.make(named, ONE))
    assert fast.is_fast(Settings.make(AGENTS["a2c"].variant("mine", gamma=0.5), ONE))


@pytest.mark.learn
def test_agents_that_act_in_another_way_say_their_probabilities_too() -> None:
    learner = Learner("tabular-q", spec_for(AGENTS["tabular-q"]), steps=100)
    decision = learner.act(np.zeros(learner.spec.obs_size))
    assert decision.probability is not None
    assert 0.0 < decision.probability <= 1.0
    learner.observe(0.0)
    assert learner.act(np.zeros(learner.spec.obs_size), deterministic=True).probability == 1.0
    assert Learner(SEES, ONE).act([0.0], [0.0, 0.0]).probability is None

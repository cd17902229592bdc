"""Observations in units that networks learn from: what the wrapped agent sees, and remembers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import case_of

from lcpo.agents import AGENTS
from lcpo.agents.normalise import RUNNING, check_rule, columns, normalise, read_rule, to_json
from lcpo.config import config, static
from lcpo.errors import InputError
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.plan import plan
from lcpo.run.store.checkpoint import without_memory
from lcpo.types import Agent, ContextSlice, Guard, Spec, Transition

SPEC = Spec(5, ContextSlice(3, 1, 2), (2,), guard=Guard(1, (0,)))
"""Two entries of state, a guard between them, and two lags of a context."""


@pytest.mark.learn
def test_stopped_and_resumed_equals_never_stopped() -> None:
    """One with a replay: its buffers must stay where drivers look."""
    case_of(normalise(AGENTS["ddqn"], RUNNING, own=False)).check("resume")


@config
class SpyConfig:
    """Nothing."""

    rollout_length: int = static(4, "steps")


class SpyState(NamedTuple):
    seen: Any
    memory: Any


def _spy_update(config: Any, spec: Spec, state: SpyState, batch: Transition, key: Any) -> Any:
    return SpyState((batch.obs, batch.next_obs, batch.extra), state.memory + 1), {}


SPY = Agent(
    "spy",
    SpyConfig,
    lambda config, spec, key: SpyState((), jnp.int32(0)),
    lambda config, spec, state, obs, key: (jnp.zeros((len(obs), 1), jnp.int32), obs),
    _spy_update,
    probabilities=lambda config, spec, state, obs: obs,
)
"""Tells what it is shown."""


def batch_of(obs: np.ndarray, extra: Any) -> Transition:
    """Leaves [4, 1, ...]; the successor is larger by 1."""
    ones = jnp.ones(obs.shape[:2])
    action, no = jnp.zeros((*obs.shape[:2], 1), jnp.int32), ones < 0
    rest: Any = (no, no, ones, ones, extra)
    return Transition(jnp.asarray(obs), action, ones, jnp.asarray(obs + 1), *rest)


def draws(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    units = np.array([1000.0, 1.0, 0.01, 50.0, 50.0], np.float32)
    return (rng.normal(size=(count, 4, 1, 5)) * units + 3 * units).astype(np.float32)


def expected(obs: np.ndarray, past: np.ndarray, own: bool) -> np.ndarray:
    """By NumPy; `past` [n, 5]: all observations before."""
    if not len(past):
        shown = np.clip(obs, -10, 10)
    else:
        lags = past[:, 3:]  # a channel has one scale
        mean = np.r_[past[:, :3].mean(0), lags.mean(), lags.mean()]
        std = np.r_[past[:, :3].std(0), lags.std(), lags.std()]
        shown = np.clip((obs - mean) / std, -10, 10)
    shown[..., 1] = obs[..., 1]
    if not own:
        shown[..., 3:] = obs[..., 3:]
    return shown


@pytest.mark.parametrize("own", [False, True])
def test_act_and_update_see_the_same_by_the_statistics_before(own: bool) -> None:
    wrapped, config, key = normalise(SPY, RUNNING, own), SpyConfig(), jax.random.key(0)
    state: Any = wrapped.init(config, SPEC, key)
    past = np.zeros((0, 5), np.float32)
    act, update = (jax.jit(f, static_argnums=1) for f in (wrapped.act, wrapped.update))
    for obs in draws(3):
        extra = np.stack([act(config, SPEC, state, jnp.asarray(o), key)[1] for o in obs])
        state, _ = update(config, SPEC, state, batch_of(obs, extra), key)
        shown, successors, acted_on = state.inner.seen
        np.testing.assert_allclose(shown, expected(obs, past, own), rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(successors, expected(obs + 1, past, own), rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(acted_on, shown, rtol=1e-5, atol=1e-6)
        past = np.concatenate([past, obs.reshape(-1, 5)])
    assert int(state.memory) == 3, "the buffers of the agent are handed back to it"
    assert state.inner.memory == ()
    assert wrapped.probabilities is not None
    seen = wrapped.probabilities(config, SPEC, state, jnp.asarray(past[:2]))
    np.testing.assert_allclose(seen, expected(past[:2], past, own), rtol=2e-4, atol=2e-4)


def test_an_entry_that_never_changes_is_no_noise() -> None:
    wrapped, config, key = normalise(SPY, RUNNING, False), SpyConfig(), jax.random.key(0)
    spec = Spec(2, ContextSlice(2, 0, 0), (2,))
    state: Any = wrapped.init(config, spec, key)
    obs = np.tile(np.array([1e6 / 3, 0.0], np.float32), (4, 1, 1))
    update = jax.jit(wrapped.update, static_argnums=1)
    for _ in range(3):
        state, _ = update(config, spec, state, batch_of(obs, ()), key)
    np.testing.assert_allclose(wrapped.act(config, spec, state, obs[0], key)[1], 0.0, atol=0.1)


@pytest.mark.parametrize(("own", "scales"), [(False, (1000, 7, 0.1)), (True, (1000, 7, 0.1, 50))])
def test_fixed_scales(own: bool, scales: tuple[float, ...]) -> None:
    rule = read_rule(scales)
    check_rule(rule, SPEC, own)
    wrapped, obs = normalise(SPY, rule, own), draws(1)[0, 0]
    state: Any = wrapped.init(SpyConfig(), SPEC, jax.random.key(0))
    shown = wrapped.act(SpyConfig(), SPEC, state, jnp.asarray(obs), jax.random.key(0))[1]
    by = np.array([1000, 1, 0.1, 50 if own else 1, 50 if own else 1], np.float32)
    np.testing.assert_allclose(shown, obs / by, rtol=1e-6)
    with pytest.raises(InputError, match=rf"has 2 numbers: needs {len(scales)}, one for each"):
        check_rule((1.0, 2.0), SPEC, own)


def test_entries_that_mean_the_same_share_a_column() -> None:
    spec = Spec(9, ContextSlice(5, 2, 2), (2,), elements=(2, 2))
    assert columns(spec, own=True).tolist() == [0, 1, 0, 1, 2, 3, 3, 4, 4]
    assert columns(spec, own=False).tolist() == [0, 1, 0, 1, 2, -1, -1, -1, -1]


def test_identity_is_kept_and_variants_share_a_program() -> None:
    a2c, entropy = AGENTS["a2c"], AGENTS["a2c-entropy"]
    wrapped = normalise(a2c, RUNNING, True)
    assert normalise(a2c, RUNNING, True) is wrapped
    assert normalise(entropy, RUNNING, True).root is wrapped
    assert normalise(a2c, RUNNING, False) is not wrapped
    assert normalise(a2c, None, True) is a2c
    for name in ("random", "constant", "never-hedge", "hedge-table", "tabular-q", "ideal-mbpo"):
        assert normalise(AGENTS[name], RUNNING, True) is AGENTS[name]
    shapes = jax.eval_shape(lambda key: wrapped.init(a2c.config(), SPEC, key), jax.random.key(0))
    assert without_memory(shapes).memory is None


@pytest.mark.parametrize("rule", [None, "running", (2000.0, 1.0)])
def test_rules_survive_json(rule: Any) -> None:
    assert read_rule(to_json(rule)) == rule
    assert read_rule("none") is None
    assert read_rule("2000, 1") == (2000.0, 1.0)


@pytest.mark.parametrize("wrong", ["", "sometimes", "1,0", "-3", [], [1, "x"], 3, {"a": 1}, "nan"])
def test_no_rules(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"normalise = .*: needs none, running, or positive"):
        read_rule(wrong)


def test_plans_hold_the_rule_of_those_that_take_it() -> None:
    jobs = plan_agents(
        "a2c,random,constant:1", "pendulum", trace="iid", steps=400, seeds=1, normalise="8,1,1"
    )
    assert [job.normalise for job in jobs] == [[8.0, 1.0, 1.0], None, None]
    with pytest.raises(InputError, match="'random' reads observations in the environment's own"):
        plan("random", "pendulum", trace="iid", steps=400, seeds=1, normalise="running")
    with pytest.raises(InputError, match="has 2 numbers: needs 3"):
        plan("a2c", "pendulum", trace="iid", steps=400, seeds=1, normalise=[1, 2])

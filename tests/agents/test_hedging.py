"""Rules for hedging: from made-up readings to the timeout that they must lead to."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import HEDGING, READINGS

from lcpo.agents import AGENTS, constant
from lcpo.config import stack
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.straggler import rules
from lcpo.types import AnyAgent, ContextSlice, Spec, Transition

SPEC = HEDGING
KEY = jax.random.key(0)
NEVER = 8
SLOWER_MS = (3, 10, 30, 60, 100, 300, 600, 1000)


def windows(count: int, spec: Spec = SPEC, slower: Any = (), **read: float) -> Transition:
    """Windows with these readings in each of the worlds; `slower` by timeout, 0 where left out."""
    read |= {f"slower_{ms}": n for ms, n in zip(SLOWER_MS, slower, strict=False)}
    row = jnp.array([read.get(name, 0.0) for name in READINGS], jnp.float32)
    shape = (count, spec.num_worlds)
    obs, ones, no = jnp.zeros((*shape, 6)), jnp.ones(shape), jnp.zeros(shape, bool)
    action = jnp.zeros((*shape, 1), jnp.int32)
    readings = jnp.broadcast_to(row, (*shape, len(READINGS)))
    return Transition(obs, action, ones, obs, no, no, ones, ones, (), readings)


def play(agent: AnyAgent, *batches: Transition, spec: Spec = SPEC, **values: Any) -> Any:
    """(action after these batches, metrics of the last)."""
    config = agent.config(**values)
    state, metrics = agent.init(config, spec, KEY), {}
    for batch in batches:
        state, metrics = agent.update(config, spec, state, batch, KEY)
    action, _ = agent.act(config, spec, state, jnp.zeros((spec.num_worlds, 6)), KEY)
    assert agent.probabilities is not None
    shares = agent.probabilities(config, spec, state, jnp.zeros((spec.num_worlds, 6)))
    np.testing.assert_array_equal(jnp.argmax(shares, -1), action)
    return int(action[-1, 0]), {k: float(v) for k, v in metrics.items()}


# Of 100 requests 6 took longer than 60 ms, and 4 longer than 100.
LATE: Any = {"arrived": 100, "served": 100, "slower": (100, 90, 50, 6, 4, 2, 1, 0)}


def test_the_percentile_is_rounded_up_to_a_timeout() -> None:
    assert play(rules.hedge_p95) == (NEVER, {})
    action, metrics = play(rules.hedge_p95, windows(10, **LATE))
    assert (action, metrics["timeout_ms"], metrics["hedges"]) == (4, 100.0, 1.0)
    assert play(rules.hedge_p95, windows(10, **LATE), quantile=0.93)[0] == 3
    assert play(rules.hedge_p95, windows(10, **LATE), quantile=0.995)[0] == 7
    slow = {**LATE, "slower": (100,) * 8}
    assert play(rules.hedge_p95, windows(10, **slow))[0] == NEVER  # all took more than a second
    assert play(rules.hedge_p95, windows(10, arrived=5, slower=()))[0] == NEVER  # none was served
    two = SPEC._replace(num_worlds=2)
    batch = windows(10, two, **LATE)
    batch = batch._replace(readings=batch.readings.at[:, 0].set(0.0))  # of the first: nothing
    assert play(rules.hedge_p95, batch, spec=two)[0] == 4


def test_what_is_old_is_forgotten() -> None:
    """A window weighs 1 - 1/memory of the next: after 20 slow ones, 50 quick ones or two more."""
    slow = windows(20, arrived=10, served=10, slower=(10,) * 8)
    for quick, wanted in ((50, NEVER), (52, 0)):
        weight_of_slow = (1 - 0.95**20) * 0.95**quick / (1 - 0.95 ** (20 + quick))
        assert (weight_of_slow <= 0.05) == (wanted == 0)
        batches = [windows(10, arrived=10, served=10)] * (quick // 10)
        rest = windows(quick % 10, arrived=10, served=10)
        assert play(rules.hedge_p95, slow, *batches, rest, memory=20)[0] == wanted


def test_hedges_are_held_to_the_budget() -> None:
    for hedged, wanted in ((4, 4), (6, NEVER)):
        action, metrics = play(rules.hedge_p95, windows(10, hedged=hedged, **LATE))
        assert action == wanted
        assert metrics["share_hedged"] == pytest.approx(hedged / 100)
    assert play(rules.hedge_p95, windows(10, hedged=6, **LATE), budget=0.07)[0] == 4


def test_the_bucket_is_filled_by_requests_and_emptied_by_hedges() -> None:
    late: Any = {"arrived": 20, "served": 10, "slower": (10, 10, 4, 1)}
    action, metrics = play(rules.hedge_sketch, windows(10, hedged=3, **late))
    assert (action, metrics["tokens"]) == (3, 90.0)  # 100 + 20 - 30
    spent = windows(10, hedged=12, **late)
    action, metrics = play(rules.hedge_sketch, spent)
    assert (action, metrics["tokens"]) == (NEVER, pytest.approx(0.0, abs=1e-4))
    for arrived, wanted in ((9, NEVER), (11, 3)):
        action, metrics = play(rules.hedge_sketch, spent, windows(1, **late | {"arrived": arrived}))
        assert (action, metrics["tokens"]) == (wanted, pytest.approx(0.1 * arrived, abs=1e-4))
    assert play(rules.hedge_sketch, windows(300, **late))[1]["tokens"] == 100.0  # it is full


def test_the_delay_follows_from_the_cap() -> None:
    """Of 100 requests 6 are slower than 60 ms, 4 than 100: after 100 ms, or 60 with tokens left."""
    action, metrics = play(rules.hedge_cap, windows(10, hedged=5, **LATE))
    assert (action, metrics["tokens"]) == (4, pytest.approx(0.0, abs=1e-4))
    action, metrics = play(rules.hedge_cap, windows(10, hedged=4, **LATE))
    assert (action, metrics["tokens"]) == (3, pytest.approx(10.0, abs=1e-4))
    assert play(rules.hedge_cap, windows(10, hedged=6, **LATE))[0] == 4
    assert play(rules.hedge_cap, windows(10, hedged=60, **LATE), cap=0.5)[0] == 2  # 30 ms: half are
    slow = {**LATE, "slower": (100,) * 8}
    assert play(rules.hedge_cap, windows(10, hedged=9, **slow))[0] == NEVER
    assert play(rules.hedge_cap, windows(900, **LATE))[1]["tokens"] == 100.0  # no more are saved up
    assert play(rules.hedge_cap) == (NEVER, {})
    assert play(rules.hedge_cap, windows(10, arrived=5))[0] == NEVER  # none was served


@pytest.mark.parametrize("cap", [0.01, 0.05, 0.2])
def test_the_cap_is_spent_though_no_timeout_spends_it(cap: float) -> None:
    """Where the share slower than K ms is exp(-K / 40), as it then is of the hedged."""
    slower = [100 * float(np.exp(-ms / 40)) for ms in SLOWER_MS]
    config = rules.hedge_cap.config(cap=cap)
    state, total = rules.hedge_cap.init(config, SPEC, KEY), 0.0
    update = jax.jit(
        lambda state, batch: rules.hedge_cap.update(config, SPEC, state, batch, KEY)[0]
    )
    shares = np.append(slower, 0.0) / 100
    for _ in range(300):
        hedged = 100 * shares[int(state.action)]
        total += 10 * hedged
        state = update(state, windows(10, arrived=100, served=100, slower=slower, hedged=hedged))
    assert total / (300 * 10 * 100) == pytest.approx(cap, abs=0.002)
    assert min(abs(shares - cap)) > 0.002


def test_the_table_goes_by_load_to_the_nearest_timeout() -> None:
    """Two servers, 1000 ms of them in a window; 100 ms of service for each request."""
    table: Any = {"loads": (0.2, 0.5), "multiples": (0.5, 2.0)}
    for arrived, load, timeout in ((1, 0.1, 60.0), (4, 0.4, 300.0), (6, 0.6, 0.0)):
        batch = windows(10, arrived=arrived, served=2, service_ms=200)
        action, metrics = play(rules.hedge_table, batch, **table)
        assert metrics["load"] == pytest.approx(load)
        assert metrics["mean_service_ms"] == pytest.approx(100.0)
        assert (metrics["timeout_ms"], action == NEVER) == (timeout, timeout == 0.0)
    # Half-way between 100 and 300, by ratio, is 173.
    for multiple, timeout in ((1.7, 100.0), (1.8, 300.0)):
        batch = windows(10, arrived=1, served=1, service_ms=100)
        metrics = play(rules.hedge_table, batch, loads=(1.0,), multiples=(multiple,))[1]
        assert metrics["timeout_ms"] == timeout
    assert play(rules.hedge_table, windows(10, arrived=1))[0] == NEVER  # none was served


def test_the_schedule_is_played_hour_by_hour_and_again() -> None:
    config = rules.hedge_hourly.config(schedule=(2, 8, 0), num_windows=20)
    state, played = rules.hedge_hourly.init(config, SPEC, KEY), []
    for _ in range(8):
        played.append(
            int(rules.hedge_hourly.act(config, SPEC, state, jnp.zeros((1, 6)), KEY)[0][0, 0])
        )
        state, _ = rules.hedge_hourly.update(config, SPEC, state, windows(10), KEY)
    assert played == [2, 2, 8, 8, 0, 0, 2, 2]


def test_fixed_timeouts_are_one_program() -> None:
    """Nine timeouts, vmapped: each plays the action whose timeout its name tells."""
    names = ["hedge-3ms", "hedge-10ms", "hedge-30ms", "hedge-60ms", "hedge-100ms", "hedge-300ms",
             "hedge-600ms", "hedge-1000ms", "never-hedge"]  # fmt: skip
    agents = [AGENTS[name] for name in names]
    assert {agent.root for agent in agents} == {constant.agent}
    spec = SPEC._replace(num_actions=(9, 12))
    act = jax.vmap(lambda c: constant.act(c, spec, constant.State(), jnp.zeros((1, 6)), KEY)[0])
    played = act(stack([agent.config() for agent in agents]))
    np.testing.assert_array_equal(played[:, 0], np.repeat(np.arange(9)[:, None], 2, 1))


@pytest.mark.parametrize(
    ("agent", "values", "spec", "text"),
    [
        (constant.agent, {}, SPEC, "no action is chosen: .*from 0 to 8"),
        (constant.agent, {"action": 9}, SPEC, "action = 9 does not exist: .*from 0 to 8"),
        (constant.agent, {"action": 1.5}, SPEC, "does not exist"),
        (constant.agent, {"action": 2}, Spec(3, ContextSlice(1, 2, 1), (4, 2)), "from 0 to 1"),
        (AGENTS["hedge-3ms"], {}, Pendulum().spec, "need the straggler task"),
        (rules.hedge_p95, {}, Pendulum().spec, "need the straggler task"),
        (rules.hedge_table, {"loads": (0.2, 0.1)}, SPEC, "needs increasing loads"),
        (rules.hedge_hourly, {}, SPEC, "no schedule: .*lcpo reproduce straggler"),
        (rules.hedge_hourly, {"schedule": (1, 9)}, SPEC, "schedule holds 9: .*from 0 to 8"),
    ],
)
def test_what_cannot_be_played_is_refused(
    agent: AnyAgent, values: dict[str, Any], spec: Spec, text: str
) -> None:
    assert agent.check is not None
    with pytest.raises(InputError, match=text):
        agent.check(agent.config(**values), spec)
    AGENTS["never-hedge"].check(AGENTS["never-hedge"].config(), SPEC)  # pyright: ignore

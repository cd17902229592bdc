"""Requests: answers, errors and their statuses, security, and documents. Without a network."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_examples import World
from served import HOST, JSON, Local, write

from lcpo.errors import InputError
from lcpo.live import Decide, NotWritten, Observe, core
from lcpo.live.journal import decode
from lcpo.live.log import read
from lcpo.serve import app as apps
from lcpo.serve import openapi
from lcpo.serve.calls import Act, Calls
from lcpo.serve.calls import Observe as Observed
from lcpo.serve.events import Events

TOKEN = "0123456789abcdef0123"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OBS = {"obs": [1.0, 2.0], "context": [3.0]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A server whose agent is open; tests use streams of their own."""
    local = Local(write(tmp_path_factory.mktemp("serve"))).open()
    yield local
    local.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Local:
    """A server with a token, and without an agent."""
    (tmp_path / "token").write_text(TOKEN)
    return Local(write(tmp_path, serve='token_file = "token"'))


def log_of(local: Local) -> list[Any]:
    return [decode(record) for record in read(local.state.config.folder / "log")]


def test_act_and_observe(server: Local) -> None:
    made = server.post("/v1/act", {**OBS, "stream": "a"}).json
    assert set(made) == {"id", "action", "probability", "policy_version", "source"}
    assert made["source"] == "policy"
    outcome = {"id": made["id"], "reward": 1.5}
    assert server.post("/v1/observe", outcome).json == {"result": "ok"}
    assert server.post("/v1/observe", outcome).json == {"result": "duplicate"}
    assert server.post("/v1/observe", {**outcome, "reward": 2.0}).status == 409
    assert server.post("/v1/observe", {"id": 10**6, "reward": 1.0}).status == 404
    server.post("/v1/act", {**OBS, "context": 3.0, "stream": "a"})
    assert server.post("/v1/observe", {"stream": "a", "reward": 1.0}).json == {"result": "ok"}
    assert server.post("/v1/observe", {"reward": 1.0}).status == 400


def test_a_key_repeats_a_decision_and_a_discard_finds_it(server: Local) -> None:
    asked = {**OBS, "stream": "keys", "key": "mine"}
    first = server.post("/v1/act", asked)
    assert server.post("/v1/act", asked).body == first.body
    assert server.post("/v1/act", {**asked, "obs": [2.0, 2.0]}).status == 409
    which = {"stream": "keys", "key": "mine"}
    assert server.post("/v1/discard", which).json == {"discarded": 1}
    assert server.post("/v1/discard", which).json == {"discarded": 0}
    assert server.post("/v1/discard", {**which, "key": "never"}).json == {"discarded": 0}


def test_a_batch_observes_and_then_acts(server: Local) -> None:
    first = server.post("/v1/step", {"items": [{"act": {**OBS, "stream": s}} for s in "xy"]}).json
    ids = [item["act"]["id"] for item in first["items"]]
    items = [
        {"observe": {"id": ids[0], "reward": 1.0}, "act": {**OBS, "stream": "x"}},
        {"observe": {"id": 10**6, "reward": 1.0}, "act": {"obs": [1.0], "stream": "y"}},
    ]
    found = server.post("/v1/step", {"items": items}).json["items"]
    assert found[0]["observe"] == {"result": "ok"}
    assert found[0]["act"]["id"] == ids[1] + 1
    assert "never made" in found[1]["observe"]["error"]
    assert "obs has shape [1]" in found[1]["act"]["error"]


def test_streams_end_and_are_bounded(tmp_path: Path) -> None:
    local = Local(write(tmp_path, serve="max_streams = 2")).open()
    for stream in ("a", "b"):
        assert local.post("/v1/act", {**OBS, "stream": stream}).status == 200
    refused = local.post("/v1/act", {**OBS, "stream": "c"})
    assert refused.status == 409
    assert "there are 2 streams already" in refused.json["error"]
    assert local.post("/v1/end", {"stream": "a"}).json == {"discarded": 1}
    assert local.post("/v1/act", {**OBS, "stream": "c"}).status == 200
    assert local.post("/v1/end", {"stream": "nobody"}).status == 404
    local.close()


def test_operators_change_modes_and_versions(tmp_path: Path) -> None:
    rest = "[switchback]\nlength = 60.0"
    local = Local(write(tmp_path, rest=rest, mode="shadow")).open()
    assert local.post("/v1/act", OBS).status == 409  # shadow mode needs taken
    assert local.post("/v1/act", {**OBS, "taken": 2}).json["source"] == "incumbent"
    mode = {"mode": "switchback", "why": "to measure"}
    assert local.post("/v1/mode", mode).json == {"mode": "switchback"}
    assert local.get("/v1/status").json["switchback_design"]["length"] == 60.0
    other = {**mode, "switchback": {"length": 30.0, "share": 0.25}}
    assert local.post("/v1/mode", other).status == 200
    assert local.get("/v1/status").json["switchback_design"]["share"] == 0.25
    assert local.post("/v1/mode", {"mode": "live"}).status == 400  # without a reason
    assert local.post("/v1/mode", {"mode": "live", "why": "better"}).status == 200
    assert local.post("/v1/act", {**OBS, "stream": "b", "taken": 2}).status == 409
    assert local.post("/v1/rollback", {"why": "test"}).json == {"policy_version": 1}
    assert local.post("/v1/rollback", {"why": "test", "version": 99}).status == 400
    assert local.post("/v1/checkpoint", {}).json["sequence"] > 0
    assert [event["event"] for event in local.events if event["event"] != "refused"] == [
        "mode", "mode", "mode", "rollback",
    ]  # fmt: skip
    assert "lcpo_rollbacks_total 1.0" in local.get("/metrics").body.decode()
    local.close()


def test_switchback_without_a_design_says_where_to_give_one(tmp_path: Path) -> None:
    local = Local(write(tmp_path, mode="shadow")).open()
    refused = local.post("/v1/mode", {"mode": "switchback", "why": "to measure"})
    assert refused.status == 400
    assert '"switchback": {"length": seconds}, or [switchback]' in refused.json["error"]
    local.close()


def test_errors_have_one_line_and_a_status(server: Local) -> None:
    def status(method: str, path: str, body: bytes = b"{}", *headers: Any) -> int:
        reply = server.send(method, path, body, *headers)
        assert list(reply.json) == ["error"]
        assert "\n" not in reply.json["error"]
        return reply.status

    assert status("POST", "/v1/act", b"{", HOST, JSON) == 400
    assert status("POST", "/v1/act", b'{"obs": [NaN]}', HOST, JSON) == 400
    assert status("POST", "/v1/act", b'{"obs": [1e999, 1]}', HOST, JSON) == 400
    assert status("POST", "/v1/act", b"[" * 50_000, HOST, JSON) == 400
    assert status("POST", "/v1/act", b'{"obs": [1], "folder": "x"}', HOST, JSON) == 400
    assert status("POST", "/v1/act", b"x" * 65_537, HOST, JSON) == 413
    assert status("POST", "/v1/act", b"{}", HOST) == 415
    assert status("POST", "/v1/act", b"{}", HOST, (b"content-type", b"text/plain")) == 415
    assert status("GET", "/v1/act", b"", HOST) == 405
    assert status("POST", "/v1/status", b"", HOST) == 405
    assert status("GET", "/v1/../config.toml", b"", HOST) == 404
    assert status("GET", "/config.toml", b"", HOST) == 404
    for host in (b"evil.example", b"", b"127.0.0.1.evil.example", b"localhost.evil.example:80"):
        assert status("GET", "/v1/status", b"", (b"host", host)) == 421
    assert status("GET", "/v1/status", b"") == 421
    for origin in (b"http://evil.example", b"null", b"http://localhost:9"):
        assert status("POST", "/v1/act", b"{}", HOST, JSON, (b"origin", origin)) == 403
    own = (b"origin", b"http://localhost")
    assert server.post("/v1/act", {**OBS, "stream": "own"}, own).status == 200
    for host in (b"localhost:8080", b"127.0.0.1", b"[::1]:1", b"LOCALHOST"):
        assert server.send("GET", "/v1/status", b"", (b"host", host)).status == 200


def test_a_body_that_was_not_read_ends_the_connection(server: Local) -> None:
    refused = server.send("POST", "/v1/nothing", b"{}", HOST, JSON)
    assert refused.headers[b"connection"] == b"close"
    assert b"connection" not in server.post("/v1/act", {**OBS, "stream": "kept"}).headers


def test_calls_need_the_token(guarded: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    for path in (*openapi.CALLS, "/v1/status"):
        method = "GET" if path == "/v1/status" else "POST"
        for wrong in ("", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer "):
            given = [(b"authorization", wrong.encode())] if wrong else []
            refused = guarded.send(method, path, b"", HOST, JSON, *given)
            assert refused.status == 401, (path, wrong)
            assert refused.headers[b"www-authenticate"] == b"Bearer"
            assert TOKEN.encode() not in refused.body
    monkeypatch.setattr(hmac, "compare_digest", compare)
    bearer = (b"authorization", f"bearer {TOKEN}".encode())
    assert guarded.get("/v1/status", bearer).status == 200
    assert compared == [(TOKEN.encode(), TOKEN.encode())]  # in constant time
    for path in ("/livez", "/readyz?verbose", "/metrics", "/openapi.json"):
        assert TOKEN.encode() not in guarded.get(path).body
    assert TOKEN not in guarded.lines.getvalue()


def test_ready_only_with_an_agent(guarded: Local) -> None:
    assert guarded.get("/livez").status == 200
    assert guarded.send("GET", "/livez", b"").status == 200  # probes may have any Host
    assert (guarded.get("/readyz").status, guarded.get("/readyz").body) == (503, b"not ready\n")
    assert b"agent: starting" in guarded.get("/readyz?verbose").body
    assert b"\nlcpo_ready 0.0\n" in guarded.get("/metrics").body
    bearer = (b"authorization", f"Bearer {TOKEN}".encode())
    refused = guarded.post("/v1/act", OBS, bearer)
    assert (refused.status, refused.headers[b"retry-after"]) == (503, b"1")
    assert guarded.get("/v1/status", bearer).json["ready"] is False


def test_a_full_disk_makes_it_unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Local(write(tmp_path)).open()
    agent = local.state.agent
    assert agent is not None

    def full(*_: Any, **__: Any) -> None:
        raise NotWritten("the log could not be written: the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(agent, "act", full)
        refused = local.post("/v1/act", OBS)
        assert (refused.status, refused.headers[b"retry-after"]) == (503, b"1")
        assert b"log: the log could not be written" in local.get("/readyz?verbose").body
        assert local.get("/readyz").status == 503
        assert b"\nlcpo_ready 0.0\n" in local.get("/metrics").body
    assert local.post("/v1/act", OBS).status == 200
    assert local.get("/readyz").status == 200
    assert b"\nlcpo_ready 1.0\n" in local.get("/metrics").body
    found = local.get("/v1/status").json["problems"]
    assert [problem["text"] for problem in found] == [
        "the log could not be written: the disk is full"
    ]
    local.close()


def test_answers_name_no_folder_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(write(tmp_path)).open()
    agent = local.state.agent
    assert agent is not None

    def full(*_: Any, **__: Any) -> None:
        raise NotWritten(f"the log in {agent.folder / 'log'} could not be written")

    with monkeypatch.context() as patch:
        patch.setattr(agent, "act", full)
        refused = local.post("/v1/act", OBS)
        assert refused.json == {"error": "the log in log could not be written"}
        unknown = local.post("/v1/rollback", {"why": "test", "version": 99})
        assert unknown.json == {"error": "version 99 is not kept in versions: kept are 0"}
        ready, status = local.get("/readyz?verbose"), local.get("/v1/status")
    assert b"log: the log in log could not be written" in ready.body
    assert status.json["problems"][0]["text"] == "the log in log could not be written"
    for reply in (refused, unknown, ready, status):
        assert str(tmp_path).encode() not in reply.body
    assert str(tmp_path) in local.lines.getvalue()  # operators read the whole path
    local.close()


def test_a_log_that_cannot_be_written_fails_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise NotWritten("the disk is full")

    with open("/dev/full", "w", buffering=1) as stderr:
        local = Local(write(tmp_path)).open()
        local.state.events._stream = stderr
        with monkeypatch.context() as patch:
            patch.setattr(local.state.agent, "act", full)
            assert local.post("/v1/act", OBS).status == 503
        assert local.post("/v1/act", OBS).status == 200  # it reports that the disk has space again
        local.close()
        local.state.events.write("stopped")
        with contextlib.suppress(OSError):  # of what it has kept to write
            stderr.close()
    stderr_gone = Events(stderr)
    stderr_gone.refused(status=400)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_outcomes_that_wait_for_learning_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    live = f'late = 50\ndurability = "{durability}"'
    local = Local(write(tmp_path, live=live)).open()
    agent, free = local.state.agent, threading.Event()
    assert agent is not None
    learning = agent._core.learning
    compute = learning.compute

    def slow(*given: Any) -> Any:
        free.wait(60.0)
        return compute(*given)

    monkeypatch.setattr(core, "BACKLOG", 2)
    monkeypatch.setattr(learning, "compute", slow)
    made = [local.post("/v1/act", {**OBS, "stream": f"s{k}"}).json["id"] for k in range(40)]
    ended = {"reward": 1.0, "terminated": True, "next_obs": [1.0, 2.0], "next_context": 3.0}

    async def play() -> None:
        calls, observe = Calls(local.state), msgspec.json.Decoder(Observed)
        told = []
        for number in made:  # two rollouts are complete after 16: these wait, and so does the 16th
            body = observe.decode(json.dumps({"id": number, **ended}))
            told.append(asyncio.create_task(calls.observe(agent, body, None)))
            if len(told) < 16:
                await told[-1]
        body = msgspec.json.decode(json.dumps({**OBS, "stream": "other"}), type=Act)
        found = await asyncio.wait_for(calls.act(agent, body, None), 30.0)
        assert found.id == 40
        assert not free.is_set()
        assert not any(task.done() for task in told[15:])
        free.set()
        assert {found.result for found in await asyncio.gather(*told)} == {"ok"}

    timer = threading.Timer(40.0, free.set)  # if it holds up the test itself
    timer.start()
    asyncio.run(play())
    timer.cancel()
    local.close()


def test_an_update_within_a_call_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(write(tmp_path, live='late = 50\nlearn = "now"')).open()
    agent, free = local.state.agent, threading.Event()
    assert agent is not None
    compute = agent._core.learning.compute

    def slow(*given: Any) -> Any:
        free.wait(5.0)
        return compute(*given)

    monkeypatch.setattr(agent._core.learning, "compute", slow)
    made = [local.post("/v1/act", {**OBS, "stream": f"s{k}"}).json["id"] for k in range(8)]
    ended = {"reward": 1.0, "terminated": True, "next_obs": [1.0, 2.0], "next_context": 3.0}
    bodies = [msgspec.convert({"id": number, **ended}, Observed) for number in made]

    async def play() -> None:
        calls = Calls(local.state)
        told = [asyncio.create_task(calls.observe(agent, body, None)) for body in bodies]
        await asyncio.sleep(0.2)
        assert not all(task.done() for task in told)  # one learns, and the loop goes on
        free.set()
        assert {found.result for found in await asyncio.gather(*told)} == {"ok"}

    asyncio.run(play())
    assert agent.stats().updates == 1
    local.close()


def test_an_end_counts_what_it_discards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other streams decide in the meantime."""
    local = Local(write(tmp_path)).open()
    agent = local.state.agent
    assert agent is not None
    for stream in "aaab":
        local.post("/v1/act", {**OBS, "stream": stream})
    leave = agent.end

    def end(stream: str = "0") -> int:
        for _ in range(5):
            agent.act([1.0, 2.0], [3.0], stream="b")
        return leave(stream)

    monkeypatch.setattr(agent, "end", end)
    assert local.post("/v1/end", {"stream": "a"}).json == {"discarded": 1}
    assert agent.stats().discarded == 1
    local.close()


def test_a_name_of_a_stream_is_short_and_not_empty(server: Local) -> None:
    act = {**OBS, "stream": "0"}
    number = server.post("/v1/act", act).json["id"]
    for name in ("", "x" * 201):
        for path, body in (
            ("/v1/act", OBS), ("/v1/observe", {"reward": 1.0}), ("/v1/discard", {}), ("/v1/end", {})
        ):  # fmt: skip
            refused = server.post(path, {**body, "stream": name})
            assert refused.status == 400, path
            assert "at `$.stream`" in refused.json["error"]
    assert server.post("/v1/observe", {"id": number, "reward": 2.0}).json == {"result": "ok"}
    for why in ("", "x" * 1001):
        assert server.post("/v1/rollback", {"why": why}).status == 400
    unknown = server.post("/v1/discard", {"id": 10**6})
    assert unknown.status == 404
    assert unknown.json["error"].startswith("decision 1000000 is not open")
    assert server.post("/v1/discard", {"id": -1}).status == 400


def test_a_bug_is_reported_and_not_shown(server: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(server.state.agent, "act", broken)
    found = server.post("/v1/act", {**OBS, "stream": "bug"})
    assert (found.status, found.json) == (500, {"error": "internal error: the server's log has it"})
    assert "KeyError" in server.events[-1]["traceback"]


def test_traces_are_logged(server: Local) -> None:
    header = (b"traceparent", TRACE.encode())
    made = server.post("/v1/act", {**OBS, "stream": "traced"}, header).json["id"]
    server.post("/v1/observe", {"id": made, "reward": 1.0}, header)
    wrong = (b"traceparent", b"00-x")
    other = server.post("/v1/act", {**OBS, "stream": "traced"}, wrong).json["id"]
    entries = log_of(server)
    traces = {e.id: e.trace for e in entries if isinstance(e, Decide)}
    assert (traces[made], traces[other]) == (TRACE, None)
    assert [e.trace for e in entries if isinstance(e, Observe) and e.id == made] == [TRACE]


def test_the_page_has_a_strict_policy(server: Local) -> None:
    for path, (name, kind) in apps.PAGE.items():
        found = server.get(path)
        assert found.status == 200, name
        assert found.headers[b"content-type"] == kind
        assert found.headers[b"content-security-policy"].startswith(b"default-src 'none'; ")
        assert b"unsafe" not in found.headers[b"content-security-policy"]
        assert found.headers[b"x-content-type-options"] == b"nosniff"
        assert found.headers[b"cache-control"] == b"no-store"
    assert server.send("HEAD", "/", b"", HOST).body == b""


def test_status_and_metrics_agree_with_the_agent(tmp_path: Path) -> None:
    local = Local(write(tmp_path)).open()
    world = World()
    for _ in range(30):
        obs, context = world.seen
        made = local.post("/v1/act", {"obs": obs, "context": context}).json
        reward = world.play(made["action"][0])
        local.post("/v1/observe", {"id": made["id"], "reward": reward})
    agent = local.state.agent
    assert agent is not None
    assert agent.wait(60.0)
    local.state.look()
    status, stats = local.get("/v1/status").json, agent.stats()
    assert stats.updates == 3
    assert set(status) == {
        "version", "config_hash", "started", "now", "mode", "ready", "draining", "stats",
        "versions", "problems", "series", "log", "switchback_design",
    }  # fmt: skip
    assert (status["ready"], status["mode"]) == (True, "live")
    for name in ("updates", "decisions", "mean_reward", "open", "sequence"):
        assert status["stats"][name] == getattr(stats, name)
    assert sum(status["series"]["decisions"]) == 30
    assert {len(column) for column in status["series"].values()} == {len(status["series"]["start"])}
    lines = dict(
        line.rsplit(" ", 1)
        for line in local.get("/metrics").body.decode().splitlines()
        if not line.startswith("#")
    )
    for name, value in (
        ('lcpo_decisions_total{source="policy"}', 30.0),
        ('lcpo_observations_total{result="ok"}', 30.0),
        ("lcpo_act_duration_seconds_count", 30.0),
        ("lcpo_updates_total", 3.0),
        ("lcpo_open_decisions", float(stats.open)),
        ("lcpo_log_unapplied_records", 30.0 - 24.0 - 1.0),
        ('lcpo_mode{mode="live"}', 1.0),
        ('lcpo_mode{mode="shadow"}', 0.0),
    ):
        assert float(lines[name]) == value, name
    assert float(lines['lcpo_reward_mean{source="policy"}']) == pytest.approx(
        stats.mean_reward["policy"]
    )
    assert not any("stream" in name for name in lines)
    local.close()
    again = Local(tmp_path / "config.toml")
    again.open()
    assert again.state.agent is not None
    again.state.rebuild(again.state.agent)
    assert sum(again.get("/v1/status").json["series"]["decisions"]) == 30
    again.close()


def test_a_rollback_changes_the_policy_and_is_no_update(tmp_path: Path) -> None:
    time = 100.0
    local = Local(write(tmp_path), clock=lambda: time).open()
    state, agent, world = local.state, local.state.agent, World()
    assert agent is not None
    for _ in range(8):
        obs, context = world.seen
        made = local.post("/v1/act", {"obs": obs, "context": context}).json
        reward = world.play(made["action"][0])
        local.post("/v1/observe", {"id": made["id"], "reward": reward})
    local.post("/v1/act", {"obs": world.seen[0], "context": world.seen[1]})
    assert agent.wait(60.0)
    time = 200.0
    state.look()
    assert (state.version, state.version_time, state.learned_time) == (1, 200.0, 200.0)
    time = 300.0
    assert local.post("/v1/rollback", {"why": "test"}).json == {"policy_version": 2}
    assert (state.version, state.version_time, state.learned_time) == (2, 300.0, 200.0)
    logged = {type(entry).__name__: entry.time for entry in log_of(local) if hasattr(entry, "time")}
    local.close()
    again = Local(tmp_path / "config.toml")
    again.open()
    assert again.state.agent is not None
    again.state.rebuild(again.state.agent)  # a new process knows both from the log
    assert again.state.version_time == logged["Rollback"]
    assert again.state.learned_time == logged["Learned"] < logged["Rollback"]
    again.close()


def test_the_description_has_every_call(server: Local) -> None:
    found = server.get("/openapi.json").json
    assert found["openapi"] == "3.1.0"
    assert set(found["paths"]) == {*openapi.CALLS, *openapi.OTHERS} - {"/page.css"}
    text = json.dumps(found)
    parts = found["components"]["schemas"]
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in parts
    assert parts["Act"]["required"] == ["obs"]
    for name in ("observe", "discard", "end"):
        assert "404" in found["paths"][f"/v1/{name}"]["post"]["responses"], name
    for path in found["paths"]:
        method = "POST" if path in openapi.CALLS else "GET"
        assert server.send(method, path, b"{}" if method == "POST" else b"", HOST, JSON).status in (
            200, 400,
        )  # fmt: skip


def test_what_is_due_happens_in_a_thread_and_its_failure_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(write(tmp_path, live="late = 50\ncheckpoint_every = 3")).open()
    agent = local.state.agent
    assert agent is not None
    threads: list[str] = []

    def checkpoint() -> int:
        threads.append(threading.current_thread().name)
        raise InputError("the checkpoint is broken")

    with monkeypatch.context() as patch:
        patch.setattr(agent, "checkpoint", checkpoint)
        for _ in range(3):
            assert local.post("/v1/act", OBS).status == 200
        local.state.tasks.submit(lambda: None).result(60.0)
    assert threads
    assert {name.split("_")[0] for name in threads} == {"lcpo-task"}
    found = local.get("/v1/status").json["problems"]
    assert "the checkpoint is broken" in found[0]["text"]
    local.close()

"""Through HTTP in lock step, the learner is the same, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from live_examples import SMALL, SPEC, World, opened
from served import Local, running, write

from lcpo import Learner
from lcpo.live import replay
from lcpo.serve.client import Client

STEPS = 60
LIVE = 'learn = "now"'


def learner_digest(steps: int) -> str:
    """Of a `Learner` that a simulator drives in lock step."""
    learner, world = Learner("a2c", SPEC, SMALL), World()
    for _ in range(steps):
        learner.observe(world.play(int(learner.act(*world.seen).action[0])))
    return learner.state.digest()


def test_the_learner_is_the_same(tmp_path: Path) -> None:
    expected = learner_digest(STEPS)
    agent, world = opened(tmp_path / "live"), World()
    for _ in range(STEPS):
        decision = agent.act(*world.seen)
        agent.observe(world.play(int(decision.action[0])), id=decision.id)
    assert agent.digest() == expected
    agent.close()
    local, world = Local(write(tmp_path, live=LIVE)).open(), World()
    for _ in range(STEPS):
        obs, context = world.seen
        made = local.post("/v1/act", {"obs": obs, "context": context}).json
        reward = world.play(made["action"][0])
        answer = local.post("/v1/observe", {"id": made["id"], "reward": reward})
        assert answer.json == {"result": "ok"}
    assert local.state.agent is not None
    assert local.state.agent.digest() == expected
    local.close()
    assert replay(tmp_path / "agent").state.digest() == expected


@pytest.mark.learn
def test_the_learner_is_the_same_over_a_network(tmp_path: Path) -> None:
    steps, world = 400, World()
    with running(tmp_path, live=LIVE) as server, Client(server.url, timeout=60.0) as client:
        for _ in range(steps):
            made = client.act(*world.seen)
            client.observe(made.id, world.play(made.action[0]))
        assert client.flush(60.0)
        server.post("/v1/checkpoint", {})
        assert server.stop() == 0
    newest = max((tmp_path / "agent" / "checkpoints").glob("*.json"))
    assert json.loads(newest.read_text())["learner"] == learner_digest(steps)

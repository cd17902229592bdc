"""`lcpo replay` and `lcpo live-report`, and the examples of live agents."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from live_examples import SMALL, SPEC, Clock, World, opened, play

from lcpo.errors import InputError
from lcpo.live import Limits, Rule, Switchback, replay
from lcpo.live import ledger as ledgers
from lcpo.live import open as open_live
from lcpo.study.report import live as reports

DESIGN = Switchback(600.0, burn_in=60.0)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that has been in every mode."""
    folder, clock, world = tmp_path_factory.mktemp("live") / "agent", Clock(), World()
    options: dict[str, Any] = {"incumbent": lambda _: 1, "guard": Limits(high=2), "fallback": 0}
    agent = opened(folder, clock, rollback=Rule(50.0, 20), mode="shadow", **options)
    play(agent, world, 20)
    agent.set_mode("switchback", DESIGN, why="to measure")
    play(agent, world, 100)
    agent.set_mode("live")
    play(agent, world, 20)
    agent.rollback()
    agent.close()
    return folder


def test_replay_says_what_it_has_checked(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert run("replay", str(folder)) == 0
    said = capsys.readouterr().out
    assert "140 decisions, 140 rewards, 18 updates (0 dropped)" in said
    assert "equal to the learner at 2 checkpoints, bit for bit" in said
    digest = json.loads(max((folder / "checkpoints").glob("*.json")).read_text())["learner"]
    assert f"digest {digest}" in said
    assert run("replay", str(folder), "--until", "50") == 0
    assert "events 1 to 50: " in capsys.readouterr().out
    before = sorted(path.name for path in folder.rglob("*"))
    for wrong, message in (
        (["--config", "gamma=0.5"], "a2c learns from its own actions"),
        (["--config", "gamma"], "NAME=VALUE"),
        (["--until", "x"], "until"),
    ):
        assert run("replay", str(folder), *wrong) == 2
        assert message in capsys.readouterr().err
    assert run("replay", str(folder.parent)) == 2
    assert sorted(path.name for path in folder.rglob("*")) == before


@pytest.mark.learn
def test_other_settings_can_be_replayed_off_policy(tmp_path: Path) -> None:
    sizes = {"batch_size": 8, "random_steps": 8, "buffer_size": 64}
    agent = opened(tmp_path, Clock(), agent="ddqn", config={**SMALL, **sizes}, steps=1000)
    play(agent, World(), 30)
    digest = agent.digest()
    agent.close()
    assert replay(tmp_path).state.digest() == digest
    same, other = (replay(tmp_path, config={"gamma": gamma}) for gamma in (0.99, 0.5))
    assert (same.checked, other.checked) == (0, 0)
    assert same.state.digest() == digest != other.state.digest()
    assert other.state.updates == 3
    with pytest.raises(InputError, match="gama"):
        replay(tmp_path, config={"gama": 0.5})
    agent = opened(tmp_path, Clock(), keep_log=False, segment_bytes=500)
    agent.rollback(0)
    agent.rollback(0)
    with pytest.raises(InputError, match="the log begins after event"):
        replay(tmp_path, config={"gamma": 0.5})
    agent.close()


@pytest.mark.learn
def test_other_settings_need_all_that_was_learned(tmp_path: Path) -> None:
    sizes = {"batch_size": 8, "random_steps": 8, "buffer_size": 64}
    with opened(tmp_path, agent="ddqn", config={**SMALL, **sizes}, steps=1000) as agent:
        agent.rollback(0)
    with pytest.raises(InputError, match="there was a rollback"):
        replay(tmp_path, config={"gamma": 0.5})


def test_the_ledger_has_every_decision_and_its_reward(folder: Path) -> None:
    found = ledgers.load(folder)
    assert len(found.times) == 140
    assert not np.isnan(found.rewards).any()
    assert (np.diff(found.times) == 60.0).all()
    by_source = np.bincount(found.sources, minlength=4)
    turns = [DESIGN.is_policys(DESIGN.block(60.0 * step)) for step in range(21, 121)]
    assert by_source[1] == 20 + turns.count(False)  # the incumbent's
    assert by_source.sum() == 140
    assert found.contexts.shape == (140, 1)
    assert set(found.contexts[:, 0]) == {0.5, 2.0}
    assert len(found.updates) == 17  # the rollback is a version, but no update
    (experiment,) = found.experiments
    assert experiment.design == DESIGN
    assert experiment.result.difference.n == 5
    rewards = found.rewards[20:120]
    assert rewards.min() <= experiment.result.incumbent <= rewards.max()


def test_the_report_shows_what_happened(folder: Path, capsys: pytest.CaptureFixture) -> None:
    out = folder / "report"
    assert run("live-report", str(folder)) == 0
    said = capsys.readouterr().out
    for text in ("Who decided", "Switchback experiments", "Over time", "Drift", "to measure"):
        assert text in said
    page = (out / "report.html").read_text()
    assert "policy minus incumbent" in page
    assert "<script src" not in page
    rows = list(csv.DictReader((out / "switchback.csv").read_text().splitlines()))
    found = ledgers.load(folder).experiments[0].result
    assert float(rows[0]["difference_mean"]) == found.difference.mean
    assert float(rows[0]["difference_low"]) == found.difference.low
    events = list(csv.DictReader((out / "events.csv").read_text().splitlines()))
    assert [row["event"] for row in events] == ["mode", "mode", "rollback"]
    assert run("live-report", str(folder)) == 0  # again: it replaces its own files
    assert run("live-report", str(folder / "log")) == 2


def test_a_report_on_nothing(tmp_path: Path) -> None:
    open_live(tmp_path, "a2c", SPEC, SMALL).close()
    report = reports.make_report(ledgers.load(tmp_path))
    assert report.figures == {}
    assert report.tables["table"].rows[0][1] == 0


@pytest.mark.learn
def test_the_shortest_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    loop = importlib.import_module("live_loop")
    loop.main(minutes=30)
    loop.main(minutes=30)  # it continues
    assert len(ledgers.load(tmp_path / "live-loop").times) == 60


@pytest.mark.learn
def test_an_autoscaler_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    importlib.import_module("live_autoscaler").main("service", days=4, training=2_000)
    assert "policy minus incumbent" in capsys.readouterr().out
    assert replay(tmp_path / "service" / "agent").checked >= 1

"""What is told while runs run: callbacks, and trackers behind one protocol."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import QUICK, run

import lcpo
from lcpo.errors import InputError, MissingPackage
from lcpo.run import track
from lcpo.run.drive import group
from lcpo.run.events import Event, Finished, Note, Progress
from lcpo.run.plan.plan import plan
from lcpo.run.store import record

SMALL: dict[str, Any] = {
    "agent": "a2c", "trace": "revisit", "steps": 400, "seeds": 1, "workers": 0, "progress": False,
    "config": {"hidden": [4], "rollout_length": 20},
}  # fmt: skip


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "CHUNK_UPDATES", 5)


def test_callbacks_hear_metrics_and_the_end(tmp_path: Path) -> None:
    heard: list[Event] = []
    (result,) = lcpo.train(**SMALL, out=tmp_path / "o", callbacks=[heard.append], track="jsonl")
    *progress, end = heard
    assert end == Finished(result.job.name)
    chunks = [event for event in progress if isinstance(event, Progress)]
    assert [event.step for event in chunks] == [100, 200, 300, 400]
    for name in ("reward", "value_loss"):
        means = [event.metrics[name] for event in chunks]
        np.testing.assert_allclose(np.mean(means), result.record[name].mean(), rtol=1e-5)
    total = sum(event.metrics["episodes"] for event in chunks)
    assert total == result.record["episodes"].sum()
    lines = [json.loads(x) for x in (tmp_path / "o" / "events.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["progress"] * 4 + ["finished"]
    assert lines[-2]["metrics"]["reward"] == chunks[-1].metrics["reward"]
    assert all(line["time"] > 1e9 for line in lines)


def test_means_of_rows_that_differ_in_length() -> None:
    rows = {
        "step": np.array([20, 30]), "updates": np.array([2, 1]), "epochs": np.array([1, 1]),
        "epoch_return": np.array([1.0, 2.0]), "loss": np.array([3.0, 9.0]),
        "episodes": np.array([2.0, 1.0]), "episode_return_sum": np.array([4.0, 5.0]),
        "episode_length_sum": np.array([10.0, 10.0]), "total_late": np.array([1.0, 2.0]),
    }  # fmt: skip
    assert record.means(rows) == {
        "episode_return": 3.0, "loss": 5.0, "episodes": 3.0, "episode_return_sum": 9.0,
        "episode_length_sum": 20.0, "total_late": 3.0,
    }  # fmt: skip


def test_a_callback_that_raises_stops_the_runs(tmp_path: Path) -> None:
    def enough(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lcpo.train(**SMALL, out=tmp_path / "o", callbacks=[enough])
    for wrong in (enough, [3], {"a": enough}, None):
        with pytest.raises(InputError, match="callbacks"):
            lcpo.train(**SMALL, out=tmp_path / "p", callbacks=wrong)  # pyright: ignore


def test_tensorboard_reads_it_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    lcpo.train(**SMALL, out=tmp_path / "o", track=["tensorboard"])
    (file,) = (tmp_path / "o" / "tensorboard").glob("*/events.out*")
    found: dict[str, list[int]] = {}
    content = file.read_bytes()
    while content:  # length, its checksum, the event, its checksum
        size = int.from_bytes(content[:8], "little")
        event = event_pb2.Event.FromString(content[12 : 12 + size])  # pyright: ignore
        content = content[16 + size :]
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    assert found["run/reward"] == found["run/value_loss"] == [100, 200, 300, 400]


def test_wandb_gets_a_run_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that stands for the real one: what it is asked for."""
    asked: list[Any] = []

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            asked.append((values, step))

        def finish(self, exit_code: int = 0) -> None:
            asked.append(exit_code)

    def init(**given: Any) -> Run:
        asked.append(given)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))  # pyright: ignore
    (job,) = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=[0])
    with track.tracking(["wandb"], [job], tmp_path / "o") as (tracker,):
        tracker(Note("before"))
        metrics = {"loss": 1.0, "episode_return": float("nan")}
        tracker(Progress(job.name, "run", 100, 0, 0.0, metrics))
        tracker(Finished(job.name))
    given, logged, end = asked
    assert (given["name"], given["group"], given["resume"]) == (job.name, "o", "allow")
    assert given["config"] == job.to_json()
    assert logged == ({"run/loss": 1.0}, 100)
    assert end == 0


def test_what_is_missing_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingPackage, match=r"pip install 'lcpo\[wandb\]'"):
        lcpo.train(**SMALL, out=tmp_path / "o", track="jsonl,wandb")
    assert not (tmp_path / "o").exists()
    for words, told in (
        (["tensorbord"], "unknown tracker 'tensorbord': did you mean 'tensorboard'?"),
        (["jsonl,jsonl"], "name each once"),
        ([""], "unknown tracker"),
    ):
        out = ["--out", str(tmp_path / "o")]
        assert run("train", "--trace", "revisit", *out, "--track", *words) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(InputError, match="track"):
        lcpo.train(**SMALL, out=tmp_path / "o", track=3)  # pyright: ignore


@pytest.mark.parametrize("place", ["tensorboard", "tensorboard/RUN", "events.jsonl", "wandb"])
def test_trackers_write_into_the_folder_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    out, elsewhere = tmp_path / "o", tmp_path / "elsewhere"
    command = ["train", "--agent", "a2c", "--env", "pendulum-v1", "--steps", "400", "--seeds", "1"]
    command += ["--out", str(out), *QUICK]
    assert run(*command, "--plan-only") == 0
    elsewhere.mkdir()
    link = out / place.replace("RUN", "a2c-pendulum-v1-none-s0")
    link.parent.mkdir(exist_ok=True)
    loop = "is a broken link"
    for target, told in ((elsewhere, "is a link that leads out"), (link.name, loop)):
        link.symlink_to(target)
        assert run(*command, "--resume", "--track", "jsonl", "tensorboard") == 2
        assert f"{link} {told}" in capsys.readouterr().err
        link.unlink()
    assert list(elsewhere.iterdir()) == []


def test_events_are_added_to_events_only(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("of my own\n")
    with pytest.raises(InputError, match="was not written by --track jsonl"):
        track.json_lines([], tmp_path).__enter__()
    (tmp_path / "events.jsonl").write_text("")
    for _ in range(2):
        with track.json_lines([], tmp_path) as hear:
            hear(Finished("a"))
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 2

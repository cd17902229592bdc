"""Frozen policies: what an evaluation is, where it goes, and what a video shows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import PIL.Image
import pytest

import lcpo
from lcpo.cli import main
from lcpo.policy import find_runs
from lcpo.run.drive import frozen
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import load_results
from lcpo.study.measure import stats
from lcpo.study.play import video
from lcpo.study.play.evaluate import evaluate
from lcpo.types import ContextSlice, Spec

SMALL: dict[str, Any] = {"hidden": [4], "rollout_length": 20}
QUIET: dict[str, Any] = {"workers": 0, "progress": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of an agent that trains, and then walks along a trace that changes at each row."""
    out = tmp_path_factory.mktemp("runs") / "o"
    lcpo.train("prescient-a2c", "pendulum", trace="ou", steps=600, training_steps=40, seeds=2,
               out=out, config=SMALL, **QUIET)  # fmt: skip
    return out


def test_an_evaluation_is_what_ends_a_prescient_run(runs: Path) -> None:
    """With the keys of its last phase it gives the record of that phase."""
    result = load_results(runs)[1]
    setup, agent = frozen.load_agent(result)
    there = frozen.elsewhere(setup)
    steps: list[int] = []
    (found,) = frozen.act_only(there, agent, [result.job.seed], setup.phases[0].end, steps.append)
    assert sum(steps) == 600
    assert found["episodes"].sum() == 3
    for name in ("episode_return_sum", "reward", "epoch_return"):
        np.testing.assert_allclose(found[name], result.record[name], rtol=1e-4, err_msg=name)


def test_policies_seeds_and_intervals(runs: Path) -> None:
    found = evaluate(runs, seeds=[5, 6])
    assert [set(policy.earned) for policy in found.policies] == [{5, 6}] * 2
    values = [list(policy.earned.values()) for policy in found.policies]
    assert len(np.unique(values)) == 4, "every policy and every seed counts"
    (row,) = found.table.texts()
    assert (row[0], *row[3:]) == ("prescient-a2c", "2", "2")
    over = stats.mean_ci(np.mean(values, axis=1))
    assert row[1].startswith(f"{over.mean:.0f} ±")
    alone = evaluate(runs, find_runs(runs)[1].job.name, seeds=[6, 5])
    assert alone.policies[0].earned == pytest.approx(found.policies[1].earned, rel=1e-3)
    over = stats.mean_ci(values[1])
    assert alone.table.texts()[0][1].startswith(f"{over.mean:.0f} ±"), "over the seeds of the one"


def test_the_command_writes_what_it_prints(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(runs), "--seeds", "2", "--trace", "iid"]
    assert main.main([*words, "--out", str(tmp_path / "e")]) == 0
    shown = capsys.readouterr().out
    assert "pendulum, trace iid, 600 steps; frozen policies" in shown
    assert (tmp_path / "e" / "table.txt").read_text().strip() in shown
    rows = list(csv.DictReader(io.StringIO((tmp_path / "e" / "seeds.csv").read_text())))
    assert [(row["seed_of_run"], row["seed"]) for row in rows] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"),
    ]  # fmt: skip
    elsewhere = evaluate(runs, seeds=2, trace="iid").policies[0].earned
    assert float(rows[0]["earned"]) == pytest.approx(elsewhere[0], rel=1e-6)
    here = evaluate(runs, seeds=2).policies[0].earned
    assert here[0] != pytest.approx(elsewhere[0], rel=1e-6), "the trace matters"


def test_scales_go_with_the_policy_or_with_the_paper(tmp_path: Path) -> None:
    file = tmp_path / "wind.npy"
    np.save(file, np.ones((500, 2)))
    ours = [
        frozen.elsewhere(frozen.Setup(job), trace, scale).job.scale
        for job, trace, scale in (
            (plan_one("hopper", "1", None), "3", None),  # 1, and an eighth
            (plan_one("hopper", "ou", 0.5), str(file), None),
            (plan_one("hopper", "ou", 0.5), str(file), 2.0),
            (plan_one("hopper", "ou", 0.5), None, None),
        )
    ]
    assert ours == [0.125, 0.5, 2.0, 0.5]


def plan_one(env: str, trace: str, scale: float | None) -> Any:
    return plan("a2c", env, trace=trace, steps=400, seeds=1, scale=scale)[0]


@pytest.mark.learn
def test_a_user_environment_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It steps outside the compiler, and makes its own context."""
    out = tmp_path / "o"
    env: Any = lcpo.from_gymnasium("gym_examples:Walk", context="key:wind")
    lcpo.train("a2c", env, steps=200, seeds=1, out=out, config=SMALL, **QUIET)
    assert evaluate(out, seeds=1).policies
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(lcpo.InputError, match="not part of lcpo"):
        evaluate(out)
    found = evaluate(out, seeds=2, trust=True)
    assert np.isfinite(list(found.policies[0].earned.values())).all()
    with pytest.raises(lcpo.InputError, match="takes no trace"):
        evaluate(out, trace="3", trust=True)
    setup, agent = frozen.load_agent(find_runs(out)[0])
    shots = list(video.play(setup, agent, seed=0, start=0, steps=3))
    assert [shot.step for shot in shots] == [1, 2, 3]
    assert shots[0].picture is None


def test_runs_of_several_tasks_are_no_table(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(lcpo.InputError, match="not a folder"):
        evaluate(tmp_path / "nothing")
    with pytest.raises(lcpo.InputError, match="did you mean"):
        evaluate(runs, "prescient-a2c-pendulum-ou-s7")


def test_the_video_shows_every_step(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.gif"
    words = ["watch", str(runs), "--steps", "4", "--start", "7", "--fps", "10", "--out", str(path)]
    assert main.main(words) == 0
    with PIL.Image.open(path) as picture:
        assert picture.n_frames == 4  # pyright: ignore[reportAttributeAccessIssue]
        assert picture.info["duration"] == 100
        assert picture.size == (600, 720)
    setup, agent = frozen.load_agent(find_runs(runs)[0])
    there = frozen.elsewhere(setup, steps=20)
    shots = list(video.play(there, agent, seed=0, start=7, steps=4))
    np.testing.assert_allclose([shot.context for shot in shots], there.trace()[8:12])
    assert shots[3].total == pytest.approx(sum(shot.reward for shot in shots))
    strips = video.strips_of(there, shots)
    frames = [np.asarray(frame) for frame in video.make_frames("x", shots, strips)]
    moved = (frames[0] != frames[3]).any(axis=-1)
    assert moved[:300, :300].any(), "the pendulum"
    assert moved[:300, 320:].any(), "the numbers"
    for place, strip in enumerate(strips):
        assert moved[300 + 84 * place : 384 + 84 * place].any(), strip.name


def test_a_strip_for_each_channel_the_state_the_action_and_the_reward(
    runs: Path, tmp_path: Path
) -> None:
    """With the names of a file's columns; torques, not indices."""
    file = tmp_path / "wind.csv"
    file.write_text("gust,draft\n" + "\n".join(f"{t / 100},{-t / 50}" for t in range(30)))
    setup, agent = frozen.load_agent(find_runs(runs)[0])
    there = frozen.elsewhere(setup, str(file), steps=20)
    shots = list(video.play(there, agent, seed=0, start=7, steps=4))
    gust, draft, state, action, reward = video.strips_of(there, shots)
    assert (gust.name, draft.name) == ("context: gust", "context: draft")
    np.testing.assert_allclose(gust.lines[:, 0], there.trace()[8:12, 0])
    np.testing.assert_allclose(draft.lines[:, 0], there.trace()[8:12, 1])
    assert (state.name, len(state.names), state.lines.shape) == ("state", 3, (4, 3))
    np.testing.assert_allclose(np.hypot(state.lines[:, 0], state.lines[:, 1]), 1.0, rtol=1e-5)
    torques = np.linspace(-2.0, 2.0, 15)
    assert np.isclose(action.lines[:, [0]], torques).any(axis=1).all()
    assert reward.lines[:, 0].tolist() == [shot.reward for shot in shots]


def test_more_lines_than_colours_are_counted() -> None:
    """Hopper's state has 11 entries, and a context of a user's may have more channels."""
    shots = [
        video.Shot(t, np.arange(12.0), np.arange(20.0) * t, np.zeros(2), 0.0, 0.0, False, None)
        for t in (1, 2)
    ]
    spec = Spec(32, ContextSlice(start=20, channels=12, lags=1), num_actions=(15, 15))
    setup: Any = SimpleNamespace(env=SimpleNamespace(spec=spec), job=SimpleNamespace(trace=None))
    strips = video.strips_of(setup, shots)
    assert [strip.name for strip in strips][8:] == ["state", "action", "reward"]
    assert len(list(video.make_frames("x", shots, strips))) == 2
    assert "4 more channels" in video._texts("x", shots[0])


def test_an_episode_ends_and_another_begins() -> None:
    there = frozen.Setup(
        plan("tabular-a2c", "grid-world", trace="grid-world", steps=200, seeds=1)[0]
    )
    agent = there.agent.init(there.config, there.spec, jax.random.key(0))
    shots = list(video.play(there, agent, seed=0, start=0, steps=25))
    assert [shot.step for shot in shots if shot.ended] == [20]
    assert shots[20].total == shots[20].reward, "a new episode counts from 0"
    assert shots[0].picture is not None
    trapped = there.trace()[:, 1].argmax()
    shots = list(video.play(there, agent, seed=0, start=int(trapped) - 1, steps=21))
    assert [shot.context[1] for shot in shots] == [0.0] * 20 + [1.0]

"""Runs: records, checkpoints, resume, groups, failures, and what is refused before any work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from killing import children, resumed, wait_for_a_moment
from stopping import assert_same_results, ignore, stop_after, stops_change_nothing

import lcpo
from lcpo.run.drive import base, execute, group
from lcpo.run.drive.base import state_shapes
from lcpo.run.drive.group import Group
from lcpo.run.events import Event, Failed, Finished, Progress
from lcpo.run.plan.job import Setup
from lcpo.run.plan.phases import ONLINE
from lcpo.run.plan.plan import plan
from lcpo.run.store import checkpoint, record
from lcpo.run.store.files import load_arrays, save_arrays
from lcpo.run.store.layout import run_files
from lcpo.run.store.lock import locked
from lcpo.run.store.results import load_results

SMALL: dict[str, Any] = {"hidden": [8, 8], "rollout_length": 20}


def small_jobs(agent: str = "lcpo", seeds: Any = (0,), steps: int = 2000, **more: Any) -> list:
    given: Any = {"trace": "revisit", "overrides": SMALL, **more}
    return plan(agent, "pendulum", steps=steps, seeds=seeds, **given)


def test_thinned_records_keep_lifelong_returns_exact() -> None:
    rng = np.random.default_rng(0)
    episodes = rng.integers(0, 3, 103).astype(np.float32)
    returns = rng.normal(size=103).astype(np.float32) * episodes
    metrics = {
        "episodes": episodes,
        "episode_return_sum": returns,
        "episode_length_sum": episodes * 7,
        "value_loss": rng.normal(size=103).astype(np.float32),
    }
    rows = record.join(
        [
            record.thin({k: v[:40] for k, v in metrics.items()}, 0, 10, 200),
            record.thin({k: v[40:] for k, v in metrics.items()}, 40, 10, 200),
        ]
    )
    assert len(rows["step"]) == 11
    assert rows["step"][-1] == 103 * 200
    has = episodes > 0
    expected = (returns[has] / episodes[has]).mean()
    assert record.lifelong_return(rows) == pytest.approx(expected, rel=1e-6)
    late = np.arange(103) >= 50
    expected = (returns[has & late] / episodes[has & late]).mean()
    assert record.lifelong_return(rows, after_step=50 * 200) == pytest.approx(expected, rel=1e-6)
    expected = returns[late].sum() / episodes[late].sum()
    assert record.mean_episode_return(rows, 50 * 200) == pytest.approx(expected, rel=1e-6)
    expected = metrics["value_loss"].mean()
    assert record.mean_metric(rows, "value_loss") == pytest.approx(expected, abs=1e-6)


def test_a_long_record_is_kept_in_400_rows() -> None:
    assert record.block_size(100_000) == 25
    assert record.block_size(4001) == 2
    rng = np.random.default_rng(0)
    metrics = {
        "episodes": rng.integers(0, 3, 1203).astype(np.float64),
        "episode_return_sum": rng.normal(size=1203),
        "episode_length_sum": rng.random(1203),
        "value_loss": rng.random(1203),
        "total_hedged": rng.random(1203),
    }
    metrics["episode_return_sum"] *= metrics["episodes"] > 0
    whole = record.thin(metrics, 0, 1, 200)
    short = record.shorten(whole)
    assert list(short) == list(whole)
    assert len(short["step"]) == 301
    assert short["step"][0] == 800
    assert short["step"][-1] == 1203 * 200
    assert record.lifelong_return(short) == pytest.approx(record.lifelong_return(whole), rel=1e-6)
    for name in ("value_loss", "total_hedged"):
        given = record.mean_metric(whole, name) if name == "value_loss" else whole[name].sum()
        kept = record.mean_metric(short, name) if name == "value_loss" else short[name].sum()
        assert kept == pytest.approx(given, rel=1e-5)
    again = record.shorten(short)
    assert all(np.array_equal(again[name], short[name]) for name in short)


def test_only_runs_that_are_asked_when_keep_all_rows(tmp_path: Path, monkeypatch: Any) -> None:
    """Rows of many updates would hide what a context that came back was met with."""
    monkeypatch.setattr(record, "KEPT_ROWS", 10)
    jobs = [*small_jobs(trace="revisit@1/100"), *small_jobs(trace="ou")]
    execute.run_jobs(jobs, tmp_path, ignore, 60.0)
    rows = {r.job.trace_name: len(r.record["step"]) for r in load_results(tmp_path, jobs)}
    assert rows == {"revisit@1/100": 100, "ou": 10}


def test_stopped_at_every_chunk_equals_never_stopped(tmp_path: Path, monkeypatch: Any) -> None:
    """A checkpoint after every chunk, and a fresh start from disk for every chunk."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 30)
    assert stops_change_nothing(small_jobs(), tmp_path, stop_after(30 * 20)) >= 2


@pytest.mark.parametrize("workers", [0, pytest.param(None, marks=pytest.mark.learn)])
def test_seed_alone_equals_seed_in_a_group(tmp_path: Path, workers: int | None) -> None:
    """In this process, and through worker processes, as the command line runs them."""
    arguments: Any = {"trace": "revisit", "steps": 2000, "config": SMALL, "progress": False}
    arguments["workers"] = workers
    lcpo.train("lcpo", seeds=[7], out=tmp_path / "alone", **arguments)
    lcpo.train("lcpo", seeds=[5, 6, 7], out=tmp_path / "group", **arguments)
    name = "lcpo-pendulum-revisit-s7"
    assert_same_results(tmp_path / "alone/runs" / name, tmp_path / "group/runs" / name)


def test_no_two_parts_of_a_run_share_a_key() -> None:
    keys = [*base.init_keys(jax.numpy.int32(3)), base.restart_key(jax.numpy.int32(3))]
    for update in range(20):
        keys += base.update_keys(jax.numpy.int32(3), jax.numpy.int32(update), ONLINE)
    keys += [jax.random.fold_in(jax.random.key(3), update) for update in range(20)]
    data = np.stack([jax.random.key_data(key) for key in keys])
    assert len(np.unique(data, axis=0)) == len(keys)


@pytest.mark.learn
def test_vmapped_group_agrees_with_single_runs(tmp_path: Path) -> None:
    """What a GPU does with a group: seeds, config values and traces, stacked in one program."""
    jobs = small_jobs("a2c", seeds=(0, 1), sweep={"learning_rate": [1e-3, 1e-2]})
    jobs += small_jobs("a2c", trace="4", seeds=(0, 1))
    execute.run_jobs(jobs, tmp_path / "single", ignore, 1e9)
    setups = [Setup(job) for job in jobs]
    assert len({s.statics() for s in setups}) == 1
    Group(setups, tmp_path / "group", ignore, 1e9).run([None] * len(jobs))
    singles, group = load_results(tmp_path / "single"), load_results(tmp_path / "group")
    for one, other in zip(singles, group, strict=True):
        # Rounding differs between the two programs and grows: compare the first rows only.
        for column in ("reward", "value_loss"):
            np.testing.assert_allclose(
                one.record[column][:3], other.record[column][:3], rtol=2e-3, atol=1e-4
            )


@pytest.mark.learn
def test_lcpo_without_ood_states_equals_a2c_with_entropy(tmp_path: Path, monkeypatch: Any) -> None:
    """Same episode returns, bit for bit; in processes that compile as a user's do."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    common: Any = {"trace": "revisit", "steps": 8000, "seeds": 2, "progress": False, "workers": 1}
    with_anchors = lcpo.train("lcpo", out=tmp_path / "l", config={"sigma": 100.0}, **common)
    control = lcpo.train("a2c-entropy", out=tmp_path / "a", **common)
    for a, b in zip(with_anchors, control, strict=True):
        assert a.record["constraint_active"].sum() == 0
        for column in ("epoch_return", "episode_return_sum", "policy_loss", "entropy_coef"):
            np.testing.assert_array_equal(a.record[column], b.record[column], err_msg=column)


def test_a_run_that_diverges_stops_and_the_others_go_on(tmp_path: Path) -> None:
    results = lcpo.train(
        "a2c", trace="revisit", steps=4000, seeds=2, out=tmp_path / "o", progress=False, workers=0,
        config=SMALL, sweep={"learning_rate": [1e-3, 1e30]},
    )  # fmt: skip
    good = [r for r in results if r.job.config["learning_rate"] == 1e-3]
    bad = [r for r in results if r.job.config["learning_rate"] == 1e30]
    assert {r.status for r in good} == {"finished"}
    assert {r.status for r in bad} == {"failed"}
    failure = bad[0].failure
    assert failure is not None
    assert failure["value"] in ("nan", "inf", "-inf")
    assert 0 < failure["step"] <= 4000
    with pytest.raises(ValueError, match="holds no finished run with a policy"):
        lcpo.load(bad[0].folder)


@pytest.mark.learn
def test_a_group_goes_on_without_its_failed_member(tmp_path: Path) -> None:
    jobs = small_jobs("a2c", sweep={"learning_rate": [1e-3, 1e30]})
    events: list[Event] = []
    setups = [Setup(job) for job in jobs]
    Group(setups, tmp_path, events.append, 1e9).run([None] * 2)
    kinds = [type(event) for event in events if not isinstance(event, Progress)]
    assert kinds == [Finished, Failed]


def test_loaded_policy_acts(tmp_path: Path) -> None:
    lcpo.train(
        "lcpo", trace="revisit", steps=2000, seeds=2, config=SMALL, out=tmp_path, progress=False,
        workers=0,
    )  # fmt: skip
    policy = lcpo.load(tmp_path, run="lcpo-pendulum-revisit-s1")
    assert policy.act(np.zeros(9)).shape == (1,)
    assert policy.act(np.zeros((5, 9))).shape == (5, 1)
    key = jax.random.key(0)
    np.testing.assert_array_equal(policy.act(np.ones(9), key), policy.act(np.ones(9), key))
    with pytest.raises(ValueError, match=r"needs \[9\]"):
        policy.act(np.zeros(8))
    with pytest.raises(ValueError, match="not finite"):
        policy.act(np.full(9, np.nan))
    with pytest.raises(ValueError, match="did you mean"):
        lcpo.load(tmp_path, run="lcpo-pendulum-revisit-s2")


@pytest.mark.parametrize("damage", ["truncate", "swap", "foreign", "schema", "shape"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    (job,) = small_jobs()
    setup, folder = Setup(job), run_files(tmp_path, job.name)
    state = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), state_shapes(setup))
    rows = {"step": np.array([20])}
    if damage == "shape":
        state = state._replace(episode_return=np.zeros(9, np.float32))
    checkpoint.save(folder, job.to_json(), checkpoint.Checkpoint(1, state, rows, 0.5))
    manifest = folder.checkpoint.manifest
    if damage == "truncate":
        file = folder.checkpoint.state(1)
        file.write_bytes(file.read_bytes()[:500])
        match = "damaged"
    elif damage == "swap":  # a sound file of the same shapes, and not the one that was written
        file = folder.checkpoint.state(1)
        save_arrays(file, {name: values + 1 for name, values in load_arrays(file).items()})
        match = "differs from what was written"
    elif damage == "foreign":
        (job,) = small_jobs(steps=4000)
        match = "another run.*steps: there 2000, now 4000"
    elif damage == "schema":
        manifest.write_text(manifest.read_text().replace('"schema": 3', '"schema": 99'))
        match = "schema 99"
    else:
        match = "episode_return is float32"
    with pytest.raises(ValueError, match=match):
        checkpoint.load(folder, job.to_json(), partial(state_shapes, setup))


def test_checkpoint_round_trip(tmp_path: Path) -> None:
    (job,) = small_jobs()
    setup, folder = Setup(job), run_files(tmp_path, job.name)
    rng = np.random.default_rng(0)
    shapes = state_shapes(setup)
    state = jax.tree.map(lambda s: rng.normal(size=s.shape).astype(s.dtype), shapes)
    assert checkpoint.load(folder, job.to_json(), lambda update: shapes) is None
    for update in (3, 6):
        saved = checkpoint.Checkpoint(update, state, {"step": rng.normal(size=2)}, 1.0)
        checkpoint.save(folder, job.to_json(), saved)
    found = checkpoint.load(folder, job.to_json(), lambda update: shapes)
    assert found is not None
    assert found.update == 6
    jax.tree.map(np.testing.assert_array_equal, found.state, state)
    assert len(list(folder.checkpoint.folder.iterdir())) == 3, "the older checkpoint is gone"


def command(out: Path, chunks: int, *more: str) -> list[str]:
    """Two small runs of so many chunks, with a checkpoint after each."""
    return [
        sys.executable, "-m", "lcpo.cli", "train", "--agent", "lcpo", "--trace", "revisit",
        "--steps", str(chunks * group.CHUNK_UPDATES * 20), "--seeds", "2",
        "--rollout-length", "20", "--hidden", "8", "8", "--checkpoint-seconds", "0",
        "--out", str(out), *more,
    ]  # fmt: skip


def kill_and_resume(tmp_path: Path, kills: int, seed: int, chunks: int) -> None:
    """kill -9 the whole command at random moments, resume each time, compare with undisturbed."""
    whole = subprocess.run(command(tmp_path / "whole", chunks), capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    rng, out = random.Random(seed), tmp_path / "killed"
    for _ in range(kills):
        process = subprocess.Popen(
            command(out, chunks, *resumed(out)), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for_a_moment(out, process, rng)
        assert process.poll() is None, "it ended before the kill: lengthen the runs"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = subprocess.run(command(out, chunks, *resumed(out)), capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert_same_results(tmp_path / "whole" / "runs", out / "runs")


@pytest.mark.learn
def test_kill_and_resume(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=1, seed=1, chunks=20)


@pytest.mark.learn
def test_twenty_kills(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=20, seed=2, chunks=120)


@pytest.mark.learn
def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    """kill -9 of the command alone: a worker that lived on would write beside a resumed run."""
    process = subprocess.Popen(
        command(tmp_path / "o", 20), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    workers: list[int] = []
    for _ in range(600):
        workers = children(process.pid)
        if len(workers) == min(2, len(os.sched_getaffinity(0))):
            break
        time.sleep(0.05)
    assert workers
    process.kill()
    process.wait()
    with locked(tmp_path / "o", pytest.fail):  # they hold it until the last has ended
        assert not any(alive(worker) for worker in workers)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False

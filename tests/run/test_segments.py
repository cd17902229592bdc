"""Replay in checkpoints: written once, in segments, and put together again bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from replay_cases import COMPACT, SPECS, T, add, rollout, stream
from stopping import Stop, assert_same_results, ignore, stop_after, stops_change_nothing

from lcpo.core import replay
from lcpo.run.drive import execute, group
from lcpo.run.drive.execute import Reporter
from lcpo.run.drive.group import Group
from lcpo.run.plan import budget
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.plan import plan
from lcpo.run.store import checkpoint, segments
from lcpo.run.store.files import load_arrays, load_json, save_arrays, save_document
from lcpo.run.store.layout import RunFiles
from lcpo.types import Spec

SMALL: dict[str, Any] = {
    "hidden": [8, 8], "rollout_length": 20, "batch_size": 32, "random_steps": 500,
}  # fmt: skip


def jobs_of(agent: str, seeds: Any = (0,), **config: Any) -> list[Job]:
    overrides = {**SMALL, **config}
    return plan(agent, "pendulum", trace="revisit", steps=2000, seeds=seeds, overrides=overrides)


stop_after_a_chunk = stop_after(30 * 20)
"""In its second chunk; the first has left a checkpoint."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 600 steps, segments of some 250."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 30)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 10_000)


@pytest.mark.parametrize(
    ("agent", "config"),
    [
        pytest.param("ddqn", {}, id="ddqn"),
        # A ring, part of which each chunk overwrites, and one that a chunk fills more than once.
        pytest.param("ddqn", {"buffer_size": 900}, id="ring", marks=pytest.mark.learn),
        pytest.param("ddqn", {"buffer_size": 300}, id="short-ring", marks=pytest.mark.learn),
        pytest.param("sac", {"updates_per_rollout": 2}, id="sac", marks=pytest.mark.learn),
    ],
)
def test_stopped_at_every_chunk_equals_never_stopped(
    agent: str, config: dict[str, Any], short: None, tmp_path: Path
) -> None:
    assert stops_change_nothing(jobs_of(agent, **config), tmp_path, stop_after_a_chunk) >= 2


@pytest.mark.learn
def test_a_vmapped_group_stopped_and_resumed(short: None, tmp_path: Path) -> None:
    """What a GPU does: each member's rows are cut from, and put back into, the stacked state."""
    setups = [Setup(job) for job in jobs_of("ddqn", seeds=(0, 1))]
    Group(setups, tmp_path / "whole", ignore, 1e9).run([None, None])
    with pytest.raises(Stop):
        execute._run_group(setups, tmp_path / "cut", Reporter(stop_after_a_chunk), -1.0)
    assert len(list((tmp_path / "cut").rglob("segment-*"))) >= 4
    execute._run_group(setups, tmp_path / "cut", Reporter(ignore), 1e9)
    assert_same_results(tmp_path / "whole", tmp_path / "cut")


class Saved:
    """A state with one replay, and checkpoints of it in a folder."""

    def __init__(self, folder: Path, spec: Spec = COMPACT, capacity: int = 100) -> None:
        self.job = jobs_of("ddqn")[0].to_json()
        self.run, self.spec = RunFiles(folder), spec
        self.files = self.run.checkpoint.folder
        self.data = stream(spec, 40 * T)
        self.state = {"x": jnp.arange(3.0), "memory": replay.replay_init(spec, capacity, T)}
        self.shapes = jax.eval_shape(lambda: self.state)
        self.rollouts = 0

    def add(self, rollouts: int) -> None:
        for number in range(self.rollouts, self.rollouts + rollouts):
            new = rollout(self.data, number)
            self.state["memory"] = add(self.state["memory"], self.spec, new)
        self.rollouts += rollouts

    def save(self) -> None:
        update = self.rollouts
        checkpoint.save(self.run, self.job, checkpoint.Checkpoint(update, self.state, {}, 0.0))

    def load(self) -> Any:
        found = checkpoint.load(self.run, self.job, lambda update: self.shapes)
        assert found is not None
        return checkpoint.assemble([checkpoint.Saved(self.run, found)], self.shapes, many=False)

    def segments(self) -> dict[str, int]:
        """Names of segments, and when they were written."""
        return {f.name: f.stat().st_mtime_ns for f in self.files.glob("segment-*")}


def assert_same(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("name", ["compact", "two worlds", "whole", "many actions"])
def test_all_rows_come_back_and_only_new_ones_are_written(name: str, tmp_path: Path) -> None:
    """On the way round a ring twice, with segments of a rollout or two."""
    saved = Saved(tmp_path, SPECS[name], capacity=30)
    rng, after = np.random.default_rng(0), {}
    for _ in range(12):
        before = saved.segments()
        saved.add(int(rng.integers(1, 4)))
        saved.save()
        assert_same(saved.load(), saved.state)
        after = saved.segments()
        oldest = int(saved.state["memory"].added) - saved.state["memory"].num_rows
        needed = {name for name in before if int(name[:-4].split("-")[3]) > oldest}
        assert {name: after[name] for name in needed} == {name: before[name] for name in needed}
        assert after.keys() - before.keys(), "nothing was written"
    assert saved.state["memory"].added > 2 * saved.state["memory"].num_rows
    assert not any(name.startswith("segment-0-0-") for name in after), "an old one was kept"


def test_killed_while_it_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments written, the manifest not: the checkpoint before is whole, and the next one too."""
    saved = Saved(tmp_path)
    saved.add(3)
    saved.save()
    good = jax.tree.map(np.array, saved.state)
    saved.add(2)

    def kill(*_: Any) -> None:
        raise Stop

    steps = (checkpoint, "save_document"), (checkpoint, "save_arrays"), (segments, "save_arrays")
    for module, step in steps:
        with monkeypatch.context() as patched:
            patched.setattr(module, step, kill)
            with pytest.raises(Stop):
                saved.save()
        assert_same(saved.load(), good)
    saved.add(1)
    saved.save()
    assert_same(saved.load(), saved.state)
    assert set(saved.segments()) == {"segment-0-0-12.npz", "segment-0-12-24.npz"}


@pytest.mark.parametrize("damage", ["truncate", "missing", "shape"])
def test_a_damaged_segment_is_named(tmp_path: Path, damage: str) -> None:
    saved = Saved(tmp_path)
    saved.add(3)
    saved.save()
    (file,) = saved.files.glob("segment-*")
    if damage == "truncate":
        file.write_bytes(file.read_bytes()[:500])
    elif damage == "missing":
        file.unlink()
    else:
        arrays = load_arrays(file)
        save_arrays(file, {**arrays, "floats": arrays["floats"][1:]})
    with pytest.raises(ValueError, match=rf"{file.name}.*delete .*checkpoint to restart this run"):
        saved.load()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_manifest_names_all_segments(tmp_path: Path, lost: int) -> None:
    """The first, one between, the last: without it the replay would have rows of zeros."""
    saved = Saved(tmp_path)
    for _ in range(3):
        saved.add(1)
        saved.save()
    path = saved.run.checkpoint.manifest
    manifest = {k: v for k, v in load_json(path).items() if k not in ("schema", "digest")}
    del manifest["segments"][0][lost]
    save_document(path, checkpoint.SCHEMA, manifest)
    with pytest.raises(ValueError, match="does not list all rows of the replay"):
        saved.load()


def test_memory_is_not_counted_twice() -> None:
    """Of replay a checkpoint holds one segment; of everything else, a copy."""
    (job,) = plan("ddqn", "pendulum", trace="4", steps=8_000_000, seeds=(0,))
    assert 38 * 8e6 < budget.run_bytes(job) < 38 * 8e6 + segments.SEGMENT_BYTES + 1e6

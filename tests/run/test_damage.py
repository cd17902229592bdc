"""Damaged folders: whatever happened to a file, it is noticed, or the result is the same."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import run
from stopping import Stop, saved, stop_after

import lcpo
from lcpo.errors import InputError
from lcpo.run.drive import execute, group
from lcpo.run.engines.engine import write_plan
from lcpo.run.events import Crashed, Event
from lcpo.run.plan.agents import plan_agents
from lcpo.run.store import segments
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import load_result, load_results
from lcpo.study.report import figures
from lcpo.study.study import Picture

pytestmark = pytest.mark.learn
AGENTS = "a2c,ddqn,prescient-a2c"
OPTIONS = ["--agents", AGENTS, "--trace", "wind.npy", "--steps", "4000", "--seeds", "2",
           "--training-steps", "6400", "--workers", "0"]  # fmt: skip
COUNT = 300


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that finished (`whole`), and the same runs stopped at a checkpoint (`cut`).

    DDQN's checkpoints have segments of its replay; the prescient runs are in their evaluation.
    """
    folder = tmp_path_factory.mktemp("damage")
    rng = np.random.default_rng(0)
    np.save(folder / "wind.npy", rng.normal(size=(4000, 2)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(group, "CHUNK_UPDATES", 2)
        patch.setattr(segments, "SEGMENT_BYTES", 10_000)
        assert run("compare", *OPTIONS, "--out", "whole") == 0
        jobs = plan_agents(
            AGENTS, "pendulum", trace="wind.npy", steps=4000, seeds=[0, 1], training_steps=6400
        )
        write_plan(jobs, folder / "cut")
        for job in jobs:
            stop = stop_after(6400 + 800 if job.training else 800)
            with pytest.raises(Stop):
                execute.run_jobs([job], folder / "cut", stop, -1.0)
    assert len(list(folder.glob("cut/runs/*/checkpoint/segment-*"))) >= 4
    assert len(list(folder.glob("cut/runs/*/training.npz"))) == 2
    return folder


def flip(file: Path, others: list[Path], rng: random.Random) -> None:
    """One bit."""
    content = bytearray(file.read_bytes())
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def truncate(file: Path, others: list[Path], rng: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content))])


def lengthen(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.randrange(1, 100)))


def delete(file: Path, others: list[Path], rng: random.Random) -> None:
    file.unlink()


def swap(file: Path, others: list[Path], rng: random.Random) -> None:
    """With another file, of the same name elsewhere where there is one."""
    alike = [other for other in others if other.name == file.name]
    other = rng.choice(alike or others)
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def swap_folders(file: Path, others: list[Path], rng: random.Random) -> None:
    """Whole runs change their places."""
    first = next((p for p in file.parents if p.parent.name == "runs"), None)
    if first is None:
        return delete(file, others, rng)
    second = rng.choice([p for p in first.parent.iterdir() if p != first])
    for a, b in ((first, "aside"), (second, first.name), (first.parent / "aside", second.name)):
        a.rename(a.parent / b)
    return None


def scramble(file: Path, others: list[Path], rng: random.Random) -> None:
    file.write_bytes(rng.randbytes(rng.choice([0, 1, 500])))


def edit(file: Path, others: list[Path], rng: random.Random) -> None:
    """A number of a JSON file is another one, or a name is gone; of other files, a bit."""
    if file.suffix != ".json":
        return flip(file, others, rng)
    values = json.loads(file.read_text())
    key = rng.choice(list(values))
    values.pop(key)
    if rng.random() < 0.7:
        values[key] = rng.choice([0, 99, None, [], {}, "x", -1.5, True])
    file.write_text(json.dumps(values))
    return None


DAMAGES: list[Callable[[Path, list[Path], random.Random], None]] = [
    flip, flip, flip, truncate, lengthen, delete, swap, swap_folders, scramble, edit,
]  # fmt: skip


def damaged(base: Path, out: Path, seed: int) -> str:
    """A damaged copy of the finished or of the stopped runs; what was done to which file."""
    rng = random.Random(seed)
    kind = rng.choice(["whole", "cut"])
    shutil.copytree(base / kind, out)
    found = [p for p in sorted(out.rglob("*")) if p.suffix in (".json", ".npz")]
    files = [p for p in found if p.name != "made.json"]
    file, damage = rng.choice(files), rng.choice(DAMAGES)
    damage(file, [other for other in files if other != file], rng)
    return f"{damage.__name__} of {kind}/{file.relative_to(out)} (seed {seed})"


def check(base: Path, out: Path, what: str, capfd: pytest.CaptureFixture[str]) -> bool:
    """Read and resume the folder; True where the damage was noticed somewhere."""
    whole = saved(base / "whole")
    refused = []
    for reference in load_results(base / "whole"):
        mine = out / "runs" / reference.job.name
        try:
            policy, _ = lcpo.load(mine), load_result(mine).training
        except InputError:
            refused.append("load")
            continue
        _, arrays = reference.policy()
        own = policy.about.run == reference.job.name
        assert own or "swap_folders" in what, f"{what}: another run's policy was loaded"
        if own:
            state = execute.checkpoints.flatten(policy.state)
            for name, values in arrays.items():
                np.testing.assert_array_equal(state[name], values, err_msg=f"{what}: {name}")
    exported = run("export", str(out), str(out.parent / "table.csv"), "--overwrite")
    if exported == 0 and "whole" in what and len(list(out.glob("runs/*/manifest.json"))) == 6:
        assert run("export", str(base / "whole"), str(out.parent / "good.csv"), "--overwrite") == 0
        tables = [
            sorted((out.parent / f).read_text().splitlines()) for f in ("table.csv", "good.csv")
        ]
        assert tables[0] == tables[1], f"{what}: export gave another table"
    resumed = run("compare", *OPTIONS, "--out", str(out), "--resume")
    if resumed == 0:
        # A report reads records only: other damage is noticed by who loads the rest.
        after = {**whole, **saved(out, "record.npz")} if refused else saved(out)
        assert after.keys() == whole.keys(), what
        for name in whole:
            np.testing.assert_array_equal(after[name], whole[name], err_msg=f"{what}: {name}")
        assert not list(out.rglob("checkpoint")), f"{what}: a checkpoint was left"
        assert not list(out.rglob("*.part")), f"{what}: a half-written file was left"
    told = capfd.readouterr()
    # A damaged checkpoint stops its own run (1); the others go on.
    assert exported in (0, 2), f"{what}: exit code {exported}: {told.err}"
    assert resumed in (0, 1, 2), f"{what}: exit code {resumed}: {told.err}"
    assert "Traceback" not in told.err, f"{what}: {told.err}"
    return bool(refused) or exported != 0 or resumed != 0


def test_three_hundred_damaged_folders(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noticed = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        patch.setattr(figures, "to_picture", lambda *_: Picture(b"", b""))  # a third of the time
        for seed in range(COUNT):
            out = tmp_path / str(seed) / "o"
            out.parent.mkdir()
            what = damaged(base, out, seed)
            noticed += check(base, out, what, capfd)
            shutil.rmtree(out.parent)
    assert noticed > 0.5 * COUNT, "most damage is noticed; the rest changes nothing"


def test_runs_that_changed_their_places_are_told(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each folder is whole, with its digests, and is another run's."""
    shutil.copytree(base / "whole", tmp_path / "o")
    first, second = sorted((tmp_path / "o" / "runs").glob("a2c-*"))
    for a, b in ((first, "aside"), (second, first.name), (first.parent / "aside", second.name)):
        a.rename(a.parent / b)
    assert run("export", str(tmp_path / "o"), str(tmp_path / "table.csv")) == 2
    assert "the folder was renamed" in capfd.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        assert run("compare", *OPTIONS, "--out", str(tmp_path / "o"), "--resume") == 2
    assert "belongs to another run (name: there" in capfd.readouterr().err


def test_what_a_kill_left_is_swept_away(base: Path, tmp_path: Path) -> None:
    """Half-written files, and the checkpoint of a run that has ended."""
    shutil.copytree(base / "whole", tmp_path / "o")
    folder = sorted((tmp_path / "o" / "runs").iterdir())[0]
    (folder / "checkpoint").mkdir()
    part = f".{'a' * 16}.part"
    left = [tmp_path / "o" / part, folder / part, folder / "checkpoint/state-3.npz"]
    for file in left:
        file.write_bytes(b"half")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        assert run("compare", *OPTIONS, "--out", str(tmp_path / "o"), "--resume") == 0
    assert not any(file.exists() for file in [*left, folder / "checkpoint"])


def test_a_changed_trace_is_refused(base: Path, tmp_path: Path) -> None:
    """As it was found: the rows of a file changed between a stop and the resume."""
    shutil.copytree(base / "cut", tmp_path / "o")
    shutil.copy(base / "wind.npy", tmp_path / "wind.npy")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        rows = np.load("wind.npy")
        rows[-1, 0] += 0.5
        np.save("wind.npy", rows)
        with pytest.raises(InputError, match=r"the rows of trace 'wind.npy' have changed"):
            lcpo.train("a2c", trace="wind.npy", steps=4000, seeds=2, workers=0, out="o",
                       resume=True, progress=False)  # fmt: skip
        # A worker, which has only the plan to go by, refuses each of its runs.
        told: list[Event] = []
        execute.run_jobs(planned_jobs(tmp_path / "o"), tmp_path / "o", told.append, 1e9)
    assert len(told) == 6
    for event in told:
        assert isinstance(event, Crashed)
        assert "wind.npy has changed since" in event.reason

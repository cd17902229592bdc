"""A folder from a stranger: nothing that its files name is imported, called or written outside."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import QUICK, run

import lcpo
from lcpo.errors import InputError
from lcpo.run import worker
from lcpo.run.plan.plan import plan
from lcpo.run.store import plans, policy_file, results
from lcpo.run.store.files import load_arrays, load_json, save_arrays, save_document
from lcpo.run.store.layout import RunFiles, run_files
from lcpo.run.store.results import load_results
from lcpo.study.measure import compare
from lcpo.study.play.evaluate import evaluate
from lcpo.values import file_name

SMALL: dict[str, Any] = {"hidden": [8, 8], "rollout_length": 20}
COMMAND = ["--agent", "lcpo", "--trace", "revisit", "--steps", "400", "--seeds", "1", *QUICK]

# What a stranger may name. The module would leave a mark as soon as it is imported or called.
MODULE = """
from pathlib import Path
Path({mark!r}).write_text("imported")
def getoutput(*arguments, **more):
    Path({mark!r}).write_text("called")
"""
CANARY = "canary:getoutput"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished run of LCPO."""
    out = tmp_path_factory.mktemp("trained") / "o"
    assert run("train", *COMMAND, "--out", str(out)) == 0
    return out


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to be forged. The canary lies in the current folder, and may be imported."""
    (tmp_path / "canary.py").write_text(MODULE.format(mark=str(tmp_path / "mark")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(trained, tmp_path / "o")
    return tmp_path / "o"


def forge_job(folder: Path, **changes: Any) -> None:
    """Change a job in plan, manifest and policy, with all digests made anew: a stranger can."""
    (job,) = plans.planned_jobs(folder)
    forged, files = {**job.to_json(), **changes}, run_files(folder, job.name)
    if "name" not in changes:  # whoever forges the rest makes the name fit
        task = file_name(f"{forged['agent']}-{forged['env']}-{forged['trace']}")
        forged["name"] = f"{task}-s{forged['seed']}"
        files = RunFiles(files.folder.rename(files.folder.with_name(forged["name"])))
    save_document(folder / "plan.json", plans.SCHEMA, {"out": ".", "jobs": [forged]})
    arrays = load_arrays(files.policy)
    about = json.loads(arrays["about"].tobytes())
    about |= {name: value for name, value in changes.items() if name in about}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    digest = save_arrays(files.policy, arrays)
    outcome = load_json(files.manifest)
    del outcome["schema"], outcome["digest"]
    written = {**outcome["files"], files.policy.name: digest}
    results.save_outcome(files, {**outcome, "job": forged}, written)


def read_everything(folder: Path) -> list[str]:
    """Load, summarise, report, export and resume; what was refused."""
    (found,) = folder.glob("runs/*")
    refused = []
    for read in (
        lambda: lcpo.load(folder),
        lambda: lcpo.load(found),
        lambda: lcpo.load(found / "policy.npz"),
        lambda: compare.summarise(load_results(folder)),
    ):
        try:
            read()
        except InputError as error:
            refused.append(str(error))
    assert run("export", str(folder), str(folder.parent / "table.csv"), "--overwrite") in (0, 2)
    for command in (["train"], ["compare", "--agents", "lcpo"]):
        assert run(*command, "--trace", "revisit", "--steps", "400", "--seeds", "1",
                   "--out", str(folder), "--resume", "--workers", "0") in (0, 2)  # fmt: skip
    refused += [str(worker.main([str(folder / "plan.json")]))]
    return refused


@pytest.mark.parametrize(
    "changes",
    [
        {"env": CANARY, "env_config": {"arguments": "{}"}},
        {"env": "gym:canary:Env-v0", "env_config": {}},
        {"agent": CANARY},
        {"config": {"detector": CANARY}},
    ],
    ids=["env", "gym", "agent", "detector"],
)
def test_nothing_that_a_file_names_is_imported_or_called(
    folder: Path, changes: dict[str, Any], capfd: Any
) -> None:
    if "config" in changes:
        (job,) = plans.planned_jobs(folder)
        changes = {"config": {**job.config, **changes["config"]}}
    forge_job(folder, **changes)
    around = {path.name for path in folder.parent.iterdir()}
    read_everything(folder)
    assert "Traceback" not in capfd.readouterr().err
    assert not (folder.parent / "mark").exists(), (folder.parent / "mark").read_text()
    assert "canary" not in sys.modules
    assert {path.name for path in folder.parent.iterdir()} - around <= {"table.csv"}


def test_a_command_in_a_manifest_is_not_run(folder: Path, tmp_path: Path) -> None:
    """As it was found: the environment is a function that runs a command."""
    mark = tmp_path / "mark"
    arguments = json.dumps({"cmd": f"touch {mark}"})
    forge_job(folder, env="subprocess:getoutput", env_config={"arguments": arguments})
    assert lcpo.load(folder).act(np.zeros(9)).shape == (1,)  # acting needs no environment
    read_everything(folder)
    assert not mark.exists()
    # Not even where the user says so: an environment is made by an environment class.
    with pytest.raises(InputError, match="needs an environment class"):
        lcpo.train("a2c", "subprocess:getoutput", env_config={"arguments": arguments}, steps=400)
    assert not mark.exists()


OWN = """
import dataclasses
from lcpo.agents import a2c
from lcpo.envs.pendulum import Pendulum as Mine
agent = dataclasses.replace(a2c.agent, name="mine")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run of one's own agent in one's own environment; the code is beside it."""
    (tmp_path / "own_code.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    lcpo.train("own_code:agent", "own_code:Mine", trace="revisit", steps=400, seeds=1, workers=0,
               config=SMALL, out=tmp_path / "o", progress=False)  # fmt: skip
    monkeypatch.delitem(sys.modules, "own_code")
    return tmp_path / "o"


def refusals(out: Path) -> list[str]:
    """Why a folder cannot be loaded, evaluated and resumed without trust."""
    found = []
    for use in (lambda: lcpo.load(out), lambda: evaluate(out, seeds=1)):
        try:
            use()
        except InputError as error:
            found.append(str(error))
    if worker.main([str(out / "plan.json")]) == 2:
        found.append("worker")
    return found


def test_ones_own_run_needs_no_trust(own: Path) -> None:
    assert refusals(own) == []
    assert lcpo.load(own).act(np.zeros(9)).shape == (1,)
    assert refusals(own.rename(own.with_name("renamed"))) == []


def test_a_policy_file_alone_needs_trust(own: Path) -> None:
    (file,) = own.glob("runs/*/policy.npz")
    with pytest.raises(
        InputError, match=r"'own_code:agent', which is not part of lcpo.*trust=True"
    ):
        lcpo.load(file)
    assert lcpo.load(file, trust=True).act(np.zeros(9)).shape == (1,)


def test_the_run_of_another_user_needs_trust(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(own.parent / "another"))
    first, second, third = refusals(own)
    assert "trust=True" in first
    assert "pass --trust (in Python: trust=True) if you trust both" in second
    assert third == "worker"
    assert "own_code" not in sys.modules
    assert worker.main([str(own / "plan.json"), "--trust"]) == 0


def test_code_from_another_place_needs_trust(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sends a run of mine back, with another file of the same name beside it."""
    there = own.parent / "downloaded"
    shutil.copytree(own, there / "o")
    (there / "own_code.py").write_text(MODULE.format(mark=str(there / "mark")))
    monkeypatch.chdir(there)
    assert len(refusals(there / "o")) == 3
    assert not (there / "mark").exists()


@pytest.mark.parametrize("changes", [{"seed": 1}, {"env_config": {"max_speed": 9.0}}], ids=str)
def test_a_run_with_other_values_needs_trust(own: Path, changes: dict[str, Any]) -> None:
    forge_job(own, **changes)
    assert len(refusals(own)) == 3


def test_a_policy_of_another_agent_in_ones_own_run_needs_trust(own: Path) -> None:
    (found,) = own.glob("runs/*")
    files, outcome = RunFiles(found), load_json(RunFiles(found).manifest)
    arrays = load_arrays(files.policy)
    about = {**json.loads(arrays["about"].tobytes()), "agent": "other_code:agent"}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    digest = save_arrays(files.policy, arrays)
    del outcome["schema"], outcome["digest"]
    results.save_outcome(files, outcome, {**outcome["files"], files.policy.name: digest})
    with pytest.raises(InputError, match=r"'other_code:agent', which is not part"):
        lcpo.load(own)


def test_a_list_that_others_can_write_to_is_not_believed(own: Path) -> None:
    (own.parent / "state" / "lcpo").chmod(0o777)
    assert len(refusals(own)) == 3


def test_a_policy_needs_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_world.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    lcpo.train("a2c", "own_world:Mine", trace="revisit", steps=400, seeds=1, workers=0, scale=2.0,
               config=SMALL, out=tmp_path / "o", progress=False)  # fmt: skip
    (file,) = (tmp_path / "o").glob("runs/*/policy.npz")
    before = lcpo.load(file).act(np.ones((50, 9)))
    moved = tmp_path / "elsewhere" / "mine.npz"
    moved.parent.mkdir()
    shutil.move(file, moved)
    (tmp_path / "own_world.py").unlink()
    del sys.modules["own_world"]
    loaded = lcpo.load(moved)
    np.testing.assert_array_equal(loaded.act(np.ones((50, 9))), before)
    about = loaded.about
    assert (about.agent, about.scale, about.advance) == ("a2c", 2.0, "step")
    assert loaded.spec.context == (3, 2, 3)
    assert loaded.config.rollout_length == 20


@pytest.mark.parametrize(
    "name", ["../x", "/tmp/x", "a/b", "a\\b", "", ".", "..", ".x", "x\0", "x\n", "x" * 256]
)
def test_a_plan_stays_in_its_folder(folder: Path, name: str) -> None:
    forge_job(folder, name=name)
    with pytest.raises(InputError, match="is not a valid folder name"):
        plans.load_plan(folder / "plan.json")
    assert worker.main([str(folder / "plan.json")]) == 2


@pytest.mark.parametrize("out", ["..", "/tmp", "a/../../b", 3])
def test_results_stay_in_the_plans_folder(folder: Path, out: Any) -> None:
    jobs = [job.to_json() for job in plans.planned_jobs(folder)]
    save_document(folder / "plan.json", plans.SCHEMA, {"out": out, "jobs": jobs})
    with pytest.raises(InputError, match=r"outside its own folder|its out is 3"):
        plans.load_plan(folder / "plan.json")


@pytest.mark.parametrize("part", ["runs", "runs/NAME", "runs/NAME/checkpoint"])
def test_a_link_that_leads_out_is_refused(folder: Path, part: str) -> None:
    (found,) = folder.glob("runs/*")
    inside, outside = folder / part.replace("NAME", found.name), folder.parent / "outside"
    if inside.exists():
        shutil.move(inside, outside)
        (outside / "manifest.json").unlink(missing_ok=True)
    else:
        outside.mkdir()
    (outside / "precious").write_text("")
    inside.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    assert run("train", *COMMAND, "--out", str(folder), "--resume") == 2
    assert sorted(outside.rglob("*")) == before


@pytest.mark.parametrize(
    "changes",
    [{"seed": "0"}, {"steps": 1.5}, {"config": []}, {"scale": float("nan")}, {"steps": True}],
    ids=str,
)
def test_a_job_of_other_kinds_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    forge_job(folder, **changes)
    with pytest.raises(InputError, match=r"plan\.json"):
        plans.load_plan(folder / "plan.json")


def test_a_policy_file_that_lies(folder: Path) -> None:
    (found,) = folder.glob("runs/*")
    files = RunFiles(found)
    arrays = load_arrays(files.policy)
    about = json.loads(arrays["about"].tobytes())

    def write(**changes: Any) -> None:
        text = json.dumps({**about, **changes}).encode()
        save_arrays(files.policy, {**arrays, "about": np.frombuffer(text, np.uint8)})

    spec = about["spec"]
    for changes, match in (
        ({"spec": {**spec, "obs_size": 10**15}}, "this agent's is"),
        ({"spec": {**spec, "num_actions": []}}, "do not fit"),
        ({"spec": {**spec, "obs_size": "9"}}, "not a whole number"),
        ({"spec": None}, "not a policy of lcpo"),
        ({"config": {**about["config"], "hidden": [10**9, 8]}}, "this agent's is"),
        ({"config": {"hidden": [8, 8]}}, "cannot have saved this policy"),
        ({"config": 3}, "not a policy of lcpo"),
        ({"schema": 7}, "schema 7"),
        ({"more": 1}, "not a policy of lcpo"),
    ):
        write(**changes)
        with pytest.raises(InputError, match=match):
            lcpo.load(files.policy)
    save_arrays(files.policy, {"x": np.zeros(3)})
    with pytest.raises(InputError, match="does not describe its arrays"):
        policy_file.load_policy(files.policy)


def test_jobs_of_a_plan_keep_their_fields() -> None:
    (job,) = plan("lcpo", "pendulum", trace="revisit", steps=400, seeds=[0], overrides=SMALL)
    values = job.to_json()
    assert type(job).from_json(values, "there") == job
    del values["seed"]
    with pytest.raises(InputError, match="not a job: needs"):
        type(job).from_json(values, "there")

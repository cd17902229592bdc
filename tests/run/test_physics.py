"""Which physics a run has: in its plan and manifest, and in folders that do not say so yet."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from commands import run

import lcpo
from lcpo.envs.base import is_host
from lcpo.errors import InputError
from lcpo.run.plan.job import Job, Setup
from lcpo.run.plan.plan import plan
from lcpo.run.store.files import save_document
from lcpo.run.store.results import load_results
from lcpo.study import costs
from lcpo.study.commands import calibrate_command, train_command
from lcpo.study.measure.comparable import check_env
from lcpo.study.play import video
from lcpo.study.report import imports

SMALL: Any = {"config": {"hidden": [4], "rollout_length": 20}, "workers": 0, "progress": False}
TASK: Any = {"agent": "a2c", "env": "inverted-pendulum", "trace": "4", "seeds": 1, **SMALL}


def planned(**more: Any) -> Job:
    (job,) = plan("a2c", "reacher", trace="4", steps=4000, seeds=1, **more)
    return job


def without_physics(job: Job) -> Job:
    """As an earlier version stored it."""
    kept = {name: value for name, value in job.env_config.items() if name != "physics"}
    return dataclasses.replace(job, env_config=kept)


def test_a_plan_names_the_physics() -> None:
    compiled, mujoco = planned(), planned(env_overrides={"physics": "mujoco"})
    assert compiled.env_config["physics"] == "compiled"
    assert not Setup(compiled).is_host
    assert Setup(mujoco).is_host
    assert Setup(compiled).statics() != Setup(mujoco).statics()
    assert costs.microseconds(mujoco) > costs.microseconds(compiled) + 20.0
    assert "--env.physics" not in train_command(compiled)
    assert "--env.physics mujoco" in train_command(mujoco)
    with pytest.raises(InputError, match="did you mean 'mujoco'"):
        planned(env_overrides={"physics": "mujoko"})


def test_a_stored_run_that_does_not_say_ran_in_mujoco() -> None:
    old, mujoco = without_physics(planned()), planned(env_overrides={"physics": "mujoco"})
    assert Setup(old).env == Setup(mujoco).env
    assert "physics" not in Setup(old).identity()["env_config"]  # or its checkpoints would not fit
    assert costs.microseconds(old) == costs.microseconds(mujoco)
    assert "--env.physics mujoco" in train_command(old)
    assert "--env.physics mujoco" in calibrate_command(old)


def test_an_imported_run_and_a_video_have_no_physics_of_ours() -> None:
    """A file says nothing about how we compute a task; MuJoCo draws it."""
    job, _ = imports._job(imports.Key("theirs", "reacher", "4", 0), 400, {}, "theirs.csv")
    assert set(planned().env_config) - set(job.env_config) == {"physics"}
    drawn, _ = video.find_artist(Setup(planned()).env)
    assert is_host(drawn)


@pytest.mark.learn
def test_a_folder_of_an_earlier_version_resumes_in_mujoco(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its plan alone and by repeating the first command, which had no such option."""
    pytest.importorskip("mujoco.batch")
    out = tmp_path / "out"
    lcpo.train(**TASK, env_config={"physics": "mujoco"}, steps=80, out=out, keep_state=True)
    for path in [out / "plan.json", *out.glob("runs/**/manifest.json")]:
        found = json.loads(path.read_text())
        for job in found.get("jobs", [found.get("job", found.get("run", found))]):
            job.get("env_config", {}).pop("physics", None)
        values = {name: value for name, value in found.items() if name not in ("schema", "digest")}
        save_document(path, found["schema"], values)
        assert '"physics"' not in path.read_text()
    command = [
        "--agent", "a2c", "--env", "inverted-pendulum", "--trace", "4", "--seeds", "1",
        "--hidden", "4", "--rollout-length", "20", "--workers", "0", "--keep-state",
    ]  # fmt: skip
    assert run("train", *command, "--steps", "160", "--resume", "--out", str(out)) == 0
    assert "was planned with env.physics = mujoco, and resumes with it" in capsys.readouterr().err
    assert run("train", "--steps", "240", "--resume", "--out", str(out)) == 0
    (result,) = load_results(out)
    assert result.job.steps == 240
    assert "physics" not in result.job.env_config
    other = lcpo.train(**TASK, steps=240, out=tmp_path / "compiled")
    manifest = next((tmp_path / "compiled").glob("runs/*/manifest.json")).read_text()
    assert '"physics": "compiled"' in manifest
    with pytest.raises(InputError, match=r"env_config.physics \('mujoco', 'compiled'\)"):
        check_env([result, *other])

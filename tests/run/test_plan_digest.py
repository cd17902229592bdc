"""Workers run the plan that they were started for: one that was put in its place is refused."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import run

from lcpo.errors import InputError
from lcpo.run import worker
from lcpo.run.engines import clusters, local, process
from lcpo.run.engines.engine import run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.engines.process import serve
from lcpo.run.events import Crashed, Event
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store import plans
from lcpo.run.store.layout import log_file, plan_file

SMALL = {"hidden": (4,), "rollout_length": 20}
MINE = """
import dataclasses
from pathlib import Path
from lcpo.agents import a2c
Path(__file__).with_suffix(".mark").touch()
agent = dataclasses.replace(a2c.agent, name="mine")
"""
TRAIN = ["train", "--trace", "revisit", "--steps", "40", "--hidden", "4", "--rollout-length", "20"]


def jobs_of(agent: str = "a2c") -> list[Job]:
    return plan(agent, "pendulum", trace="revisit", steps=40, seeds=1, overrides=SMALL)


@pytest.fixture
def replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts another plan into a folder, whose agent leaves a mark where it is imported."""
    monkeypatch.chdir(tmp_path)
    (job,) = jobs_of()

    def put(out: Path) -> Path:
        (tmp_path / "foreign.py").write_text(MINE)
        forged = dataclasses.replace(job, agent="foreign:agent").to_json()
        plans.save_document(plan_file(out), plans.SCHEMA, {"out": ".", "jobs": [forged]})
        return tmp_path / "foreign.mark"

    return put


def test_a_worker_is_told_which_plan_to_trust(
    tmp_path: Path, replace: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    (tmp_path / "planned_code.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    plans.save_plan(tmp_path / "o", jobs_of("planned_code:agent"))
    file = plan_file(tmp_path / "o")
    digest = plans.load_plan(file).digest
    assert worker.main([str(file)]) == 2
    assert "pass --trust (in Python" in capfd.readouterr().err
    assert worker.main([str(file), "--plan-digest", digest]) == 0
    mark = replace(tmp_path / "o")
    assert worker.main([str(file), "--plan-digest", digest]) == 2
    assert f"{file} has changed since this worker was started" in capfd.readouterr().err
    assert not mark.exists()


def test_the_script_for_slurm_runs_the_plan_that_it_was_written_for(
    tmp_path: Path, replace: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was found: the script said --trust, and a plan put there later was run."""
    out = tmp_path / "it's 100 %"
    assert run(*TRAIN, "--agent", "a2c", "--engine", "slurm", "--out", str(out)) == 0
    script = (out / "slurm.sh").read_text()
    assert "--trust" not in script
    assert f"--plan-digest {plans.load_plan(plan_file(out)).digest} " in script
    mark = replace(out)
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "1"}
    task = subprocess.run(
        ["bash", str(out / "slurm.sh")], env=environment, capture_output=True, text=True
    )
    assert task.returncode == 2, task.stderr
    assert "has changed since this worker was started" in task.stderr
    assert not mark.exists()


def test_the_script_brings_no_code_that_nobody_named(tmp_path: Path) -> None:
    """It runs all of the plan, also what this command does not name."""
    (own,), out = jobs_of(), tmp_path / "o"
    plans.save_plan(out, [own, dataclasses.replace(own, agent="foreign:agent")])
    with pytest.raises(InputError, match=r"names the agent 'foreign:agent', which is not part of"):
        run_plan([own], out, clusters.SlurmEngine(), lambda event: None, resume=True)
    assert not (out / "slurm.sh").exists()


@pytest.mark.parametrize("end", ["\n", "\r", "\x1b[2J", "\u2028"], ids=repr)
def test_no_path_becomes_code_of_the_script(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was found: a line end in --out ends the line of #SBATCH --output."""
    monkeypatch.chdir(tmp_path)
    odd = f"a{end}touch mark #"
    assert run(*TRAIN, "--engine", "slurm", "--out", odd) == 2
    assert "needs a path without line breaks or other control char" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    Path(odd).mkdir()
    monkeypatch.chdir(odd)
    assert run(*TRAIN, "--engine", "slurm", "--out", "o") == 2
    assert "needs a path without control characters" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []
    with pytest.raises(InputError, match="needs a path without control characters"):
        clusters.script(tmp_path / odd, "0", 1, 60.0)


def test_every_line_of_the_script_is_one_that_we_wrote(tmp_path: Path) -> None:
    """Whatever is printable in a path stays within its quotes."""
    odd = tmp_path / "$(touch mark) `touch mark` \"'; # 50 %a"
    text = clusters.script(odd, "0", 1, 60.0)
    quoted = shlex.quote(str(odd / "logs").replace("%", "%%") + "/slurm-%a.txt")
    assert f"#SBATCH --output={quoted}\n" in text
    words = shlex.split(text, comments=True)
    assert str(odd / "plan.json") in words
    assert len(text.splitlines()) == len(clusters.script(tmp_path, "0", 1, 60.0).splitlines())


def test_workers_on_this_machine_refuse_a_plan_that_was_put_there(
    tmp_path: Path, replace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Event] = []
    out, numbered = tmp_path / "o", plans.numbered
    mark = tmp_path / "foreign.mark"

    def late(*arguments: Any) -> plans.Numbered:
        found = numbered(*arguments)
        replace(out)
        return found

    monkeypatch.setattr(local, "numbered", late)
    monkeypatch.setattr(process, "MOST_DEATHS", 0)
    run_plan(jobs_of(), out, LocalEngine(workers=1), heard.append)
    assert isinstance(heard[-1], Crashed)
    assert "its worker ended with exit code 2" in heard[-1].reason
    assert "has changed since this worker was started" in log_file(out, 0).read_text()
    assert not mark.exists()


def test_a_task_of_rays_refuses_a_plan_that_was_put_there(tmp_path: Path, replace: Any) -> None:
    out = tmp_path / "o"
    plans.save_plan(out, jobs_of())
    digest = plans.load_plan(plan_file(out)).digest
    mark = replace(out)
    share = {jobs_of()[0].name: 0}
    (said,) = serve(share, out, tmp_path, digest=digest, checkpoint_seconds=60.0)
    assert said["died"].startswith("its worker ended with exit code 2 on ")
    assert not mark.exists()


def test_an_engine_starts_nothing_where_the_plan_holds_other_jobs(
    tmp_path: Path, replace: Any
) -> None:
    plans.save_plan(tmp_path / "o", jobs_of())
    assert plans.numbered([jobs_of()], tmp_path / "o").shares == [{jobs_of()[0].name: 0}]
    replace(tmp_path / "o")
    with pytest.raises(InputError, match="was replaced while"):
        plans.numbered([jobs_of()], tmp_path / "o")

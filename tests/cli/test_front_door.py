"""What a stranger types first: the version, help, nothing at all, Tab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import names
import pytest
from commands import run

import lcpo
from lcpo.cli import HELP, flags
from lcpo.cli.flags import Option
from lcpo.cli.main import COMMANDS
from lcpo.errors import InputError
from lcpo.run.store.plans import planned_jobs
from lcpo.study.paper import STUDIES, find_study


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"lcpo {lcpo.__version__}\n"


def test_names_and_help_need_no_jax() -> None:
    """Each is there at once, from tables that hold what the registries do."""
    code = "import sys; from lcpo.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    for word in ("--help", "list"):
        shown = subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True)
        assert "jax" not in shown.stdout.splitlines()[-1].split(), shown.stderr
    assert list(HELP) == list(COMMANDS)
    how = "python tests/support/names.py writes it anew"
    assert names.FILE.read_text("utf-8") == names.content(), how


def test_public_names() -> None:
    assert {"train", "compare", "load", "InputError"} <= set(dir(lcpo))
    assert all(hasattr(lcpo, name) for name in dir(lcpo))


def test_help_of_commands_that_need_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and find_study(name).help in shown for name in STUDIES)
    assert "--scale" in shown
    assert run("check-env", "--help") == 0
    assert "gym:CartPole-v1" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "value"), [("1e5", 100_000), ("400", 400), ("2.0", 2)])
def test_whole_numbers(word: str, value: int) -> None:
    known = [Option("steps", int | None, "", None), Option("sizes", tuple[int, ...], "", ())]
    found = flags.parse("x", ["--steps", word, "--sizes", word], known)
    assert (found.steps, found.sizes) == (value, (value,))
    assert type(found.steps) is int


@pytest.mark.parametrize("word", ["1.5", "1e-3", "nan", "inf", "1e400", "x", ""])
def test_no_whole_numbers(word: str) -> None:
    with pytest.raises(InputError, match="needs a whole number"):
        flags.parse("x", ["--steps", word], [Option("steps", int, "", 1)])


def test_train_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needs no trace and no steps, and says which it took."""
    from lcpo import api

    monkeypatch.setattr(api, "run", lambda *given, **more: [])
    monkeypatch.setattr("lcpo.comparison.load_results", lambda *given: [])
    assert run("train", "--out", str(tmp_path)) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "note: trace revisit, 1,000,000 steps: the default of pendulum; --trace chooses"
    assert second.startswith("note: 4 runs, 4,000,000 steps, about ")
    assert run("train", "--plan-only", "--out", str(tmp_path)) == 0
    jobs = planned_jobs(tmp_path)
    assert [(job.trace_name, job.steps) for job in jobs] == [("revisit", 1_000_000)] * 4


def test_a_column_of_times_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcpo.api.run_plan", lambda *given, **more: None)
    monkeypatch.setattr("lcpo.comparison.load_results", lambda *given: [])
    monkeypatch.chdir(tmp_path)
    Path("w.csv").write_text("time,x,y\n" + "".join(f"{i},0.{i},1\n" for i in range(400)))
    assert run("train", "--trace", "w.csv", "--steps", "4e2", "--agent", "a2c") == 0
    told = "w.csv: column 'time' is the time, and left out; --columns chooses"
    assert f"note: {told}\n" in capsys.readouterr().err
    assert run("trace", "w.csv", "--out", "t.png") == 0
    assert told in capsys.readouterr().err
    assert run("calibrate", "--trace", "w.csv", "--columns", "x", "--rollout-length", "50",
               "--out", "c.png") == 0  # fmt: skip
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "trace w.csv[x]: 400 steps" in shown.out


COMPLETED = {
    "lcpo tra": "train trace",
    "lcpo train --sig": "--sigma",
    "lcpo train --agent lcpo-u": "lcpo-uniform",
    "lcpo compare --agents sac,bfd": "sac,bfdqn",
    "lcpo reproduce grid": "grid-world",
    "lcpo reproduce windy --sca": "--scale",
    "lcpo check-env pendulum-": "pendulum-v1",
    "lcpo train --out x": "",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "bash") == 0
    script = capsys.readouterr().out
    lines = [
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; COMPREPLY=(); _lcpo; "
        'echo "${COMPREPLY[*]}"'
        for words in COMPLETED
    ]
    whole = "\n".join([script, *lines])
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == list(COMPLETED.values())
    assert all(f"            {name}) words=" in script for name in COMMANDS)

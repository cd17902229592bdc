"""How a command ends: 0, 1 if a run failed, 2 for bad input, 70 for a bug, 130 when stopped."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import breaking_example
import numpy as np
import pytest
from commands import QUICK, run

from lcpo.cli import main
from lcpo.errors import InputError, MissingFile, MissingPackage, RunError


def command_that_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def command(arguments: list[str]) -> int:
        raise error

    monkeypatch.setitem(main.COMMANDS, "list", command)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("sigma = [red]5[/]: needs\nless"), 2),
        (MissingFile("sigma = [red]5[/]: needs\nless"), 2),
        (MissingPackage("sigma = [red]5[/]: needs\nless"), 2),
        (RunError("sigma = [red]5[/]: needs\nless"), 1),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that_raises(monkeypatch, error)
    assert run("list") == code
    shown = capsys.readouterr()
    assert shown.err == "error: sigma = [red]5[/]: needs less\n"
    assert shown.out == ""


def test_long_errors_are_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that_raises(monkeypatch, InputError("word " * 200 + "end"))
    assert run("list") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_full_disk_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that_raises(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    assert run("list") == 1
    assert capsys.readouterr().err.startswith("error: no space is left for the results: ")


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError("x"), ImportError("x"), RuntimeError("x")]
)
def test_a_bug_keeps_its_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("lcpo.study.report.trace_figure.trace_summary", broken)
    assert run("trace", "turns-100") == 70
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert "in broken" in shown
    assert f"{type(error).__name__}: x" in shown
    assert "bug in lcpo: please report it" in shown.splitlines()[-1]


def test_stopped_by_the_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that_raises(monkeypatch, KeyboardInterrupt())
    assert run("list") == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("words", ["list --json", "--help", "list --help"])
def test_output_that_nobody_reads_is_no_bug(words: str) -> None:
    command = [sys.executable, "-m", "lcpo.cli", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.learn
def test_a_failed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A learning rate at which nothing stays finite."""
    command = ["train", "--agent", "a2c", "--trace", "revisit", "--steps", "2000", "--seeds", "1",
               "--learning-rate", "1e30", "--out", str(tmp_path / "o"), *QUICK]  # fmt: skip
    assert run(*command) == 1
    assert "stopped:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "how", [pytest.param("workers", marks=pytest.mark.learn), "here", "compare"]
)
def test_an_environment_that_breaks_before_its_first_checkpoint(
    how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason and its line, and the code of a run that failed; no traceback."""
    support = Path(breaking_example.__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(support)
    command = ["train", "--agent", "a2c"] if how != "compare" else ["compare", "--agents", "a2c"]
    command += ["--env", "breaking_example:Breaks", "--steps", "2000", "--seeds", "1"]
    command += ["--out", str(tmp_path / "o"), "--workers", "1" if how == "workers" else "0"]
    if how == "workers":  # as a user types it
        process = [sys.executable, "-m", "lcpo.cli", *command]
        assert subprocess.run(process, stdin=subprocess.DEVNULL).returncode == 1
    else:
        assert run(*command) == 1
    shown = capfd.readouterr()
    log = f"{tmp_path}/o/logs/{'worker-0' if how == 'workers' else 'here'}.txt"
    reason = (
        "a2c-breaking_example.Breaks-none-s0 stopped: world 0: step raised FileNotFoundError: "
        f"[/data/x.csv] is gone, at step 3 (breaking_example.py:24 in step); see {log}"
    )
    assert shown.out.splitlines() == [reason, f"results: {tmp_path}/o"]
    assert reason in shown.err.splitlines()
    assert "Traceback" not in shown.err
    assert "breaking_example.py" in Path(log).read_text()


def test_what_users_can_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "mine.npy", np.zeros((500, 2), np.float32))
    picture = str(tmp_path / "c.png")
    for arguments, expected in (
        (["trace", "3", "--rows", "-5"], "rows = -5"),
        (["trace", "turns-100", "--out", str(tmp_path)], "use .png"),
        (["trace", str(tmp_path / "none.npy")], "does not exist"),
        (["calibrate", "--trace", "3", "--rollout-length", "0"], "rollout length = 0"),
        (["calibrate", "--trace", "3", "--lags", "0"], "lags = 0"),
        (["calibrate", "--trace", "3", "--scale", "nan"], "scale = nan"),
        (["calibrate", "--trace", str(tmp_path / "mine.npy"), "--rollout-length", "300"],
         "needs at least 2"),
        (["export", str(tmp_path / "none"), str(tmp_path / "t.csv")], "holds no runs"),
        (["reproduce", "grid-world", "--seeds", "0"], "at least one"),
        (["reproduce"], "name of an experiment"),
    ):  # fmt: skip
        assert run(*arguments) == 2, arguments
        assert expected in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("trace", "turns-100", "--out", picture) == 2
    assert "pip install matplotlib" in capsys.readouterr().err
    assert not Path(picture).exists()


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("raise KeyboardInterrupt", 130, "stopped\n"),
        ("x = 1\nagent = 1 / 0", 2, "ZeroDivisionError: division by zero ("),
        ("def f(:", 2, "SyntaxError: "),
        ("raise SystemExit(0)", 2, "SystemExit: 0 ("),
        ("agent = 3", 2, "is a int: needs an lcpo.types.Agent"),
    ],
)
def test_a_module_that_cannot_be_imported(
    text: str, code: int, expected: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_broken_module", raising=False)
    (tmp_path / "my_broken_module.py").write_text(text)
    assert run("train", "--agent", "my_broken_module:agent") == code
    shown = capsys.readouterr().err
    assert expected in shown
    assert len(shown.splitlines()) == 1
    if "division" in expected:
        assert "(my_broken_module.py:2 in <module>)" in shown

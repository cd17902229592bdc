"""Malformed command lines: one line that says what to do, exit code 2, and nothing is done."""

from __future__ import annotations

import os
from pathlib import Path

import bad_commands
import numpy as np
import pytest
from bad_commands import FOUND, Words, complaint, generated
from each import for_each

import lcpo

NUM_GENERATED = 600
IN_HASTE = 40
"""Of each, in `make test`; all of them in `make test-slow`."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of finished runs."""
    out = tmp_path_factory.mktemp("runs") / "o"
    small = {"hidden": [4], "rollout_length": 20}
    lcpo.train("a2c", "pendulum-v1", steps=40, seeds=1, out=out, config=small, workers=0,
               progress=False)  # fmt: skip
    return out


@pytest.fixture
def folder(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with things to trip over."""
    monkeypatch.chdir(tmp_path)
    for name, text in bad_commands.BROKEN_MODULES.items():
        (tmp_path / name).write_text(text)
    for name in ("folder", "folder.npy", "folder.png", "folder.csv"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("mine")
    for name in ("text.csv", "text.npy"):
        (tmp_path / name).write_text("no numbers\nat all\n")
    (tmp_path / "theirs.csv").write_text(
        "# format: lcpo-import 1\n# code: theirs\nagent,env,trace,seed,step,return\n"
        "ppo,pendulum,3,0,200,-1\n"
    )
    np.save(tmp_path / "turns.npy", np.zeros((1000, 2), np.float32))
    np.save(tmp_path / "large.npy", np.full((1000, 2), 1e30, np.float32))
    (tmp_path / "runs-of-mine").symlink_to(runs)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe.npy")
    return tmp_path


def content(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def complaints(
    commands: list[Words], folder: Path, capsys: pytest.CaptureFixture[str], *, may_pass: bool
) -> list[str]:
    before, found = content(folder), []
    for words in commands:
        outcome = bad_commands.run(words)
        found.append(complaint(words, outcome, capsys.readouterr().err, may_pass=may_pass))
        if content(folder) != before:
            found.append(f"wrote {content(folder) - before}: {words}")
            before = content(folder)
    return [text for text in found if text]


def sample(commands: list[Words]) -> list[Words]:
    return commands[:: max(1, len(commands) // IN_HASTE)]


def test_the_commands_to_be_mutated_are_valid(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, parts in bad_commands.VALID.items():
        words = [command, *(word for part in parts for word in part)]
        outcome = bad_commands.run(words)
        assert outcome.accepted is not None or outcome.code == 0, (words, capsys.readouterr().err)


def test_some_that_were_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not complaints(sample(FOUND), folder, capsys, may_pass=False)


def test_some_of_the_grammar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = sample(generated(NUM_GENERATED))
    assert not complaints(commands, folder, capsys, may_pass=True)


@pytest.mark.learn
def test_all_that_were_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not complaints(FOUND, folder, capsys, may_pass=False)


@pytest.mark.learn
def test_all_of_the_grammar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = generated(NUM_GENERATED)
    assert len({tuple(words) for words in commands}) == NUM_GENERATED
    assert not complaints(commands, folder, capsys, may_pass=True)


@for_each(
    "words",
    [["--help"], ["-h"], [], *([name, "--help"] for name in bad_commands.VALID),
     ["train", "--agent", "a2c", "--steps", "x", "-h"], ["reproduce", "theorem", "--help"],
     ["check-env", "pendulum", "-h"]],
)  # fmt: skip
def test_help(words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    assert bad_commands.run(words).code == 0
    shown = capsys.readouterr()
    assert "usage" in shown.out
    assert shown.err == ""

"""What the README shows works as pasted, and it stays short."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import prose
import pytest
from commands import run

import lcpo
from lcpo.cli.main import COMMANDS
from lcpo.run.plan.check import check_env

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
SHELL = "".join(re.findall(r"```bash\n(.*?)```", README, re.S))
FIRST_SCREEN = README.partition("## First run")[0]


def block(word: str) -> str:
    """The snippet that has this word."""
    (found,) = [text for text in BLOCKS if word in text]
    return found


@pytest.fixture(autouse=True)
def _a_readers_jax() -> Iterator[None]:
    """JAX's defaults, not the strict settings of the tests."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def pasted(text: str) -> dict[str, Any]:
    """What a snippet defines."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(text, scope)
    return scope


def test_it_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


def test_the_first_screen_says_what_it_is_and_where_it_loses() -> None:
    assert README.startswith("# lcpo: Locally Constrained Policy Optimization\n")
    for needed in ("does not forget", "docs/images/", "pip install", "docs/where_lcpo_loses.md"):
        assert needed in FIRST_SCREEN
    assert len(FIRST_SCREEN.splitlines()) < 25


def test_no_snippet_is_left_out() -> None:
    used = [block(word) for word in ("lcpo.train", "class Thermostat", "lcpo.Learner")]
    assert used == BLOCKS


def test_the_first_run(tmp_path: Path, monkeypatch: Any) -> None:
    """As pasted, but for a policy that needs no training."""
    train = lcpo.train

    def quick(agent: str, env: str, **how: Any) -> Any:
        assert agent == "lcpo-uniform"
        how |= {"steps": 400, "config": {"action": 7}, "workers": 0, "progress": False}
        return train("constant", env, **how)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lcpo, "train", quick, raising=False)
    scope = pasted(block("lcpo.train"))
    assert scope["obs"].shape == (9,)
    assert np.isfinite(scope["reward"])


def test_the_environment_keeps_the_rules() -> None:
    check_env(pasted(block("class Thermostat"))["Thermostat"]())


def test_the_loop(tmp_path: Path, monkeypatch: Any) -> None:
    """As pasted, but for an agent that compiles fast."""

    class Quick(lcpo.Learner):
        def __init__(self, agent: str, spec: Any, **how: Any) -> None:
            assert agent == "lcpo"
            super().__init__("constant", spec, {"action": 2}, **how)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lcpo, "Learner", Quick, raising=False)
    learner = pasted(block("lcpo.Learner"))["learner"]
    assert learner.updates == 4  # the next `act` completes the fifth rollout
    assert (tmp_path / "learner.npz").exists()


@pytest.mark.learn
@pytest.mark.parametrize("word", ["lcpo.train", "lcpo.Learner"])
def test_snippets_run_as_pasted(word: str, tmp_path: Path) -> None:
    """In full, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", block(word)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.learn
def test_the_environment_and_the_trace_in_commands(tmp_path: Path, monkeypatch: Any) -> None:
    """With few rows."""
    (tmp_path / "thermostat.py").write_text(block("class Thermostat"))
    outside = np.random.default_rng(0).normal(size=(1000, 1)).repeat(2, axis=0)
    np.savetxt(tmp_path / "outside.csv", outside, delimiter=",")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for line in SHELL.splitlines():
        if "outside.csv" in line:
            more = ["--seeds", "1", "--workers", "0"] if "compare" in line else []
            assert run(*shlex.split(line, comments=True)[1:], *more) == 0


def test_commands_and_options_exist(capsys: Any) -> None:
    lines = [line for line in SHELL.splitlines() if line.startswith("lcpo ")]
    assert len(lines) >= 7
    for line in lines:
        _, command, *words = shlex.split(line, comments=True)
        assert command in COMMANDS, line
        name = words[:1] if command == "reproduce" else []
        agent = words[:2] if words[0] == "--agent" else []
        assert run(command, *name, *agent, "--help") == 0
        options = capsys.readouterr().out
        for word in words:
            assert not word.startswith("--") or f"{word} " in options, f"{line}: {word}"


def test_links_lead_somewhere() -> None:
    for page in prose.PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose.read(page)):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"

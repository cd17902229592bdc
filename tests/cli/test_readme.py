"""The README stays short, and its snippets work in full. `make test-docs` checks all snippets."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import prose
import pytest
from commands import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
SHELL = "".join(re.findall(r"```bash\n(.*?)```", README, re.S))
FIRST_SCREEN = README.partition("## First run")[0]


def block(word: str) -> str:
    """The snippet that has this word."""
    (found,) = [text for text in BLOCKS if word in text]
    return found


def test_it_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


def test_the_first_screen_says_what_it_is_and_where_it_loses() -> None:
    assert README.startswith("# lcpo: Locally Constrained Policy Optimization\n")
    for needed in ("does not forget", "docs/images/", "pip install", "docs/where_lcpo_loses.md"):
        assert needed in FIRST_SCREEN
    assert len(FIRST_SCREEN.splitlines()) < 25


QUESTIONS = {
    "How do I install it?": ("README.md", "pip install ."),
    "How do I run it for the first time?": ("README.md", "lcpo.train("),
    "How do I use my own environment?": (
        "docs/add_an_environment.md",
        "lcpo check-env own_env:Server",
    ),
    "How do I use my own CSV file?": ("docs/contexts.md", "lcpo calibrate --trace workload.csv"),
    "Which agent should I use?": ("docs/which_agent.md", "--agent lcpo-uniform"),
    "How do I resume a run?": ("docs/running.md", "lcpo train --resume --out out/mine"),
    "How does an agent learn in my own loop?": ("docs/live_loop.md", "learner.observe(reward)"),
    "How do I run on a cluster?": ("docs/clusters.md", "--engine slurm"),
    "How do I reproduce the paper's table?": ("docs/reproduce.md", "lcpo reproduce windy"),
    "How do I add an agent?": ("docs/add_an_agent.md", "--agent reinforce:agent"),
}
"""The page that answers a question of a newcomer, and a part of the answer."""


def test_a_newcomers_questions_are_two_clicks_away() -> None:
    """From the README, and from the front page of the site, which are one click apart."""
    for front in ("README.md", "docs/index.md"):
        first = _links(ROOT / front)
        second = {page for each in first if each.suffix == ".md" for page in _links(each)}
        reached = {ROOT / front, *first, *second}
        missing = [
            question
            for question, (page, answer) in QUESTIONS.items()
            if ROOT / page not in reached or answer not in (ROOT / page).read_text()
        ]
        assert missing == [], front


def _links(page: Path) -> set[Path]:
    """What a page links to, in the repository."""
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose.read(page))
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


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
    """With few rows, and JAX's defaults instead of the strict settings of the tests."""
    (tmp_path / "thermostat.py").write_text(block("class Thermostat"))
    outside = np.random.default_rng(0).normal(size=(1000, 1)).repeat(2, axis=0)
    np.savetxt(tmp_path / "outside.csv", outside, delimiter=",")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for line in SHELL.splitlines():
        if "outside.csv" in line:
            more = ["--seeds", "1", "--workers", "0"] if "compare" in line else []
            with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
                assert run(*shlex.split(line, comments=True)[1:], *more) == 0


def test_links_lead_somewhere() -> None:
    for page in prose.PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", prose.read(page)):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"

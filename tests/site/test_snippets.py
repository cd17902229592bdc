"""Every snippet of README and docs works: Python runs as pasted, commands are planned.

Each page gets a new folder with the examples and the files that a reader brings. Its blocks of
Python run there in order. A command of `lcpo` goes through the real parser and planner,
which check every option, agent, environment and trace.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import re
import runpy
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import prose
import pytest
from snippets import EXAMPLES, ROOT, Snippet, commands, excerpt_of, snippets

import lcpo
from lcpo import api, contexts, tuning
from lcpo.cli import flags, runs
from lcpo.cli.main import COMMANDS
from lcpo.errors import InputError
from lcpo.run.engines import local
from lcpo.run.plan import plan
from lcpo.run.plan.check import check_values
from lcpo.study.paper import find_study

SHORTENED = {
    "README.md": "half a minute; `make test-slow` runs it in full",
    "docs/running.md": "two million steps",
    "docs/which_agent.md": "400,000 steps",
    "docs/add_an_environment.md": "nine runs of 60,000 steps",
}
"""Pages whose runs make at most `STEPS` steps here, and what they take as pasted."""
STEPS = 1_000
RUN = [["lcpo", "export", "out/compared", "all.parquet"]]
"""Commands that are run: a later block of the page needs their files."""
OTHERS = {
    "curl", "echo", "install", "journalctl", "jq", "kubectl", "nvidia-cuda-mps-control", "podman",
    "promtool", "ray", "sbatch", "ssh", "systemctl", "tensorboard",
}  # fmt: skip
"""Programs of others, which are not checked."""
ARM = """import gymnasium

class Arm(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(wind=gymnasium.spaces.Box(-1.0, 1.0, (2,)))
    action_space = gymnasium.spaces.MultiDiscrete([3, 3])

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, True, {}
"""
PAGES = {str(page.relative_to(ROOT)): list(snippets(page)) for page in prose.PAGES}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)


@pytest.fixture(autouse=True)
def _a_readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JAX's defaults; no worker processes; the files that pages speak of."""
    for path in EXAMPLES:
        shutil.copy(path, tmp_path)
    _save("README.md", "class Thermostat", tmp_path / "thermostat.py")
    _save("docs/add_a_detector.md", "clock = ", tmp_path / "seasons.py")
    _save("docs/agents/prescient.md", "mine = ", tmp_path / "my_module.py")
    with (tmp_path / "my_module.py").open("a") as file:
        file.write("from thermostat import Thermostat as MyEnv\n")
    for notebook in (ROOT / "docs" / "tutorials").glob("*.ipynb"):
        _save_cells(notebook, tmp_path)
    (tmp_path / "my_env.py").write_text(ARM)
    (tmp_path / "my.csv").write_text("size_ms,gap_ms\n80,50\n20,10\n300,40\n")
    for name in ("outside.csv", "workload.csv"):
        np.savetxt(tmp_path / name, np.arange(1_000.0) // 100)
    np.save(tmp_path / "late.npy", np.zeros((4_000_000, 2), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(local, "cores", list)  # none: runs happen in this process
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _save_cells(notebook: Path, folder: Path) -> None:
    """Save the cells that a notebook saves."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        first, *lines = "".join(cell["source"]).splitlines() or [""]
        if first.startswith("%%writefile "):
            (folder / first.split()[1]).write_text("\n".join(lines))


def _save(page: str, word: str, path: Path) -> None:
    """Save a snippet to the file that its page names."""
    (text,) = [each.text for each in PAGES[page] if word in each.text and each.language == "python"]
    path.write_text(text)


@pytest.mark.parametrize(
    "page", [page for page, found in PAGES.items() if any(s.language == "python" for s in found)]
)
def test_python_runs_as_pasted(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if page in SHORTENED:
        monkeypatch.setattr(lcpo, "train", _short_train, raising=False)
    for snippet in PAGES[page]:
        if snippet.language == "python":
            _run(snippet)
        for words in commands(snippet.text) if snippet.language == "bash" else ():
            if words in RUN:
                COMMANDS[words[1]](words[2:])


def _short_train(*args: Any, steps: int, **how: Any) -> Any:
    return api.train(*args, steps=min(steps, STEPS), **how)


def _run(snippet: Snippet) -> None:
    """Run a block as a script; of an excerpt, import the example."""
    example = excerpt_of(snippet.text)
    if example is not None:
        importlib.import_module(example.stem)
        return
    script = Path(f"line{snippet.line}.py")
    script.write_text(snippet.text)
    runpy.run_path(str(script), run_name="__main__")


class Accepted(Exception):
    """A command line is accepted: stop here."""


@pytest.fixture
def _planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end with `Accepted` where they would start to work."""
    parse = flags.parse

    def parsed(name: str, words: list[str], *how: Any) -> Any:
        """Planned commands continue; of the others, names are checked here."""
        options = parse(name, words, *how)
        if name in ("train", "compare", "tune") and "--resume" not in words:
            return options
        if name.startswith("reproduce ") and not name.endswith("--list"):
            study = find_study(name.split()[1])
            fields = {field.name for field in dataclasses.fields(study.Options)}
            given = {name: value for name, value in vars(options).items() if name in fields}
            study.plan(study.Options(**given))
        elif getattr(options, "trace", None):
            contexts.compose(options.trace).describe()
        raise Accepted

    def planned(make: Any, steps: Any, *how: Any) -> Any:
        make(steps=steps)
        raise Accepted

    def searched(*how: Any) -> Any:
        raise Accepted

    monkeypatch.setattr(flags, "parse", parsed)
    monkeypatch.setattr(tuning, "run", searched)
    monkeypatch.setattr(plan, "check_program", check_values)  # contract tests trace every agent
    monkeypatch.setattr(runs, "load_results", lambda folder: [])
    monkeypatch.setattr(api, "prepare", planned)


@pytest.mark.usefixtures("_planned")
def test_commands_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in EXAMPLES:
        if '["csv"]' in path.read_text():  # `python EXAMPLE.py csv` writes its data
            monkeypatch.setattr(sys, "argv", [path.name, "csv"])
            runpy.run_path(path.name, run_name="__main__")
    problems = [
        f"{snippet.place}: {' '.join(words)}: {problem}"
        for found in PAGES.values()
        for snippet in found
        if snippet.language == "bash"
        for words in commands(snippet.text)
        if (problem := _problem(*words))
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.usefixtures("_planned")
@pytest.mark.parametrize(
    "line",
    [
        "lcpo train --agent lcppo",
        "lcpo train --agent lcpo --trace 4 --sigmas 2",
        "lcpo compare --agents lcpo,a3c --trace 4",
        "lcpo tune --search 'gama=0.9..1'",
        "X=1 lcpo compare --env pendulum --trace late.npz | jq .",
        "lcpo calibrate --trace 5",
        "lcpo evaluate out/run --step 10",
        "lcpo reproduce windy --agents nobody",
        "lcpo reproduce windy --scale tiny > log",
        "lcpo watched",
        "make everything",
        'pip install "lcpo[gpu]"',
        "python missing.py",
        "python -m lcpo.worker plan.json",
        "cd example",
        "nonsense",
    ],
)
def test_a_mistake_is_found(line: str) -> None:
    assert next(_problem(*words) for words in commands(line))


def _problem(program: str, *words: str) -> str | None:
    """What is wrong with a command."""
    if program == "lcpo" and words[0] in COMMANDS:
        try:
            COMMANDS[words[0]](list(words[1:]))
        except (Accepted, InputError) as end:
            return None if isinstance(end, Accepted) else str(end)
        return None if words[0] == "completion" else "neither parsed nor planned"
    known = {
        "lcpo": lambda: words == ("--version",),
        "make": lambda: {*words} <= {*TARGETS},
        "cd": lambda: (ROOT / words[0]).is_dir(),
        "pip": lambda: {*re.findall(r"lcpo\[(\w+)\]", " ".join(words))} <= {*EXTRAS},
        "python": lambda: words[0] == "-c" or _is_program(words),
    }
    return None if program in OTHERS or (program in known and known[program]()) else "unknown"


def _is_program(words: tuple[str, ...]) -> bool:
    """Whether `python WORDS` finds its program."""
    if words[0] == "-m":
        return importlib.util.find_spec(words[1]) is not None
    return Path(words[0]).exists()

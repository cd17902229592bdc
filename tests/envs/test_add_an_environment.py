"""From a user's Gymnasium class to a comparison: the example runs, and the page shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.cli import main as cli
from lcpo.run.store.files import load_json

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add_an_environment.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture(autouse=True)
def _in_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def test_the_page_shows_the_example() -> None:
    assert BLOCKS[0] == (ROOT / "examples/own_env.py").read_text()


@pytest.mark.learn  # `make test` runs the command of the page, below
def test_the_example_compares_three_agents(tmp_path: Path, capsys: Any) -> None:
    import own_env  # pyright: ignore[reportMissingImports]

    written = own_env.main(str(tmp_path), steps=2000, seeds=2)
    assert {path.name for path in written} >= {"table.md", "curves.png"}
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("lcpo", "a2c-entropy", "a2c "))
    scope: dict[str, Any] = {}
    exec(BLOCKS[1].replace("out/server", str(tmp_path)), scope)
    assert scope["step"].obs.shape == (1, 4)


def test_nothing_is_wrong_with_it(capsys: Any) -> None:
    lags = ["--env.lags", "3"]
    assert cli.main(["check-env", "own_env:Server", "--env.context", "key:load", *lags]) == 0
    printed = capsys.readouterr().out
    (layout,) = re.findall(r"```text\n(entry .*?)```", PAGE, re.S)
    assert f"\n{layout}\n" in printed
    assert "own_env:Server is ready to use" in printed
    assert "the context moves" in printed


@pytest.mark.learn
def test_the_command_of_the_page(tmp_path: Path, capsys: Any) -> None:
    """Through worker processes, which find the class from this folder."""
    (line,) = [x for x in PAGE.splitlines() if x.startswith("lcpo compare")]
    arguments = line.split()[1:]
    arguments[arguments.index("--steps") + 1] = "1000"
    more = ["--agents", "a2c,lcpo", "--seeds", "2", "--out", str(tmp_path / "o")]
    assert cli.main([*arguments, *more]) == 0
    assert "a2c" in capsys.readouterr().out
    manifests = [load_json(path) for path in (tmp_path / "o").glob("runs/*/manifest.json")]
    assert len(manifests) == 4
    assert all(m["exact_resume"] and m["job"]["env_config"]["lags"] == 3 for m in manifests)


def test_our_environments_in_gymnasium() -> None:
    scope: dict[str, Any] = {}
    exec(BLOCKS[4], scope)
    assert scope["obs"].shape == (9,)


@pytest.mark.learn  # `make test` checks the same environment, above
def test_the_test_of_the_page() -> None:
    scope: dict[str, Any] = {}
    exec(BLOCKS[3], scope)
    scope["test_my_environment"]()


def test_the_context_is_read_through_the_spec() -> None:
    scope: dict[str, Any] = {}
    exec(BLOCKS[2], scope)
    assert scope["loads"].shape == (1, 1, 3)
    np.testing.assert_allclose(scope["latest"], [[3.1]])


def test_a_users_broken_environment_is_told(capsys: Any) -> None:
    assert cli.main(["check-env", "own_env:Server", "--env.context", "key:weather"]) == 1
    assert "is not a key of the observation space" in capsys.readouterr().out.replace("\n", " ")
    assert cli.main(["check-env", "own_env:Servr"]) == 2
    assert "cannot import environment" in capsys.readouterr().err


@pytest.mark.learn
def test_one_of_gymnasiums_own(tmp_path: Path, capfd: Any) -> None:
    """Said aloud: actions of a Box are a grid."""
    arguments = ["train", "--agent", "a2c", "--env", "gym:Pendulum-v1", "--env.bins", "5"]
    more = ["--steps", "800", "--seeds", "1", "--workers", "0", "--out", str(tmp_path / "o")]
    assert cli.main([*arguments, *more]) == 0
    assert "grid of 5 values per" in capfd.readouterr().err
    (path,) = (tmp_path / "o").glob("runs/*/manifest.json")
    manifest = load_json(path)
    assert "grid of 5 values" in manifest["notes"][0]
    assert manifest["exact_resume"] is False
    assert cli.main(["train", "--agent", "lcpo", "--env", "gym:Pendulum-v1", "--steps", "800"]) == 2
    assert "looks at the context" in capfd.readouterr().err.replace("\n", " ")

"""What a release consists of: one version everywhere, workflows, the Pythons that are tried."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import lcpo

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name: str) -> Any:
    return pytest.importorskip("yaml").safe_load((ROOT / name).read_text())


def test_the_version_is_the_same_everywhere() -> None:
    cited = read("CITATION.cff")
    assert PROJECT["version"] == cited["version"] == lcpo.__version__
    assert f"## {lcpo.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert {"cff-version", "message", "title", "authors", "license"} <= cited.keys()


def test_workflows_try_the_pythons_that_are_promised() -> None:
    promised = [x.split()[-1] for x in PROJECT["classifiers"] if ":: Python :: 3." in x]
    assert (
        promised
        == read(".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    )
    page = (ROOT / "docs" / "stability.md").read_text()
    assert all(version in page for version in promised)


def test_every_workflow_runs_something() -> None:
    for file in (ROOT / ".github").rglob("*.yml"):
        found = read(str(file.relative_to(ROOT)))
        steps = [step for job in found.get("jobs", {}).values() for step in job["steps"]]
        assert steps or found["body"], file
        assert all("uses" in step or "run" in step for step in steps), file

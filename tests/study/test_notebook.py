"""The notebooks run top to bottom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The outputs of all cells."""
    nbformat: Any = pytest.importorskip("nbformat")
    nbclient: Any = pytest.importorskip("nbclient")
    monkeypatch.delenv("JAX_NUMPY_DTYPE_PROMOTION", raising=False)  # as a reader has it
    monkeypatch.delenv("JAX_NUMPY_RANK_PROMOTION", raising=False)
    notebook = nbformat.read(TUTORIALS / name, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def shown(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") for output in outputs)


def images(outputs: list[Any], kind: str) -> int:
    return sum(f"image/{kind}" in output.get("data", {}) for output in outputs)


@pytest.mark.learn
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run("first_hour.ipynb", tmp_path, monkeypatch)
    assert "frozen policies" in shown(outputs)
    assert images(outputs, "png") == 3
    assert images(outputs, "gif") == 1


@pytest.mark.learn
@pytest.mark.filterwarnings("ignore")
def test_an_agent_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run("own_agent.ipynb", tmp_path, monkeypatch)
    assert "minus anchored:agent" in shown(outputs)
    assert "traces won" in shown(outputs)
    assert images(outputs, "png") == 2


def test_the_agent_of_your_own_is_short() -> None:
    """60 lines, as the tutorial says."""
    cells = json.loads((TUTORIALS / "own_agent.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    (agent,) = (text for text in texts if text.startswith("%%writefile"))
    assert len(agent.splitlines()) - 1 <= 60


@pytest.mark.learn
@pytest.mark.filterwarnings("ignore")
def test_the_home_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = run("battery.ipynb", TUTORIALS, monkeypatch)  # it finds the example from there
    text = shown(outputs)
    assert "cents per kWh, sun" in text, "the context in the observation"
    assert "minus battery:learner" in text
    assert "kW\n" in text, "the action of the policy"
    assert images(outputs, "png") == 1

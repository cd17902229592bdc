"""The notebook runs top to bottom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


@pytest.mark.learn
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own packages
def test_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat: Any = pytest.importorskip("nbformat")
    nbclient: Any = pytest.importorskip("nbclient")
    monkeypatch.delenv("JAX_NUMPY_DTYPE_PROMOTION", raising=False)  # as a reader has it
    monkeypatch.delenv("JAX_NUMPY_RANK_PROMOTION", raising=False)
    notebook = nbformat.read(TUTORIALS / "first_hour.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = "".join(output.get("text", "") for output in outputs)
    assert "frozen policies" in shown
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert sum("image/gif" in output.get("data", {}) for output in outputs) == 1

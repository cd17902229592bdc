"""The golden vectors are all there, and a test without a case is an error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import golden_files
import pytest

NUM_CASES = {
    "bf": 2, "entropy": 2, "env": 6, "gae": 2, "grid": 7, "mbcd": 3, "mbpo": 3,
    "ood": 15, "policy": 3, "ret": 1, "rms": 2, "straggler": 10, "update": 26, "vtrace": 2,
}  # fmt: skip
"""By the first word of a file's name."""


def test_no_file_is_missing() -> None:
    own = Path(__file__).parent
    assert Counter(f.name.split("_")[0] for f in own.glob("*.npz")) == NUM_CASES


def test_a_folder_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(golden_files, "FOLDER", tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        golden_files.cases("gae_*")


def test_a_unit_without_a_case_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Even where another pattern of the same test finds its files."""
    monkeypatch.setattr(golden_files, "FOLDER", tmp_path)
    (tmp_path / "gae_0.npz").touch()
    golden_files.cases("gae_*")
    with pytest.raises(FileNotFoundError, match=r"has no file ret_norm_\*.npz"):
        golden_files.cases("gae_*", "ret_norm_*")

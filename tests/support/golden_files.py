"""Input/output vectors of the published code: `tests/golden`, or the folder in $LCPO_GOLDEN.

A test takes whatever cases of its unit the folder holds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.core.nets import Layer, Params

FOLDER = Path(os.environ.get("LCPO_GOLDEN") or Path(__file__).parents[1] / "golden")


def cases(*patterns: str) -> Any:
    """Parametrise a test over the files that match."""
    files = sorted({f for p in patterns for f in FOLDER.glob(f"{p}.npz")})
    return pytest.mark.parametrize("case", files, ids=[f.stem for f in files])


def load(case: Path) -> dict[str, np.ndarray]:
    with np.load(case) as file:
        return {k: file[k] for k in file.files}


def mlp_params(case: dict[str, np.ndarray], prefix: str) -> Params:
    """Weights `<prefix>_w0, b0, ...` as a network of ours."""
    layers = []
    while f"{prefix}_w{len(layers)}" in case:
        i = len(layers)
        layers.append(Layer(case[f"{prefix}_w{i}"], case[f"{prefix}_b{i}"]))
    assert layers, f"no network {prefix!r} in this case"
    return tuple(layers)


def assert_params(found: Params, case: dict[str, np.ndarray], prefix: str, atol: float) -> None:
    for i, layer in enumerate(found):
        np.testing.assert_allclose(layer.w, case[f"{prefix}_w{i}"], rtol=0, atol=atol)
        np.testing.assert_allclose(layer.b, case[f"{prefix}_b{i}"], rtol=0, atol=atol)

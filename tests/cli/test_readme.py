"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lcpo
from lcpo.run.plan.check import check_env

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)

IMPORTS = """
import jax.numpy as jnp
from lcpo.config import config, traced
from lcpo.types import ContextSlice, Spec, Step
"""


def test_the_environment_is_one() -> None:
    (block,) = [b for b in BLOCKS if "class Thermostat" in b]
    scope: dict[str, Any] = {"__name__": __name__}
    exec(IMPORTS + block, scope)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # a reader's
        check_env(scope["Thermostat"]())


@pytest.mark.learn
def test_the_python_example_runs(tmp_path: Path, monkeypatch: Any) -> None:
    """With fewer steps, in this process."""
    (block,) = [b for b in BLOCKS if "lcpo.train" in b]
    train = lcpo.train

    def quick(*args: Any, **kwargs: Any) -> Any:
        return train(*args, **{**kwargs, "steps": 2000, "workers": 0, "progress": False})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lcpo, "train", quick, raising=False)
    scope: dict[str, Any] = {"obs": np.zeros(9)}
    exec(block, scope)
    assert scope["action"].shape == (1,)


def test_the_loop_runs(tmp_path: Path, monkeypatch: Any) -> None:
    """With an agent that compiles fast."""
    (block,) = [b for b in BLOCKS if "lcpo.Learner" in b]
    block = block.replace('"lcpo", spec,', '"constant", spec, {"action": 1},')
    monkeypatch.chdir(tmp_path)
    steps = iter([True] * 300 + [False])
    scope: dict[str, Any] = {
        "lcpo": lcpo, "running": lambda: next(steps), "play": lambda action: float(action[0]),
        "measure": lambda: (np.zeros(3), np.ones(2)),
    }  # fmt: skip
    exec(IMPORTS + block, scope)
    assert scope["learner"].metrics["reward"] == 1.0
    assert (tmp_path / "learner.npz").exists()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"

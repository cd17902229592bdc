"""Detectors of a user's own: found in the current folder, checked before the run, named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from commands import QUICK, run

from lcpo.core import ood
from lcpo.errors import InputError
from lcpo.types import ContextSlice

CONTEXT = ContextSlice(2, channels=1, lags=2)


def scalar(context: Any, recent: Any, data: Any) -> Any:
    return jnp.sum(data)


def integers(context: Any, recent: Any, data: Any) -> Any:
    return jnp.arange(len(data))


def negative(context: Any, recent: Any, data: Any) -> Any:
    return jnp.full(len(data), -1.0)


def undefined(context: Any, recent: Any, data: Any) -> Any:
    return jnp.log(-jnp.ones(len(data)))


def numpy_only(context: Any, recent: Any, data: Any) -> Any:
    return np.linalg.norm(np.asarray(data), axis=1)


def good(context: Any, recent: Any, data: Any) -> Any:
    return jnp.where(context.entries(data)[:, 0] > recent.mean(), jnp.inf, 0.0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("scalar", "gives shape []: needs [5], a number for each row of data"),
        ("integers", "distances are int32: needs float32"),
        ("negative", "gives [-1.0, -1.0, -1.0, -1.0, -1.0]: needs squared distances from 0"),
        ("undefined", "gives [nan, nan, nan, nan, nan]: needs squared distances"),
        ("numpy_only", "data [5, 4]) raised TracerArrayConversionError"),
    ],
)
def test_a_rule_that_is_broken_is_told(name: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        ood.check_detector(f"{__name__}:{name}", CONTEXT, 4)
    assert f"detector '{__name__}:{name}': " in str(error.value)
    assert told in str(error.value)


def test_one_that_keeps_the_rules_may_be_infinite() -> None:
    ood.check_detector(f"{__name__}:good", CONTEXT, 4)


@pytest.mark.learn
def test_the_page_in_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "add_a_detector.md").read_text()
    text, test = re.findall(r"```python\n(.*?)```", page, re.S)
    (command,) = re.findall(r"^lcpo (.*--detector.*)$", page, re.M)
    (tmp_path / "seasons.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small = [*QUICK, "--trace", "revisit", "--steps", "80", "--seeds", "1", "--out", "o"]
    assert run(*command.replace("--trace 3", "").split(), *small) == 0
    scope: dict[str, Any] = {}
    exec(test, scope)
    scope["test_my_detector"]()
    text = text.replace("axis=-1)\n\n\nclock", "axis=0)\n\n\nclock")
    (tmp_path / "wrong.py").write_text(text)
    words = command.replace("--trace 3", "").replace("seasons", "wrong").split()
    assert run(*words, *small[:-1], "p") == 2
    assert "detector 'wrong:clock': distance(context, recent [8, " in capsys.readouterr().err
    assert not (tmp_path / "p").exists()

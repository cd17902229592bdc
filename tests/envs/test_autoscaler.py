"""The autoscaler of the tutorial: raw units, a CSV with times, from nothing to a comparison."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lcpo
from lcpo.agents import AGENTS
from lcpo.agents.normalise import RUNNING
from lcpo.agents.normalise import scale as scaled
from lcpo.cli import main as cli
from lcpo.run.store.record import mean_reward
from lcpo.run.store.results import load_results

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial_autoscaler.md").read_text()
EXAMPLE = (ROOT / "examples/autoscaler.py").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user works: the module is here, and nothing else."""
    (tmp_path / "autoscaler.py").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import autoscaler  # pyright: ignore[reportMissingImports]

    autoscaler.write_load(days=2)
    return tmp_path


def command(start: str) -> list[str]:
    lines = PAGE.replace("\\\n", " ").splitlines()
    (line,) = [line for line in lines if line.startswith(f"lcpo {start}")]
    return shlex.split(line.partition("#")[0])[1:]


def test_the_page_shows_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) >= 2
    for block in blocks:
        assert block in EXAMPLE


def test_check_env_names_what_is_out_of_scale(folder: Path, capsys: Any) -> None:
    assert cli.main(command("check-env")) == 0
    printed = capsys.readouterr().out
    assert "observation entry 0 (0 to 2e+04), 2 (" in printed
    assert "--normalise running" in printed
    assert "is ready to use; see the" in printed


@pytest.mark.learn
def test_a_saved_policy_scales_by_itself(folder: Path) -> None:
    """Trained for three updates, through the host driver; then given raw observations."""
    arguments = {"load": str(folder / "requests.csv")}
    env = lcpo.from_gymnasium("autoscaler:Autoscaler", context="key:requests", arguments=arguments)
    (run,) = lcpo.train(
        "a2c", env, steps=60, seeds=1, workers=0, progress=False, out=folder / "o",
        normalise="running", config={"rollout_length": 20, "hidden": [8]},
    )  # fmt: skip
    policy = lcpo.load(folder / "o")
    moments = policy.state.moments
    assert float(moments.weight) == 60.0
    assert 100.0 < float(moments.mean[2]) < 200.0, "requests per second of the first hour"
    raw = np.array([[1500.0, 6.0, 130.0], [0.0, 2.0, 300.0]], np.float32)
    seen = scaled(RUNNING, True, policy.spec, moments, jnp.asarray(raw))
    mean, std = np.asarray(moments.mean), np.sqrt(np.asarray(moments.var))
    expected = (raw - mean)[:, 1:] / std[1:]  # there was no queue yet
    np.testing.assert_allclose(seen[:, 1:], np.clip(expected, -10, 10), rtol=1e-4, atol=1e-4)
    many, key = np.tile(raw, (50, 1)), jax.random.key(1)
    plain, _ = AGENTS["a2c"].act(
        policy.config, policy.spec, policy.state.inner, jnp.tile(seen, (50, 1)), key
    )
    np.testing.assert_array_equal(policy.act(many, key), plain)
    assert run.job.normalise == "running"


@pytest.mark.learn
def test_lcpo_beats_random_and_constant_servers(folder: Path, capsys: Any) -> None:
    """The command of the page, with one seed; the whole file."""
    import autoscaler  # pyright: ignore[reportMissingImports]

    autoscaler.write_load()
    words = command("compare")
    words[words.index("--seeds") + 1] = "1"
    assert cli.main([*words, "--out", "o"]) == 0
    assert "autoscaler:quick" in capsys.readouterr().out
    late = {r.job.agent: mean_reward(r.record, r.job.steps // 2) for r in load_results("o")}
    others = {name: value for name, value in late.items() if name.startswith(("rand", "const"))}
    assert len(others) == 2
    assert late["autoscaler:quick"] > max(others.values()) + 0.1
    assert (folder / "o/curves.png").stat().st_size > 10_000

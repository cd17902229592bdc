"""docs/coverage.md is what its script writes, and the script knows our cells from others."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cells", ROOT / "benchmarks" / "cells.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_up_to_date(script: ModuleType) -> None:
    page = script.page(ROOT / "results")
    assert script.PAGE.read_text() == page, "run: python benchmarks/cells.py"
    assert "| all | 746 |" in page


def test_agreement_counts_intervals_that_overlap(script: ModuleType, tmp_path: Path) -> None:
    def rows(agent: str, *returns: float) -> list[str]:
        return [f"{agent},,pendulum,3,{i},finished,{x},1,cpu" for i, x in enumerate(returns)]

    # The paper: -240 ± 4.41 for LCPO, -307 ± 32.6 for A2C.
    write(tmp_path / "a", rows("lcpo", -250, -251, -252, -251, -250), [8_000_000])
    write(tmp_path / "b", rows("a2c", -340, -300, -320, -330, -310), [8_000_000])
    write(tmp_path / "c", rows("sac", -1, -2, -3, -4), [8_000_000])  # too few
    text = script.agreement(script.cover("gym-all", script.our_numbers(tmp_path)))
    assert "Of 2 cells" in text
    assert "overlap in 1." in text
    assert "| pendulum | 3 | lcpo | -251 ± 1 | -240 ± 4.41 | 5 |" in text
    assert "a2c" not in text


def test_normalized_returns_need_five_agents_in_a_row(script: ModuleType, tmp_path: Path) -> None:
    def run(trace: str, agent: str, value: float, steps: int = 8_000_000) -> None:
        row = f"{agent},,pendulum,{trace},0,finished,{value},1,cpu"
        write(tmp_path / f"{agent}-{trace}-{steps}", [row], [steps])

    for value, agent in enumerate(["lcpo", "a2c", "sac", "trpo"]):
        run("3", agent, value)
        run("4", agent, value)
    run("4", "ddqn", 4.0)
    run("3", "ddqn", 4.0, steps=1_000_000)  # too short
    mine, paper = script.scores(script.cover("gym-all", script.our_numbers(tmp_path)))
    assert [mine[agent][0][0] for agent in ("lcpo", "a2c", "sac", "trpo", "ddqn")] == [
        0.0, 0.25, 0.5, 0.75, 1.0,
    ]  # fmt: skip
    assert {agent: len(values) for agent, values in mine.items() if values} == dict.fromkeys(
        ["lcpo", "a2c", "sac", "trpo", "ddqn"], 1
    )
    assert {x for values in paper.values() for x, _, _ in values} >= {0.0, 1.0}


def write(folder: Path, rows: list[str], steps: list[int], command: str = "lcpo compare") -> None:
    folder.mkdir()
    head = "agent,setting,env,trace,seed,status,return_after_warmup,seconds,device"
    (folder / "seeds.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "made.json").write_text(json.dumps({"command": [command], "steps": steps}))


def test_longest_runs_count_then_corrected_ones_then_seeds(
    script: ModuleType, tmp_path: Path
) -> None:
    end = "finished,-1,1,cpu"
    write(tmp_path / "a", [f"lcpo,,pendulum,3@1/20,{i},{end}" for i in range(9)], [400_000])
    faults = '"published, as published"'
    write(tmp_path / "b", [f"lcpo,{faults},pendulum,3,{i},{end}" for i in range(8)], [8_000_000])
    write(tmp_path / "c", [f"lcpo,sigma2=1,pendulum,3,{i},{end}" for i in range(2)], [8_000_000])
    write(tmp_path / "d", [f"sac,,pendulum,2,0,{end}", f"a2c,,pendulum,4@1/2,0,{end}"],
          [6_000_000, 4_000_000])  # fmt: skip
    write(tmp_path / "e", [f"ddqn,,pendulum,3,0,{end}"], [8_000_000], "lcpo train --gamma 0.5")
    write(tmp_path / "f", ["trpo,,pendulum,3,0,failed,,1,cpu"], [8_000_000])
    cells = script.cover("gym-all", script.our_numbers(tmp_path))
    found = {key: str(value) for key, value in cells.items() if value}
    assert found == {
        ("lcpo", "pendulum", "3", ""): "2",
        ("sac", "pendulum", "2", ""): "1 (first 6M)",
        ("a2c", "pendulum", "4", ""): "1 (1/2)",
    }
    (tmp_path / "c" / "seeds.csv").unlink()
    again = script.cover("gym-sigma", script.our_numbers(tmp_path))
    assert str(again["lcpo", "pendulum", "3", "sigma2=1"]) == "8p"
    assert again["lcpo", "pendulum", "3", "sigma2=2"] is None

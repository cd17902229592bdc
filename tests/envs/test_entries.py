"""Names and lags of observation entries: in code, on the pages, and printed by `check-env`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from host_examples import Drift

from lcpo.cli import main as cli
from lcpo.config import config
from lcpo.envs import ENVS
from lcpo.envs.base import obs_layout
from lcpo.envs.entries import Entry, entry_rows, obs_entries
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.gym import spaces as ours
from lcpo.run.plan.check import check_env
from lcpo.straggler.task import Straggler

ROOT = Path(__file__).parents[2]
TABLE = re.compile(
    r"<!-- layout: (\S+) -->\n\| entry \| name \| lag \|[^\n]*\n\|[-|]+\n((?:\|.*\n)+)"
)


def test_the_pages_show_the_layout_of_every_environment() -> None:
    """The first three columns; a page may explain the entries in a fourth one."""
    pages = [ROOT / "docs" / "probes.md", *(ROOT / "docs" / "envs").glob("*.md")]
    found = dict(table for page in pages for table in TABLE.findall(page.read_text()))
    assert set(found) == set(ENVS)
    for name, text in found.items():
        rows = [tuple(x.strip() for x in line.split("|")[1:4]) for line in text.splitlines()]
        assert rows == entry_rows(obs_entries(ENVS[name]())), f"the table of {name}"


def test_an_entry_has_the_name_of_what_stands_there() -> None:
    env = Pendulum()
    found = obs_entries(env)
    assert [entry.place for entry in found] == list(range(9))
    assert found[1] == Entry(1, "sin th", None)
    assert found[6] == Entry(6, "wy", 0)
    layout, trace = obs_layout(env.spec, env.advance), np.array([[1.0, 10.0], [2.0, 20.0]])
    obs = layout.join(np.zeros((1, 3)), layout.history_at(trace, np.array([1])))
    expected = {("wx", 0): 2.0, ("wx", 1): 1.0, ("wy", 0): 20.0, ("wy", 1): 10.0}
    shown = {(entry.name, entry.lag): obs[0, entry.place] for entry in found}
    assert expected.items() <= shown.items()


def test_a_context_between_the_features() -> None:
    found = obs_entries(Straggler(num_servers=2))
    assert found[3] == Entry(3, "mean copies[1]", None)
    assert [entry.name for entry in found if entry.lag == 0] == [
        "rate (50 s)",
        "service time (50 s)",
    ]
    assert found[-1] == Entry(15, "safety rule", None)


def test_without_names_they_are_numbered() -> None:
    assert entry_rows(obs_entries(Drift())) == [
        ("0", "feature[0]", "-"),
        ("1, 2", "context[0]", "0, 1"),
    ]


BOX = spaces.Box(0.0, 1.0, (2,), np.float32)
NESTED = spaces.Dict({"wind": BOX, "robot": spaces.Dict({"mode": spaces.Discrete(2), "arm": BOX})})


@pytest.mark.parametrize(
    ("space", "context", "one_hot", "features", "channels"),
    [
        (spaces.Box(0.0, 1.0, (4,)), "slice:1:3", True, "obs[0] obs[3]", "obs[1] obs[2]"),
        (spaces.Box(0.0, 1.0, (2, 1)), "info", True, "obs[0,0] obs[1,0]", "context"),
        (spaces.Discrete(2, start=5), None, True, "obs=5 obs=6", ""),
        (spaces.Discrete(2, start=5), None, False, "obs", ""),
        (spaces.MultiDiscrete([2, 2]), None, True, "obs[0]=0 obs[0]=1 obs[1]=0 obs[1]=1", ""),
        (spaces.Tuple([BOX, spaces.MultiBinary(1)]), None, True, "obs[0][0] obs[0][1] obs[1]", ""),
        (NESTED, "key:wind", True,
         "robot.arm[0] robot.arm[1] robot.mode=0 robot.mode=1", "wind[0] wind[1]"),
        (NESTED, "key:robot", False, "wind[0] wind[1]", "arm[0] arm[1] mode"),
    ],
)  # fmt: skip
def test_names_of_gymnasiums_spaces(
    space: Any, context: Any, one_hot: bool, features: str, channels: str
) -> None:
    split = ours.context_splitter(space, context, one_hot, lambda: 1)
    assert split.names == (tuple(features.split()), tuple(channels.split()))
    assert tuple(map(len, split.names)) == (split.num_features, split.context_size)


@config
class Named(Drift):
    """One name too many."""

    context_names: ClassVar[tuple[str, ...]] = ("wind", "rain")


def test_a_wrong_number_of_names_is_refused() -> None:
    with pytest.raises(InputError, match=r"context_names = .*rain.*: needs 1 names, as a tuple"):
        check_env(Named())


def test_check_env_prints_names_of_the_columns_of_a_file(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "traps.csv"
    file.write_text("time,moon,trap\n0,0,0\n1,0,1\n2,0,1\n")
    assert cli.main(["check-env", "grid-world", "--trace", str(file)]) == 0
    assert "2      moon    0\n3      trap    0\n" in capsys.readouterr().out
    assert cli.main(["check-env", "grid-world", "--trace", f"{file}[trap]"]) == 2
    assert "has 1 columns, 'grid-world' needs 2" in capsys.readouterr().err
    assert cli.main(["check-env", "pendulum-v1", "--trace", str(file)]) == 2
    assert "'pendulum-v1' takes no trace" in capsys.readouterr().err

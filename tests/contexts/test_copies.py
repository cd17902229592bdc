"""Gaps in the time of a file, and copies of it: filled, at a fixed interval, scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import run

from lcpo import contexts
from lcpo.contexts import TraceRef, clock, copies
from lcpo.errors import InputError

GAPS = """when,price,sun
2024-03-01 10:00,1,10
2024-03-01 10:15,,20
2024-03-01 10:30,3,NA
2024-03-01 11:15,4,60
2024-03-01 11:30,5,70
"""
"""Quarter hours. Two are missing, and two cells are empty."""


def file(folder: Path, text: str, name: str = "mine.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_an_empty_cell_is_named_with_the_way_to_fill_it(tmp_path: Path) -> None:
    name = file(tmp_path, GAPS)
    with pytest.raises(InputError) as told:
        contexts.get(name)
    assert str(told.value) == (
        f"trace file {name}: line 3, column 2 ('price') is empty: every entry must be finite (2 "
        f"cells have no value); to fill a copy: lcpo trace {name} --fill previous --write "
        "mine-filled.csv (or --fill linear)"
    )
    pl.DataFrame({"sun": [1, None, None]}).write_parquet(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=r"row 2, column 'sun' is empty.*\(2 cells .*--fill"):
        contexts.get(str(tmp_path / "mine.parquet"))


def test_gaps_in_time_are_counted(tmp_path: Path) -> None:
    name = file(tmp_path, GAPS.replace(",,", ",2,").replace("NA", "30"))
    _, told = TraceRef.parse(name).notes()
    assert told == (
        f"{name}: column 'when' has 1 gap (2 rows missing at an interval of 15min; the longest "
        "from 2024-03-01 10:30:00 to 2024-03-01 11:15:00). Every row is one step regardless. For "
        f"rows at a fixed interval: lcpo trace {name} --every 15min --fill linear --write new.csv"
    )
    assert TraceRef.parse(f"{name}[sun]+hold").notes()[0].endswith(told.partition(":")[2])


@pytest.mark.parametrize(("times", "told"), [
    (["0", "60", "120", "600", "660"], "1 gap (7 rows missing at an interval of 60; "),
    (["2024-01-01T00:00Z", "2024-01-01T01:00Z", "2024-01-01T01:00Z", "2024-01-01T02:00Z",
      "2024-01-01T03:00Z"], "has 1 rows that are not later"),
    (["2024/01/01", "2024/01/02", "2024/01/03"], None),
    (["2024-01-01 00:00:00", "2024-01-01 00:00:01", "2024-01-01 00:00:02.4"], None),
    (["23:58", "23:59", "00:00"], None),  # no dates: midnight is no gap
    (["Mon 3pm", "Mon 4pm"], None),
])  # fmt: skip
def test_which_times_have_gaps(tmp_path: Path, times: list[str], told: str | None) -> None:
    name = file(tmp_path, "time,x\n" + "".join(f"{t},{i}\n" for i, t in enumerate(times)))
    notes = TraceRef.parse(name).notes()
    assert len(notes) == (1 if told is None else 2), notes
    assert told is None or told in notes[1]


def test_parquet_has_gaps_too(tmp_path: Path) -> None:
    days = pl.Series("day", ["2024-01-01", "2024-01-02", "2024-01-09"]).str.to_date()
    pl.DataFrame({"x": [1.0, 2.0, 3.0], "day": days}).write_parquet(tmp_path / "mine.parquet")
    (*_, told) = TraceRef.parse(str(tmp_path / "mine.parquet")).notes()
    assert "1 gap (1 rows missing" in told  # the median of 1 and 7 days is 4


def copied(name: str, folder: Path, **how: Any) -> np.ndarray:
    made = copies.make(TraceRef.parse(name), **how)
    (folder / "copy.csv").write_bytes(made.content)
    assert contexts.get(str(folder / "copy.csv")).dtype == np.float32
    return contexts.get(str(folder / "copy.csv"))


def test_filled(tmp_path: Path) -> None:
    name = file(tmp_path, GAPS)
    before = copied(name, tmp_path, fill="previous")
    assert before.tolist() == [[1, 10], [1, 20], [3, 20], [4, 60], [5, 70]]
    assert "2024-03-01 10:15" in (tmp_path / "copy.csv").read_text()
    between = copied(name, tmp_path, fill="linear", scale=(10.0, 0.1))
    assert between.tolist() == [[10, 1], [20, 2], [30, 4], [40, 6], [50, 7]]
    edges = file(tmp_path, "x\nNaN\n2\nnull\n")
    for how in ("previous", "linear"):
        assert copied(edges, tmp_path, fill=how).ravel().tolist() == [2, 2, 2]


def test_a_fixed_interval(tmp_path: Path) -> None:
    name = file(tmp_path, GAPS)
    whole = copied(name, tmp_path, every="15min", fill="linear")
    assert whole[:, 0].tolist() == [1, 2, 3, pytest.approx(10 / 3), pytest.approx(11 / 3), 4, 5]
    assert whole[:, 1].tolist() == [10, 20, 30, 40, 50, 60, 70]
    copy = TraceRef.parse(str(tmp_path / "copy.csv"))
    assert len(copy.notes()) == 1, "no gap is left"
    assert copy.describe().names == ("price", "sun")
    hours = copies.make(TraceRef.parse(name), every="1h")
    assert hours.content.decode().splitlines() == [
        "when,price,sun", "2024-03-01 10:00:00,2,15", "2024-03-01 11:00:00,4.5,65",
    ]  # fmt: skip
    assert hours.notes == ["5 rows are now 2, one every 1h"]
    numbers = file(tmp_path, "time,x\n0,1\n10,2\n31,4\n")
    made = copies.make(TraceRef.parse(numbers), every="10", fill="previous")
    assert made.content.decode() == "time,x\n0,1\n10,2\n20,2\n30,4\n"
    assert made.notes[1] == "filled 1 cells (previous): x 1"


@pytest.mark.parametrize(("how", "says"), [
    ({"every": "15min"}, r"column 'price' has no value at 2024-03-01 10:15:00 \(6 such.*--fill"),
    ({"every": "15"}, "every = '15': needs a number and a unit: 30s, 15min"),
    ({"every": "0min"}, "needs a number and a unit"),
    ({"every": "1.2.3h"}, "needs a number and a unit"),
    ({"every": "0.000001s"}, "rows: give a longer interval"),
    ({"fill": "previous", "scale": (1.0, 2.0, 3.0)}, "scale has 3 numbers: needs one, or 2"),
])  # fmt: skip
def test_copies_that_cannot_be_had(tmp_path: Path, how: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        copies.make(TraceRef.parse(file(tmp_path, GAPS)), **how)


def test_other_files_that_cannot_be_copied(tmp_path: Path) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("x\n1\n2\n", {"every": "1h"}, "has no column of times"),
        ("time,x\n1,1\n2,2\n", {"every": "1h"}, "a number in the unit of column 'time'"),
        ("x,y\n1,\n2,\n", {"fill": "linear"}, "column 'y' has no value at all"),
        ("x\n1\n1_0\n", {"fill": "linear"}, "line 3, column 1 .* is '1_0': needs numbers"),
        ("x\n1\ninf\n", {"fill": "linear"}, "is 'inf': every entry must be finite"),
    ]
    for text, how, says in cases:
        with pytest.raises(InputError, match=says):
            copies.make(TraceRef.parse(file(tmp_path, text)), **how)
    for name in ("revisit", f"{file(tmp_path, GAPS)}+repeat"):
        with pytest.raises(InputError, match="only a file can be copied"):
            copies.make(TraceRef.parse(name), fill="linear")


def test_durations_are_written_as_they_are_read() -> None:
    dated = clock.Clock("t", np.zeros(1), True)
    for seconds, text in (
        (900, "15min"),
        (5400, "90min"),
        (7200, "2h"),
        (86400, "1d"),
        (0.5, "0.5s"),
    ):
        assert dated.duration(seconds) == text
        assert clock.read_interval(text, dated) == seconds


def test_the_command_writes_a_copy_and_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, GAPS)
    ask = ["trace", "mine.csv", "--every", "15min", "--fill", "linear", "--scale", "10,1"]
    assert run(*ask, "--write", "new.csv") == 0
    shown = capsys.readouterr()
    assert "filled 6 cells (linear): price 3, sun 3" in shown.err
    assert "new.csv     7  price    31.429" in shown.out
    assert contexts.get("new.csv")[:, 1].tolist() == [10, 20, 30, 40, 50, 60, 70]
    for more, says in (
        ([], "name it, as in --write new.csv"),
        (["--write", "new.csv"], "new.csv: the file exists"),
        (["--write", "new.npy"], "needs one file, and a name that ends in .csv"),
        (["--write", "other.csv", "revisit"], "unknown option|needs one file"),
    ):
        assert run(*ask, *more) == 2
        told = capsys.readouterr().err
        assert any(part in told for part in says.split("|")), told
    assert run("trace", "mine.csv", "--fill", "next", "--write", "x.csv") == 2
    assert "needs previous or linear" in capsys.readouterr().err

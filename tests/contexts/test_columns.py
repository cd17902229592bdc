"""Columns of a user's file: those that are named, all but the time; what comes after its end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lcpo import contexts
from lcpo.contexts import TraceRef, paper
from lcpo.errors import InputError
from lcpo.study.advice import calibrate
from lcpo.study.report import trace_figure

DATED = "timestamp,rate,size\n2024-01-01T00:00:00Z,1,10\n2024-01-01T00:01:00Z,2,20\n"


def file(folder: Path, text: str) -> str:
    path = folder / "mine.csv"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("text", "time"), [
    (DATED, ("timestamp",)),
    ("rate,size,when\n1,10,2024-01-01\n2,20,2024-01-02\n", ("when",)),
    ("1,10,2024/01/01 00:00\n2,20,2024/01/01 00:05\n", ("3",)),
    ("Time (local),rate,size\nMon 3pm,1,10\nMon 4pm,2,20\n", ("Time (local)",)),
    ("unix_time,rate,size\n100,1,10\n160,2,20\n", ("unix_time",)),
    ("ts,rate,size\n100,1,10\n160,2,20\n", ("ts",)),
    ("Date (UTC),rate,size\n20240101,1,10\n20240102,2,20\n", ("Date (UTC)",)),
    ("start_datetime,rate,size\n1,1,10\n2,2,20\n", ("start_datetime",)),
    ("rate,size,clock\n1,10,23:59:00\n2,20,00:04:00\n", ("clock",)),
    ("from,rate,size,time\n2024-01-01,1,10,3pm\n2024-01-02,2,20,4pm\n", ("from", "time")),
])  # fmt: skip
def test_the_time_is_left_out(tmp_path: Path, text: str, time: tuple[str, ...]) -> None:
    name = file(tmp_path, text)
    assert contexts.get(name).tolist() == [[1.0, 10.0], [2.0, 20.0]]
    assert TraceRef.parse(name).describe().time == time


@pytest.mark.parametrize("text", [
    "time,rate\n100,1\n90,2\n",  # goes back
    "time,rate\n100,1\n100,2\n160,3\n",  # stands still
    "requests,rate\n1,100\n2,160\n",  # ends in "ts"
    "candidate,rate\n1,100\n2,160\n",
    "rate,time\n1,100\n2,160\n",  # not the first
    "runtime,rate\n1,100\n2,160\n",
    "time\n1\n2\n",  # there is nothing else
])  # fmt: skip
def test_what_is_no_time_stays(tmp_path: Path, text: str) -> None:
    found = TraceRef.parse(file(tmp_path, text)).describe()
    assert found.time == ()
    assert found.channels == len(text.splitlines()[0].split(","))


def test_columns_by_name_and_number(tmp_path: Path) -> None:
    name = file(tmp_path, "when,host,rate,size\n2024-01-01,web,1,10\n2024-01-02,,2,20\n")
    for wanted in ("rate,size", "3,4", "rate, 4"):
        full = contexts.compose(name, wanted)
        assert contexts.get(full).tolist() == [[1.0, 10.0], [2.0, 20.0]]
        assert TraceRef.parse(full).describe().names == ("rate", "size")
    assert contexts.get(f"{name}[size,rate]").tolist() == [[10.0, 1.0], [20.0, 2.0]]
    assert TraceRef.parse(f"{name}[rate]").is_file
    assert TraceRef.parse(f"{name}[rate]+hold@1/2").source == name
    np.save(tmp_path / "mine.npy", np.arange(6.0).reshape(2, 3))
    assert contexts.get(f"{tmp_path / 'mine.npy'}[3,1]").tolist() == [[2.0, 0.0], [5.0, 3.0]]


def test_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    name = file(tmp_path, "rate,size\n1,10\n2,20\n")
    assert contexts.get(f"{name}[size,rate]").tolist() == [[10.0, 1.0], [20.0, 2.0]]
    assert TraceRef.parse(f"{name}[size,rate]").describe().names == ("size", "rate")


@pytest.mark.parametrize(("wanted", "says"), [
    ("sise", "unknown column 'sise' of .*: did you mean 'size'"),
    ("4", "has 3 columns, none is number 4"),
    ("0", "none is number 0"),
    ("rate,rate", "each once"),
    ("rate,2", "each once"),
    ("rate,", "names or numbers of columns"),
    ("timestamp", r"line 2, column 1 \('timestamp'\) is '2024-01-01T00:00:00Z': needs"),
])  # fmt: skip
def test_columns_that_cannot_be_had(tmp_path: Path, wanted: str, says: str) -> None:
    name = file(tmp_path, DATED)
    with pytest.raises(InputError, match=says):
        contexts.get(contexts.compose(name, wanted))


def test_other_files_that_cannot_be_had(tmp_path: Path) -> None:
    for text, says in {
        "2024-01-01\n2024-01-02\n": "nothing but times|holds no rows",
        "day,host\n2024-01-01,web\n2024-01-02,web\n": r"column 2 \('host'\) is 'web'.*--columns",
        DATED + "2024-01-01T00:02:00Z,3\n": "line 4 has 2 columns",
        DATED + "2024-01-01T00:02:00Z,3,4,5\n": "line 4 has 4 columns",
    }.items():
        with pytest.raises(InputError, match=says):
            contexts.get(file(tmp_path, text))
    with pytest.raises(InputError, match="no names above its columns"):
        contexts.get(file(tmp_path, "1,2\n3,4\n") + "[rate]")
    for name in ("3", "revisit", "family:drift:1"):
        with pytest.raises(InputError, match="needs the path of a file"):
            contexts.compose(name, "1")
    with pytest.raises(InputError, match="give only one of them"):
        contexts.compose("3", repeat=True, hold=True)
    with pytest.raises(InputError, match="has no end"):
        contexts.compose("revisit", repeat=True)
    with pytest.raises(InputError, match="has no end"):
        contexts.get("revisit+hold", 10)


def test_parquet_leaves_out_dates(tmp_path: Path) -> None:
    frame = pl.DataFrame({"when": ["2024-01-01", "2024-01-02"], "rate": [1, 2], "host": ["a", "b"]})
    frame = frame.with_columns(pl.col("when").str.to_date().alias("day"))
    frame.drop("host").write_parquet(tmp_path / "mine.parquet")
    found = TraceRef.parse(str(tmp_path / "mine.parquet")).describe()
    assert (found.names, found.time) == (("rate",), ("when", "day"))
    frame.write_parquet(tmp_path / "more.parquet")
    assert contexts.get(f"{tmp_path / 'more.parquet'}[rate]").tolist() == [[1.0], [2.0]]


def test_after_the_end(tmp_path: Path) -> None:
    name = file(tmp_path, "load\n1\n2\n3\n")
    assert contexts.get(f"{name}+repeat", 5).ravel().tolist() == [1, 2, 3, 1, 2]
    assert contexts.get(f"{name}+hold", 5).ravel().tolist() == [1, 2, 3, 3, 3]
    assert contexts.get(f"{name}+repeat", 2).ravel().tolist() == [1, 2]
    assert contexts.get(f"{name}[load]+repeat@1/2", 3).ravel().tolist() == [1, 3, 2]
    assert str(contexts.compose(f"{name}@1/2", "load", hold=True)) == f"{name}[load]+hold@1/2"
    with pytest.raises(InputError, match=r"has 3 rows, the run needs 5.*--repeat.*--hold"):
        contexts.get(name, 5)
    assert TraceRef.parse("3+repeat").any_length
    assert paper.wind_scale("inverted-pendulum", "3+repeat") == 0.125


def test_names_are_kept(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-01,{i // 300},{i % 7}\n" for i in range(900))
    name = file(tmp_path, "day,rate,size\n" + rows)
    (axis,) = trace_figure.plot_traces([name])
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["rate", "size"]
    found = calibrate.calibrate(name, lookback=calibrate.Lookback(100))
    assert "channels: rate, size" in calibrate.summary(found)
    assert len(calibrate.plot(found)) == 3


def test_sigmas_cover_the_distances_that_occur() -> None:
    """Whatever the unit: from half the noise to the largest distance."""
    rng = np.random.default_rng(0)
    rows = np.repeat([0.0, 3.0, 5.0], 2000)[:, None] + rng.normal(0, 0.1, (6000, 1))
    for unit in (1e-3, 1.0, 500.0):
        found = calibrate.calibrate(unit * rows)
        assert len(found.sigmas) == 8
        assert found.sigmas[0] < found.noise < found.sigmas[1] * 1.5
        assert found.sigmas[-1] == pytest.approx(5.0 * unit, rel=0.1)
        assert found.activity(found.sigmas[1]) > found.activity(found.sigmas[-1])
    alike = calibrate.calibrate(np.ones((1000, 1)))
    assert all(sigma > 0 for sigma in alike.sigmas)

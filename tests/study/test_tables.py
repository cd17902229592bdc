"""Tables of values: what a reader sees, what a program reads, and report.json."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from each import for_each

import lcpo
from lcpo.errors import InputError
from lcpo.study.measure.stats import NAN, Estimate
from lcpo.study.report import cells, document, html, html_folder, output
from lcpo.study.report.cells import Cell, Change, Column, Count, Median, Noted, Printed
from lcpo.study.report.tables import Table
from lcpo.study.study import Report

SHOWN: list[tuple[Column, Cell, str]] = [
    (Column("x"), Estimate(-373.4, -376.0, -370.8, 8), "-373 ± 3"),
    (Column("x", "+"), Estimate(0.4, 0.1, 0.7, 8), "+0.40 ± 0.30"),
    (Column("x", "bounds"), Estimate(0.914, 0.777, 1.0, 16), "0.91 [0.78, 1.00]"),
    (Column("x", decimals=1), Estimate(4.0, 3.0, 5.0, 8), "4.0 ± 1.0"),
    (Column("x"), Estimate(1.0, NAN, NAN, 1), "1.00 ± -"),
    (Column("x"), Printed.of("-240", "4.41"), "-240 ± 4.41"),
    (Column("x"), Count(7, 8, "1 failed"), "7 of 8, 1 failed"),
    (Column("x"), Noted(Printed.of("-240"), "ddqn"), "-240 (ddqn)"),
    (Column("x"), Noted(None, "seed 3"), "- (seed 3)"),
    (Column("x", decimals=1), Median(2.0, 1.0, 4.25), "2.0 (1.0 .. 4.2)"),
    (Column("x", "until"), Median(20.0, 10.0, math.inf), "20 (10 .. never)"),
    (Column("x"), Change(14.71, 16.0), "14.7 to 16.0"),
    (Column("x", unit="%", decimals=1), 0.4091, "40.9 %"),
    (Column("x", "g", decimals=3, unit="%"), 0.0123456, "1.23 %"),
    (Column("x", unit="%"), None, "-"),
    (Column("x", "e", decimals=1), 3.04e-5, "3.0e-05"),
    (Column("x", ","), 1234567, "1,234,567"),
    (Column("x", "full"), 0.1 + 0.2, "0.30000000000000004"),
    (Column("x", "full"), None, ""),
    (Column("x"), math.inf, "inf"),
    (Column("x"), NAN, "-"),
    (Column("x"), -0.001, "0.00"),
    (Column("x"), "=1+1", "=1+1"),
]


@pytest.mark.parametrize(("column", "cell", "text"), SHOWN, ids=[text for *_, text in SHOWN])
def test_a_column_shows_values(column: Column, cell: Cell, text: str) -> None:
    assert column.text(cell) == text


def test_values_survive_the_file(tmp_path: Path) -> None:
    """Every kind of cell, and of column; a NaN comes back as what is shown for it."""
    columns = [column._replace(name=f"{i}") for i, (column, *_) in enumerate(SHOWN)]
    row = [cell for _, cell, _ in SHOWN]
    columns[0] = columns[0]._replace(about="what it means")
    named = {"title": "t", "notes": ["n"], "heading": "h"}
    table = Table(columns, [row], compared=("0", "5"), **named)
    path = tmp_path / document.REPORT
    words = {"figure": document.Words("What is shown", "How to read it")}
    path.write_bytes(document.write(document.Tables({"b": table, "a": table}, None, words)))
    found, seeds, figures = document.read(path)
    assert (list(found), seeds, figures) == (["b", "a"], None, words)
    assert found["a"].to_markdown() == table.to_markdown()
    assert found["a"].to_csv() == table.to_csv()
    assert found["a"].compared == table.compared
    assert (found["a"].heading, found["a"].every[0].about) == ("h", "what it means")
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()


def test_programs_read_numbers() -> None:
    """Never "a ± b": an estimate has four columns, whatever else stands under its name."""
    rows: list[list[Cell]] = [
        ["a", Estimate(1.25, 1.0, 1.5, 8), Count(7, 8), Printed.of("-2.50", "1"), 0.5],
        ["=b", Noted(Estimate(2.0, NAN, NAN, 1), "x"), 8, None, None],
    ]
    columns = ["agent", Column("whole run"), Column("seeds"), Column("paper", hidden=True),
               Column("active", unit="%", key="activity")]  # fmt: skip
    assert Table(columns, rows).to_csv().splitlines() == [
        "agent,whole_run_mean,whole_run_low,whole_run_high,whole_run_n,whole_run_note,"
        "seeds,seeds_total,paper_mean,paper_half,activity",
        "a,1.25,1.0,1.5,8,,7,8,-2.5,1.0,0.5",
        "'=b,2.0,,,1,x,8,,,,",
    ]


def test_medians_and_changes_are_numbers_too() -> None:
    columns = [Column("back", "until"), Column("cost")]
    rows = [[Median(20.0, 10.0, math.inf), Change(14.71, None)]]
    assert Table(columns, rows).to_csv().splitlines() == [
        "back_median,back_low,back_high,cost_before,cost_after",
        "20.0,10.0,inf,14.71,",
    ]


def test_files_without_headings_and_meanings_are_read(tmp_path: Path) -> None:
    """Of earlier versions."""
    body = json.loads(document.write(document.Tables({"t": Table([Column("x")], [[1.5]])}, None)))
    (table,) = body["tables"]
    del body["figures"], table["heading"], table["columns"][0]["about"]
    path = tmp_path / document.REPORT
    path.write_bytes(document.document(1, {"tables": [table], "seeds": None}))
    found = document.read(path)
    assert (found.tables["t"].heading, found.figures) == ("", {})


WIDE = Table(
    [Column(name, side="l" if name == "agent" else "r") for name in
     ("agent", "return after 6M", "minus lcpo", "P(better)", "seeds", "whole run", "seconds")],
    [
        [f"lcpo-c_anchor=0.001-value_steps={n}-rollout_length=50", "-1281 ± 4", "+43.1 ± 58.0",
         "1.00 [0.29, 1.00]", "3", "-1284 ± 16", "3.14"]
        for n in (5, 6)
    ],
)  # fmt: skip


def test_a_narrow_terminal_wraps_names_and_leaves_out_the_last_columns() -> None:
    assert (
        WIDE.to_text(80)
        == """\
agent                 return after 6M    minus lcpo          P(better)  seeds
--------------------  ---------------  ------------  -----------------  -----
lcpo-c_anchor=0.001-        -1281 ± 4  +43.1 ± 58.0  1.00 [0.29, 1.00]      3
value_steps=5-
rollout_length=50
lcpo-c_anchor=0.001-        -1281 ± 4  +43.1 ± 58.0  1.00 [0.29, 1.00]      3
value_steps=6-
rollout_length=50
columns that do not fit: whole run, seconds
"""
    )
    for width in range(60, 200):
        text = WIDE.to_text(width)
        assert max(map(len, text.splitlines()[:-1])) <= width
        assert "rollout_length=50" in text


def test_a_page_shows_report_json(tmp_path: Path) -> None:
    """What other files say counts in folders that have none."""
    table = Table(
        ["agent", Column("return"), Column("paper")],
        [["lcpo", Estimate(-231.4, -239.0, -223.8, 8), Printed.of("-240", "4")]],
        compared=("return", "paper"),
    )
    output.write_files(Report(table, {"table": table}), [], tmp_path, by="lcpo compare")
    (tmp_path / "table.md").write_text("| agent |\n|---|\n| edited |\n")
    page = html.write_page(tmp_path).read_text()
    assert "+9" in page
    assert 'data-n="-231.4"' in page
    assert "edited" not in page
    (tmp_path / document.REPORT).unlink()
    assert list(html_folder.read_folder(tmp_path).tables["table"].rows) == [("edited",)]


BROKEN = {
    "cell": lambda table: table["rows"][0].__setitem__(0, {"estimate": [1]}),
    "nested": lambda table: table["rows"][0].__setitem__(0, {"noted": [{"noted": [1, ""]}, ""]}),
    "column": lambda table: table["columns"][0].pop("name"),
    "decimals": lambda table: table["columns"][0].update(decimals=10**9),
    "form": lambda table: table["columns"][0].update(form=3),
    "row": lambda table: table["rows"].append([]),
    "compared": lambda table: table.update(compared=["a", "b"]),
    "rows": lambda table: table.update(rows=3),
}


@pytest.mark.parametrize("how", [*BROKEN, "digest"])
def test_files_that_are_not_ours_are_refused(how: str, tmp_path: Path) -> None:
    whole = document.write(document.Tables({"t": Table([Column("x")], [[1.5]])}, None))
    body: dict[str, Any] = json.loads(whole)
    if how == "digest":
        body["tables"][0]["rows"] = [[2.5]]
        content = json.dumps(body).encode()
    else:
        BROKEN[how](body["tables"][0])
        content = document.document(1, {k: body[k] for k in ("tables", "seeds")})
    path = tmp_path / document.REPORT
    path.write_bytes(content)
    refused = r"report\.json is (damaged|not an lcpo file|not a report)"
    with pytest.raises(InputError, match=refused):
        document.read(path)


WRITERS = {"cells.py", "tables.py"}
READER = "earlier.py"


def test_no_module_reads_a_number_out_of_a_formatted_cell() -> None:
    """Only one knows how an interval was written, and is asked by who reads old folders alone."""
    for path in Path(lcpo.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == READER:
            continue
        assert not re.search(r"\b(float|int)\([^)\n]*\.(texts?|to_\w+)\(", text), path
        if path.name not in WRITERS:
            code = re.sub(r'""".*?"""|#.*', "", text, flags=re.DOTALL)
            assert "±" not in code, path
        if path.name != "html_folder.py":
            assert "report.earlier" not in text, path
            assert not re.search(r"report import .*\bearlier\b", text), path


def test_tables_are_values() -> None:
    table = Table(["a", Column("b")], [["x", 1]])
    assert table == Table(["a", Column("b")], [["x", 1]])
    assert dataclasses.replace(table, notes=["n"]).notes == ("n",)
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        Table(["a", "b"], [["x"]])
    assert cells.from_json(cells.to_json(1)) == 1


STUDIES = sorted(
    path
    for pattern in ("study/report/report.py", "study/paper/*.py", "study/controls/*.py",
                    "study/play/*.py", "straggler/*.py")
    for path in Path(lcpo.__file__).parent.glob(pattern)
)  # fmt: skip


@for_each("path", STUDIES)
def test_a_column_of_numbers_says_what_it_means(path: Path) -> None:
    """By `about`, or by a note that begins with its name."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    notes = [x.value for x in nodes if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    for node in nodes:
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Column"):
            continue
        given = {one.arg: getattr(one.value, "value", None) for one in node.keywords}
        name = getattr(node.args[0], "value", None)
        if {"about", "hidden"} & given.keys() or given.get("side") == "l" or name == "":
            continue
        explained = any(note.startswith(f"{name}: ") for note in notes)
        assert explained, f"line {node.lineno}: Column({ast.unparse(node.args[0])})"
    assert "map(Column" not in path.read_text(encoding="utf-8")

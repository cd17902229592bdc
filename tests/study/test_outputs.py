"""The files of a report: a command replaces what it wrote itself, and nothing else."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run

from lcpo.errors import InputError
from lcpo.run.store import outputs
from lcpo.study.report import earlier, figures, html, output
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table, plain_text
from lcpo.study.study import Picture, Report

TABLE, OTHER = Table(["agent"], [["a2c"]]), Table(["agent"], [["lcpo"]])
RESULTS = Path(__file__).parents[2] / "results"


def write(out: Path, table: Table = TABLE, by: str = "lcpo compare", **more: Picture) -> set[str]:
    """Write a report; the names of its files."""
    paths = output.write_files(Report(table, {"table": table}, figures=more), [], out, by=by)
    return {path.name for path in paths}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_report_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, old=Picture(b"1", b"2"))
    (tmp_path / "thesis.md").write_text("not ours")
    assert {"thesis.md", *write(tmp_path, OTHER)} == content(tmp_path).keys()


FORGED = (
    '{"command": ["lcpo compare"], "files": ["../thesis.md", "thesis.md/", 3]}',
    '{"by": "lcpo compare", "files": {"../thesis.md": [], "thesis.md": ["0"], "x.md": 1}}',
    '{"by": "lcpo compare", "files": 1}',
)


@pytest.mark.parametrize("made", FORGED)
def test_a_report_deletes_no_file_that_it_did_not_write(tmp_path: Path, made: str) -> None:
    out = tmp_path / "o"
    out.mkdir()
    for folder in (tmp_path, out):
        (folder / "thesis.md").write_text("not ours")
    (out / "made.json").write_text(made)
    write(out)
    assert [(f / "thesis.md").read_text() for f in (tmp_path, out)] == ["not ours"] * 2


def test_a_report_replaces_only_what_its_command_wrote(tmp_path: Path) -> None:
    write(tmp_path)
    before = content(tmp_path)
    with pytest.raises(InputError, match="holds files that lcpo compare wrote: give lcpo evaluate"):
        write(tmp_path, by="lcpo evaluate")
    (tmp_path / "table.md").write_text("my thesis")
    with pytest.raises(InputError, match=r"table.md exists and .* give another name, or move"):
        write(tmp_path, OTHER)
    assert content(tmp_path) == {**before, "table.md": b"my thesis"}
    (tmp_path / "table.md").unlink()
    write(tmp_path)
    for foreign in ("[]", "{", "{}", '{"command": ["make thesis"]}'):
        (tmp_path / "made.json").write_text(foreign)
        with pytest.raises(InputError, match=r"made.json exists"):
            write(tmp_path)
        assert (tmp_path / "made.json").read_text() == foreign


@pytest.mark.parametrize("left", range(8))
def test_a_report_that_was_killed_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """After any number of the files that it writes."""
    write(tmp_path, old=Picture(b"1", b"2"))
    remaining: Iterator[int] = iter(range(left))
    real = output.save_bytes

    def save(path: Path, content: bytes) -> None:
        next(remaining)
        real(path, content)

    with monkeypatch.context() as patch, contextlib.suppress(StopIteration):
        patch.setattr(output, "save_bytes", save)
        write(tmp_path, OTHER)
    assert write(tmp_path, OTHER) == content(tmp_path).keys()


def test_reports_of_earlier_versions_are_known_again(tmp_path: Path) -> None:
    """They did not say which command wrote them, and named their files without digests."""
    names = [*output.FILES, "old.md"]
    made = {"command": ["lcpo reproduce windy --seeds 3"], "files": names}
    (tmp_path / "made.json").write_text(json.dumps(made))
    for name in names:
        (tmp_path / name).write_text("1")
    with pytest.raises(InputError, match="windy wrote: give lcpo reproduce ewc another folder"):
        write(tmp_path, by="lcpo reproduce ewc")
    write(tmp_path, by="lcpo reproduce windy")
    assert (tmp_path / "table.txt").read_text() != "1"
    assert not (tmp_path / "old.md").exists()


def test_a_page_is_written_over_a_page_only(tmp_path: Path) -> None:
    write(tmp_path / "o")
    file = tmp_path / "page.html"
    html.write_page(tmp_path / "o", file)
    html.write_page(tmp_path / "o", file)
    html.write_page(tmp_path / "o", by="lcpo compare")
    html.write_page(tmp_path / "o")  # the page of the folder, whoever wrote it before
    html.write_page(tmp_path / "o", file.with_name("other.html"), by="lcpo compare")
    for name in ("other.html", "o/made.json", "o/table.md"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match="was not written by lcpo report"):
            html.write_page(tmp_path / "o", tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_pages_of_earlier_versions_are_known_again(tmp_path: Path) -> None:
    write(tmp_path)
    page = html.write_page(tmp_path)
    text = page.read_text()
    (mark,) = [line for line in text.splitlines() if "generator" in line]
    page.write_text(text.replace(f"{mark}\n", ""))
    html.write_page(tmp_path)
    assert page.read_text() == text


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_picture_says_which_command_drew_it(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace.{suffix}"
    for _ in range(2):
        figures.save(figures.new_figure(1, 1), path, "lcpo trace")
    assert outputs.is_marked("lcpo trace")(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="was not written by lcpo calibrate"):
        figures.save(figures.new_figure(1, 1), path, "lcpo calibrate")
    path.write_bytes(figures.to_picture(figures.new_figure(1, 1)).png)
    with pytest.raises(InputError, match="was not written by lcpo trace"):
        figures.save(figures.new_figure(1, 1), path, "lcpo trace")
    assert before != path.read_bytes()


@pytest.mark.parametrize("kind", ["symbolic link", "folder", "named pipe", "socket"])
def test_only_regular_files_are_written_to(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "page.html"
    write(tmp_path / "o")
    if kind == "symbolic link":
        path.symlink_to(html.write_page(tmp_path / "o"))
    elif kind == "folder":
        path.mkdir()
    elif kind == "named pipe":
        os.mkfifo(path)
    else:
        bind(path)
    with pytest.raises(InputError, match=f"is a {kind}: give the name of a new file"):
        html.write_page(tmp_path / "o", path)
    with pytest.raises(InputError, match=f"is a {kind}"):
        output.write_bytes(path, b"x")
    assert outputs.kind_of(path) == kind


def bind(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", " =1",
            "-x", "=", "-1 (=HYPERLINK(1))", "-1,A1", "+-1"]  # fmt: skip
VALUES = [-1, -0.5, -1e-05, -1.5e20, -math.inf, "-", "5", "a=b", "x-y"]


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    table = Table([Column("a", key=FORMULAS[0]), "b"], [[x, y] for x in FORMULAS for y in VALUES])
    rows = list(csv.reader(io.StringIO(table.to_csv())))
    assert rows[0] == [f"'{FORMULAS[0]}", "b"]
    assert rows[1:] == [[f"'{x}", str(y)] for x in FORMULAS for y in VALUES]
    assert "\r" not in Table(["a"], [["x\r=1+1"]]).to_csv(), "a line of its own"


def test_every_text_of_the_committed_tables_stays_as_it_is() -> None:
    for path in RESULTS.glob("*/*.csv"):
        for row in csv.reader(path.read_text().splitlines()):
            texts = [cell for cell in row if isinstance(earlier.read_cell(cell), str)]
            assert [plain_text(cell) for cell in texts] == texts


def test_made_json_is_read_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers that do not end, values in values, and a link to what is nobody's business."""
    write(tmp_path / "o")
    file = tmp_path / "o" / "made.json"
    digits = [f"family:drift:{'9' * 5000}", f"family:drift:{'9' * 5000}"]
    file.write_text(json.dumps({"traces": digits}))
    assert "9" * 5000 in html.write_page(tmp_path / "o", tmp_path / "page.html").read_text()
    file.write_text('{"a": ' + "9" * 5000 + "}")
    assert run("report", str(tmp_path / "o")) == 2
    file.write_text('{"a": ' + "[" * 900 + "]" * 900 + "}")
    assert run("report", str(tmp_path / "o")) == 2
    assert "nested deeper than 8" in capsys.readouterr().err
    file.unlink()
    (tmp_path / "secret.json").write_text('{"note": "the secret"}')
    file.symlink_to(tmp_path / "secret.json")
    assert run("report", str(tmp_path / "o")) == 2
    assert "leads out of" in capsys.readouterr().err
    assert not (tmp_path / "o" / "report.html").exists()
    file.unlink()
    file.symlink_to("made.json")
    assert run("report", str(tmp_path / "o")) == 2
    assert "is a broken link" in capsys.readouterr().err
